"""What has a change given? Two builds of ours under the same load, in turns.

    python -m benchmarks.builds --base HEAD~1 consume growth

The one is the working tree, the other a revision, checked out into build/base. Any scenario of the
grid that is about one broker may be named; each of its cells is run by both builds in turns, so
that a noisy machine hits both. A ratio below 1 in the CPU of a request is a gain, in MB/s a loss.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks._brokers import COMPILED_ONCE, TIDY, cpu_seconds, scratch
from benchmarks._rows import Row, beside, tell
from benchmarks.grid import growth
from benchmarks.grid.contest import FULL, QUICK, Contestant, Effort, compete
from benchmarks.grid.readings import Reading
from benchmarks.grid.scenarios import SCENARIOS, Contest
from tests.support.odradek import OdradekBroker

ROOT = Path(__file__).resolve().parents[1]
BASE = ROOT / "build" / "base"
NEW, OLD = "working tree", "base"
GROWTH = "growth"
CONTESTS = {
    each.name: each for each in SCENARIOS if isinstance(each, Contest) and each.cluster_size == 1
}
DEFAULT = ("unbatched", GROWTH)


def check_out(revision: str) -> Path:
    """The packages of a revision, laid out as they are imported: what PYTHONPATH needs."""
    if not BASE.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", "--force", str(BASE), revision)
    _git("-C", str(BASE), "checkout", "--detach", "--force", "--quiet", revision)
    subprocess.run(["make", "--silent", "types"], cwd=BASE, check=True)
    return BASE / "build" / "types"


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=sys.stderr)


def compare(names: Sequence[str], packages: Path, effort: Effort) -> Iterator[Row]:
    with ExitStack() as stack:
        brokers = {}
        # What is installed is the working tree; what PYTHONPATH names comes before it.
        for name, found in ((NEW, {}), (OLD, {"PYTHONPATH": str(packages)})):
            directory = stack.enter_context(scratch())
            environment = {**COMPILED_ONCE, **found}
            broker = OdradekBroker(directory / "data", overrides=TIDY, environment=environment)
            brokers[name] = stack.enter_context(broker)
        for name in names:
            if name == GROWTH:
                for broker in brokers.values():
                    growth.make_topics(broker, effort)
                readings = growth.among_many(brokers, {}, effort)
            else:
                peers = [
                    Contestant(build, each.bootstrap, partial(cpu_seconds, each), lambda *_: None)
                    for build, each in brokers.items()
                ]
                contest = CONTESTS[name]
                readings = compete(
                    peers, contest.cells, contest.metrics, effort, keeps_topics=contest.only_reads
                )
            yield from rows_of(name, readings)


def rows_of(scenario: str, readings: Iterator[Reading]) -> Iterator[Row]:
    """A row for each cell and metric, once both builds have told theirs."""
    told: dict[tuple[str, str], dict[str, Reading]] = {}
    for reading in readings:
        both = told.setdefault((reading.cell, reading.metric), {})
        both[reading.peer] = reading
        if len(both) == 2:
            new, old = both[NEW], both[OLD]
            yield beside(
                f"{scenario}, {new.cell}",
                new.rounds,
                new.metric,
                peer=OLD,
                peer_readings=old.rounds,
            )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.builds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers: does it still run?")
    parser.add_argument("--base", default="HEAD", help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=11, help="of each build, in turns")
    parser.add_argument("names", nargs="*", metavar="scenario", help=f"{', '.join(DEFAULT)}")
    arguments = parser.parse_args()
    names = arguments.names or DEFAULT
    if unknown := set(names) - {*CONTESTS, GROWTH}:
        parser.error(f"no scenario of one broker: {', '.join(sorted(unknown))}")
    effort = QUICK if arguments.quick else replace(FULL, rounds=arguments.rounds)
    packages = check_out(arguments.base)
    print(json.dumps({"builds": [tell(row) for row in compare(names, packages, effort)]}))


if __name__ == "__main__":
    main()
