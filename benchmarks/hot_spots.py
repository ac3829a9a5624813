"""Where does a broker's time go?

    python -m benchmarks.hot_spots ["consume" ...]

For each workload a broker serves once plainly, to tell what a request costs and how much of it is
the kernel's, and once with `--profile`, to tell which functions the rest is spent in. A profile
makes small functions look dearer than they are: shares are a hint, the plain figures are the truth.
"""

import argparse
import json
import os
import pstats
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._brokers import COMPILED_ONCE, scratch
from benchmarks._librdkafka import produce_synchronously, produce_unbatched
from benchmarks.grid.growth import Connections, allow_open_files
from benchmarks.grid.load import ALONE, Consume, Done, Existing, Produce, Workload, make_topic
from tests.support.network import HOST, free_port
from tests.support.odradek import PROGRAM
from tests.support.processes import Process

ROOT = Path(__file__).resolve().parents[1]


class Crowd:
    """Small requests, five at once, over so many connections in turns: `growth` of the grid."""

    shape = ALONE

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._load: Connections | None = None

    def prepare(self, bootstrap: str, topic: str) -> None:
        """Kept open for all runs: to open them is not what is measured."""
        allow_open_files()
        port = int(bootstrap.rpartition(":")[2])
        self._load = Connections(port, self._connections, topic)

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        assert self._load is not None, "it was prepared"
        began, requests = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < seconds:
            self._load.run(_CROWD_REQUESTS, _AT_ONCE)
            requests += _CROWD_REQUESTS
        return Done(requests, 0, passed)


WORKLOADS: dict[str, Workload] = {
    "produce in 16 KB batches": Produce(),
    "produce unbatched": Existing(produce_unbatched),
    "produce synchronously": Existing(produce_synchronously),
    "consume": Consume(),
    **{f"five at once, {number} connections": Crowd(number) for number in (1, 5, 1000)},
}
TOPIC = "hot"
MOST = 12
_AT_ONCE, _CROWD_REQUESTS = 5, 1000
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    user_us: float
    kernel_us: float


class Spot(NamedTuple):
    function: str
    share: float
    calls_per_record: float


def spent_by(workload: Workload, seconds: float) -> Spent:
    """CPU of a record."""
    with scratch() as directory, _serving(directory) as (process, port):
        bootstrap = f"{HOST}:{port}"
        make_topic(bootstrap, TOPIC, workload.shape)
        workload.prepare(bootstrap, TOPIC)
        workload.run(bootstrap, TOPIC, seconds / 4)
        before = _cpu_ticks(process)
        records = workload.run(bootstrap, TOPIC, seconds).records
        ticks = (after - began for began, after in zip(before, _cpu_ticks(process), strict=True))
        return Spent(*(each / _TICKS_PER_SECOND / records * 1e6 for each in ticks))


def hot_spots(workload: Workload, seconds: float) -> list[Spot]:
    with scratch() as directory:
        profile = directory / "profile"
        with _serving(directory, "--profile", str(profile)) as (_, port):
            bootstrap = f"{HOST}:{port}"
            make_topic(bootstrap, TOPIC, workload.shape)
            workload.prepare(bootstrap, TOPIC)
            records = workload.run(bootstrap, TOPIC, seconds).records
        return spots_in(pstats.Stats(str(profile)), records)


def spots_in(stats: pstats.Stats, records: int) -> list[Spot]:
    """The functions by their own time, without the wait for events."""
    rows = [
        (_named(*where), own, calls)
        for where, (_, calls, own, _, _) in stats.stats.items()  # type: ignore[attr-defined]
        if not _is_the_loop(where)
    ]
    total = sum(own for _, own, _ in rows)
    rows.sort(key=lambda row: -row[1])
    return [Spot(name, own / total, calls / records) for name, own, calls in rows[:MOST]]


def _is_the_loop(where: tuple[str, int, str]) -> bool:
    """What waits for events and calls everything else: the runner, and uvloop where it is seen."""
    path, _, function = where
    return path.endswith("runners.py") or "uvloop" in function


def _named(path: str, line: int, function: str) -> str:
    if path == "~":
        return function
    found = Path(path)
    inside = found.relative_to(ROOT) if found.is_relative_to(ROOT) else Path(found.name)
    return f"{inside}:{line} {function}"


@contextmanager
def _serving(directory: Path, *options: str) -> Iterator[tuple[Process, int]]:
    port = free_port()
    where = ("--host", HOST, "--port", str(port), "--data-dir", str(directory / "data"))
    with Process(
        [PROGRAM, "serve", *where, *options], name="odradek", environment=COMPILED_ONCE
    ) as process:
        process.wait_for_line("^Odradek ready on ")
        yield process, port


def _cpu_ticks(process: Process) -> tuple[int, int]:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    user, kernel = stat.rpartition(")")[2].split()[11:13]
    return int(user), int(kernel)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short rounds")
    parser.add_argument("names", nargs="*", metavar="workload", help=", ".join(WORKLOADS))
    arguments = parser.parse_args()
    names = arguments.names or list(WORKLOADS)
    if unknown := set(names) - set(WORKLOADS):
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    seconds = 1.0 if arguments.quick else 5.0
    results: dict[str, Any] = {}
    for name in names:
        workload = WORKLOADS[name]
        spent = spent_by(workload, seconds)
        spots = hot_spots(workload, seconds)
        results[name] = {**spent._asdict(), "spots": [spot._asdict() for spot in spots]}
        print(
            f"{name}: {spent.user_us:.2f} µs and {spent.kernel_us:.2f} in the kernel a record",
            file=sys.stderr,
        )
        for spot in spots:
            shown = f"{spot.share:>7.1%} {spot.calls_per_record:>8.2f} {spot.function}"
            print(f"  {shown}", file=sys.stderr)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
