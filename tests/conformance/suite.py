"""What a suite is to the runner: where it comes from, what it wants, how it is run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.clusters import Cluster
from tests.conformance.results import Result


@dataclass(frozen=True, slots=True)
class Job:
    """One run: of the suite in `folder`, on `cluster`, of the named tests or of all."""

    folder: Path
    cluster: Cluster
    only: Sequence[str]
    logs: Path  # a folder of this run alone


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    version: str
    profile: str  # the one of the quick part; all of it is run on all
    bring: Callable[[], Path]
    run: Callable[[Job], Iterator[Result]]
    needs: tuple[str, ...] = ()  # parts, as tests.support.parts knows them
    settings: Mapping[str, object] = field(default_factory=dict)
    tests: tuple[str, ...] = ()  # where they can be divided among clusters, each by its name
    quick: tuple[str, ...] = ()  # those of the part that runs quickly, if not all do
    pieces: int = 1  # into how many the quick part is divided
