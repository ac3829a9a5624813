"""What does a broker inside a test cost?

Start and stop of `odradek.testing.Broker` and of a cluster of three in a running process, each
measured until a client could use it and until nothing is left of it; the first start of a process,
which has to import everything; and what pytest pays for the plugin in runs that do not use it.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import odradek.testing

from benchmarks._rows import Row, below, reading, tell

START_AND_STOP_MS = 150.0
IMPORT_MS = 5.0

FIRST_START = """
import time
began = time.perf_counter()
import odradek.testing
broker = odradek.testing.Broker().start()
print((time.perf_counter() - began) * 1000)
broker.close()
"""
PLUGIN = """
import time, pytest
began = time.perf_counter()
import odradek.testing.plugin
print((time.perf_counter() - began) * 1000)
"""


def start_and_stop_ms(
    make: Callable[[], AbstractContextManager[object]], rounds: int
) -> list[float]:
    with make():
        pass  # what is imported and compiled on the first use is measured elsewhere
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        with make():
            pass
        found.append((time.perf_counter() - began) * 1000)
    return found


def told_by(program: str, rounds: int) -> list[float]:
    """What a fresh process measures of itself."""
    return [
        float(
            subprocess.run(
                [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE
            ).stdout
        )
        for _ in range(rounds)
    ]


def measure(rounds: int) -> list[Row]:
    broker = start_and_stop_ms(odradek.testing.Broker, rounds)
    cluster = start_and_stop_ms(lambda: odradek.testing.Cluster(3), rounds)
    first = told_by(FIRST_START, max(1, rounds // 5))
    plugin = told_by(PLUGIN, max(1, rounds // 5))
    return [
        tell(below("broker, start and stop", broker, "ms", START_AND_STOP_MS)),
        tell(below("cluster of three, start and stop", cluster, "ms", START_AND_STOP_MS)),
        tell(reading("first broker of a process, with imports", min(first), "ms", rounds=first)),
        tell(below("pytest plugin, unused", plugin, "ms", IMPORT_MS)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rows = measure(3 if parser.parse_args().quick else 25)
    print(json.dumps({"python": platform.python_version(), "rows": rows}))


if __name__ == "__main__":
    main()
