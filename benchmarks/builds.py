"""What has a change given? Two builds of ours under the same load, in turns.

    python -m benchmarks.builds --base HEAD~1 consume growth

The one is the working tree, the other a revision, checked out into build/base. Any scenario of the
grid in which peers take turns may be named; each of its cells is run by both builds in turns, so
that a noisy machine hits both. A ratio below 1 in the CPU of a request is a gain, in MB/s a loss.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks._brokers import COMPILED_ONCE, TIDY, scratch
from benchmarks._clusters import Cluster, clusters_of_builds
from benchmarks._rows import Row, beside, tell
from benchmarks.grid import growth
from benchmarks.grid.contest import FULL, QUICK, Effort, compete
from benchmarks.grid.readings import Reading
from benchmarks.grid.scenarios import SCENARIOS, Contest
from benchmarks.grid.stage import as_contestant, cluster_as_contestant
from tests.support.odradek import OdradekBroker

ROOT = Path(__file__).resolve().parents[1]
BASE = ROOT / "build" / "base"
NEW, OLD = "working tree", "base"
GROWTH = "growth"
CONTESTS = {each.name: each for each in SCENARIOS if isinstance(each, Contest)}
DEFAULT = ("unbatched", GROWTH)

# The builds by name: a broker of each, or a cluster.
There = Mapping[str, OdradekBroker | Cluster]


def check_out(revision: str) -> Path:
    """The packages of a revision, laid out as they are imported: what PYTHONPATH needs."""
    # Told by name here, where HEAD is ours: in build/base it is what was checked out last.
    commit = _git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    if not BASE.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", "--force", str(BASE), commit)
    _git("-C", str(BASE), "checkout", "--detach", "--force", "--quiet", commit)
    subprocess.run(["make", "--silent", "types"], cwd=BASE, check=True)
    return BASE / "build" / "types"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def compare(names: Sequence[str], packages: Path, effort: Effort) -> Iterator[Row]:
    # What is installed is the working tree; what PYTHONPATH names comes before it.
    environments = {
        NEW: COMPILED_ONCE,
        OLD: {**COMPILED_ONCE, "PYTHONPATH": str(packages)},
    }
    sizes = {name: 1 if name == GROWTH else CONTESTS[name].cluster_size for name in names}
    for size in sorted(set(sizes.values())):
        with _brokers(environments) if size == 1 else _clusters(size, environments) as there:
            for name in names:
                if sizes[name] == size:
                    yield from rows_of(name, _readings(name, there, effort))


@contextmanager
def _brokers(environments: Mapping[str, Mapping[str, str]]) -> Iterator[There]:
    with ExitStack() as stack:
        there = {}
        for name, environment in environments.items():
            directory = stack.enter_context(scratch())
            broker = OdradekBroker(directory / "data", overrides=TIDY, environment=environment)
            there[name] = stack.enter_context(broker)
        yield there


@contextmanager
def _clusters(size: int, environments: Mapping[str, Mapping[str, str]]) -> Iterator[There]:
    with clusters_of_builds(size, environments) as found:
        yield {each.name: each for each in found}


def _readings(name: str, there: There, effort: Effort) -> Iterator[Reading]:
    if name == GROWTH:
        brokers = {build: each for build, each in there.items() if isinstance(each, OdradekBroker)}
        for broker in brokers.values():
            growth.make_topics(broker, effort)
        return growth.among_many(brokers, {}, effort)
    peers = [
        cluster_as_contestant(each, build)
        if isinstance(each, Cluster)
        else as_contestant(each, build)
        for build, each in there.items()
    ]
    contest = CONTESTS[name]
    return compete(peers, contest.cells, contest.metrics, effort, keeps_topics=contest.only_reads)


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
    parser.add_argument(
        "--rounds",
        type=int,
        default=11,
        help="of each build, in turns (growth: short ones for each)",
    )
    parser.add_argument("names", nargs="*", metavar="scenario", help=f"{', '.join(DEFAULT)}")
    arguments = parser.parse_args()
    names = arguments.names or DEFAULT
    if unknown := set(names) - {*CONTESTS, GROWTH}:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    effort = QUICK if arguments.quick else replace(FULL, rounds=arguments.rounds)
    packages = check_out(arguments.base)
    print(json.dumps({"builds": [tell(row) for row in compare(names, packages, effort)]}))


if __name__ == "__main__":
    main()
