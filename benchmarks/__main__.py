"""Run the benchmarks: `python -m benchmarks [--quick] [name ...]`, all of them by default.

Each other module in this folder answers one question. It runs as `python -m benchmarks.<name>`,
takes `--quick` for small numbers, speaks to the reader on stderr and prints one JSON document on
stdout, which is kept as build/bench/<name>.json. Modules with a leading underscore are helpers.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER.parent / "build" / "bench"


def benchmark_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def run(name: str, *, quick: bool) -> bool:
    """Run one benchmark in a process of its own, so that none warms or burdens the next."""
    print(f"benchmark {name}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if quick else [])]
    done = subprocess.run(command, cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"benchmark {name} failed with status {done.returncode}", file=sys.stderr)
        return False
    result = RESULTS / f"{name}.json"
    result.write_text(json.dumps(json.loads(done.stdout), indent=2) + "\n")
    print(f"benchmark {name}: {result.relative_to(FOLDER.parent)}", file=sys.stderr)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers: does it still run?")
    parser.add_argument("names", nargs="*", help="benchmarks to run")
    arguments = parser.parse_args()
    names = arguments.names or benchmark_names()
    if unknown := set(names) - set(benchmark_names()):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    passed = [run(name, quick=arguments.quick) for name in names]
    print(f"{sum(passed)} of {len(names)} benchmarks ran", file=sys.stderr)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
