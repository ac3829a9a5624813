"""Renew requirements/dev.lock: resolve the ranges of pyproject.toml in a throw-away environment.

Tests run on exact versions while users get ranges; this is the one place that turns the second
into the first. Run it on the oldest supported Python, so that every version also serves newer ones.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from scripts.environment import LOCK_FILE, ROOT

HEADER = """\
# Exact versions for development and tests; made by `make lock`, not by hand.
# The ranges that users get are in pyproject.toml.
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "bin", "python"))
        print("lock: resolving the dev extra", flush=True)
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--editable", f"{ROOT}[dev]"], check=True)
        frozen = subprocess.run(
            [*pip, "freeze", "--exclude-editable"], check=True, capture_output=True, text=True
        )
    LOCK_FILE.write_text(HEADER + frozen.stdout)
    print(f"lock: wrote {LOCK_FILE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
