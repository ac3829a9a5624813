"""Suites come from their package registries into the cache, once, and are never committed.

    <cache>/conformance/<suite>-<version>/    complete as soon as the folder exists

What is made of the download (built, shims put in) belongs to the same folder; its name carries a
digest of our own shims, so that a changed shim makes a new one.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.parts import cache_dir
from scripts.steps import say

SHIMS = Path(__file__).parent / "shims"
BUILD_SECONDS = 1800.0


class Unavailable(Exception):
    """The suite cannot be had here: its registry, or a tool to build it, is missing."""


def bring(name: str, make: Callable[[Path], None], *, shims: Sequence[str] = ()) -> Path:
    """The folder of the suite; `make` fills it when it is not there yet."""
    folder = cache_dir() / "conformance" / f"{name}{_digest(shims)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        say(f"bringing {name}")
        started = time.monotonic()
        make(partial)
        partial.rename(folder)
        say(f"{name}: brought in {time.monotonic() - started:.0f} s")
    return folder


def _digest(shims: Sequence[str]) -> str:
    if not shims:
        return ""
    digest = hashlib.sha256()
    for name in shims:
        digest.update((SHIMS / name).read_bytes())
    return f"-{digest.hexdigest()[:8]}"


def run(
    command: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str] | None = None
) -> str:
    """The output of one step, which must succeed."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=BUILD_SECONDS,
        )
    except FileNotFoundError as absent:
        raise Unavailable(f"there is no command {command[0]}") from absent
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise Unavailable(f"`{' '.join(map(str, command))}` failed:\n{tail}")
    return done.stdout


def unpack(archive: Path, into: Path) -> None:
    run(["tar", "xzf", archive], cwd=into)
    archive.unlink()
