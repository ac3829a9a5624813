"""How many lines of memory outside a core's cache something touches, by valgrind's cachegrind: a
figure that does not depend on what else the machine does. Only this process counts, no kernel.

A module that is measured runs itself with `--run NUMBER TIMES`: among so many, so many times.
"""

import re
import shutil
import subprocess
import sys

_CACHEGRIND = (
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=yes",
    "--D1=32768,8,64",
    "--LL=1048576,8,64",
    "--cachegrind-out-file=/dev/null",
)


def whats_missing() -> str | None:
    return None if shutil.which(_CACHEGRIND[0]) else "--lines needs valgrind"


def lines_touched(module: str, number: int, times: int) -> float:
    """By doing it once: the misses of a run with so many, less those of a run with none."""
    few, many = (_misses_of(module, number, count) for count in (0, times))
    return (many - few) / times


def _misses_of(module: str, number: int, times: int) -> int:
    run = [sys.executable, "-m", module, "--run", str(number), str(times)]
    done = subprocess.run([*_CACHEGRIND, *run], stderr=subprocess.PIPE, text=True, check=True)
    told = re.search(r"LLd misses: +([\d,]+)", done.stderr)
    assert told is not None, done.stderr
    return int(told[1].replace(",", ""))
