"""How many lines of memory outside a core's cache something touches, by valgrind's cachegrind: a
figure that does not depend on what else the machine does. Only this process counts, no kernel.

A module that is measured runs itself with `--run NUMBER TIMES`: among so many, so many times.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

from odradek.storage.files import raise_open_file_limit

_CACHEGRIND = (
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=yes",
    "--D1=32768,8,64",
    "--LL=1048576,8,64",
    "--cachegrind-out-file=/dev/null",
)


def wants_quick(module: str, description: str | None, run: Callable[[int, int], None]) -> bool:
    """Read the command line of such a module. Ends the process after `--lines` or `--run`; else
    tells whether few rounds will do."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: does it still run?")
    parser.add_argument("--lines", action="store_true", help="count lines of memory, by valgrind")
    parser.add_argument("--run", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    raise_open_file_limit()
    if arguments.run:
        run(*arguments.run)
        parser.exit()
    if arguments.lines:
        if shutil.which(_CACHEGRIND[0]) is None:
            parser.error("--lines needs valgrind")
        print(json.dumps({"lines": round(lines_touched(module, 1000, 4000), 1)}))
        parser.exit()
    return bool(arguments.quick)


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
