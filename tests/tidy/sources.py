"""The tracked files of the repository, for the rules in this folder."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "broker",
    "client",
    "controller",
    "protocol",
    "replication",
    "spark_jobs",
    "storage",
    "testing",
)


@cache
def tracked_texts() -> dict[str, str]:
    """Name and text of every file under version control that is still there and is text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found = {}
    for name in listed.stdout.rstrip("\0").split("\0"):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b"\0"
        if b"\0" not in content:
            found[name] = content.decode()
    return found


def python_texts(*folders: str) -> dict[str, str]:
    """The Python files among them, of all top-level folders or of some."""
    return {
        name: text
        for name, text in tracked_texts().items()
        if name.endswith(".py") and (not folders or name.split("/")[0] in folders)
    }
