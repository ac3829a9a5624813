"""Run one suite on one cluster."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.conformance.clusters import PROFILES, cluster
from tests.conformance.results import CALM, Outcome, Result
from tests.conformance.suite import Job, Suite

BUILD = Path(__file__).parent.parent.parent / "build" / "conformance"


def run_suite(
    suite: Suite,
    *,
    on: str,
    profile: str,
    only: tuple[str, ...] = (),
    tell: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """All results. What alarmed our brokers counts as a test that failed."""
    folder = suite.bring()
    logs = BUILD / f"{suite.name}-{on.replace(':', '-')}-{time.time_ns()}"
    logs.mkdir(parents=True)
    results = []
    with cluster(on, PROFILES[profile], logs / "data", suite.settings) as running:
        for result in suite.run(Job(folder, running, only, logs)):
            results.append(result)
            tell(result)
        troubles = [*running.alarms(), *(f"{name} has ended" for name in running.ended())]
        for process in running.processes:
            (logs / f"{process.name}.log").write_text("\n".join(process.output))
    if on == "odradek":
        outcome = Outcome.FAILED if troubles else Outcome.PASSED
        results.append(Result(CALM, outcome, 0.0, "\n".join(troubles)))
    return results
