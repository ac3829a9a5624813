"""Run one suite on one cluster, or divided among several side by side."""

import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from tests.conformance.clusters import PROFILES, Cluster, cluster
from tests.conformance.results import CALM, Outcome, Result, Table
from tests.conformance.shards import divide, seconds_of
from tests.conformance.suite import Job, Suite

BUILD = Path(__file__).parent.parent.parent / "build" / "conformance"

Tell = Callable[[Result], None]


def run_suite(
    suite: Suite,
    *,
    on: str,
    profile: str,
    only: Sequence[str] = (),
    side_by_side: int = 1,
    known: Table | None = None,
    tell: Tell = lambda result: None,
) -> list[Result]:
    """All results. `known` tells how long tests take, to divide them well."""
    folder = suite.bring()
    logs = BUILD / f"{suite.name}-{profile}-{on.replace(':', '-')}-{time.time_ns()}"
    results: list[Result] = []
    telling = Lock()  # of the shards: whoever is told is told by one at a time

    def note(result: Result) -> None:
        with telling:
            results.append(result)
            tell(result)

    def run_shard(number: int, tests: Sequence[str]) -> None:
        place = logs / str(number)
        place.mkdir(parents=True)
        with cluster(on, PROFILES[profile], place / "data", suite.settings) as running:
            for result in suite.run(Job(folder, running, tests, place)):
                note(result)
            if on == "odradek":
                note(_calm(running))
            for process in running.processes:
                (place / f"{process.name}.log").write_text("\n".join(process.output))
        shutil.rmtree(place / "data", ignore_errors=True)

    shards = [tuple(only)]
    if suite.tests:
        shards = divide(seconds_of(only or suite.tests, known or {}), side_by_side)
    with ThreadPoolExecutor(len(shards)) as pool:
        list(pool.map(run_shard, range(len(shards)), shards))
    return results


def _calm(running: Cluster) -> Result:
    """What alarmed our brokers counts as a test that failed."""
    troubles = [*running.alarms(), *(f"{name} has ended" for name in running.ended())]
    outcome = Outcome.FAILED if troubles else Outcome.PASSED
    return Result(CALM, outcome, 0.0, "\n".join(troubles))
