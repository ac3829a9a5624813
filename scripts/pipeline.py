"""`make pipeline`: the whole data pipeline in one go, on a broker of its own.

Starts a broker, writes an activity log to it, lets the Spark job turn that into events and counts,
and shows the counts. What it leaves lies in build/pipeline and may be deleted.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from scripts.parts import ROOT, whats_missing

ODRADEK = Path(sys.executable).with_name("odradek")
FOLDER = ROOT / "build" / "pipeline"
LINES = 50_000
READY = "Odradek ready on "


def odradek(*words: str) -> None:
    print(f"$ odradek {' '.join(words)}", flush=True)
    subprocess.run([ODRADEK, *words], check=True)


def run_on(servers: str) -> None:
    there = ("-b", servers)
    odradek("topic", "create", "activity.raw", "-p", "2", *there)
    odradek("spark", "generate", "--count", str(LINES), *there)
    kept = ("--checkpoint", str(FOLDER / "checkpoint"), "--parquet", str(FOLDER / "counts"))
    odradek("spark", "activity", "--once", "--master", "local[2]", *kept, *there)
    odradek("group", "describe", "activity-log-events", *there)
    odradek("consume", "activity.counts", "--committed", "-F", "%s\\n", *there)


def main() -> int:
    if reason := whats_missing("spark"):
        print(f"pipeline: {reason}", file=sys.stderr)
        return 1
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    serve: list[str | Path] = [
        ODRADEK,
        "serve",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--ephemeral",
    ]
    with subprocess.Popen(
        serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as it:
        try:
            assert it.stdout is not None
            line = it.stdout.readline()
            if not line.startswith(READY):
                print("pipeline: the broker did not start", file=sys.stderr)
                return 1
            run_on(line.removeprefix(READY).strip())
        except subprocess.CalledProcessError as failure:
            return failure.returncode
        finally:
            it.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
