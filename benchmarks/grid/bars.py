"""What must be reached, as data, and whether it is: medians of the same run, cell by cell.

A bar compares our reading with a peer's, with a limit of the machine, or with our own reading where
there is only one connection or partition. It is met where every cell meets it; a cell that was not
measured says nothing. Beside each verdict stands whether the rounds bear it out, or whether the
next run may well say the opposite; that changes no verdict.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.grid.chance import LIKELY, chance_of_order
from benchmarks.grid.limits import SENDFILE, UNPACED_SENDFILE
from benchmarks.grid.peers import KAFKA_3, KAFKA_4, KFAKE, REPLAY
from benchmarks.grid.readings import OURS, Reading, Result

_FIRST_NUMBER = re.compile(r"^\d+")


@dataclass(frozen=True, slots=True)
class Peers:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """A reading of the machine itself."""

    scenario: str
    cell: str


@dataclass(frozen=True, slots=True)
class OursAt:
    """Our own reading in the cell that differs by its leading number alone."""

    number: int


KAFKAS = Peers((KAFKA_3, KAFKA_4))
LIGHT = Peers((KFAKE,))
CLIENT = Peers((REPLAY,))
AS_THE_SYSTEM_SENDS = Limit("limits", SENDFILE)
AS_THE_MACHINE_CAN = Limit("limits", UNPACED_SENDFILE)


@dataclass(frozen=True, slots=True)
class Bar:
    what: str
    scenarios: tuple[str, ...]
    metric: str
    against: Peers | Limit | OursAt
    at_least: float | None = None
    at_most: float | None = None
    cells: str = ""
    """A regular expression that a cell must begin with."""

    @property
    def wanted(self) -> str:
        return f">= {self.at_least:g}x" if self.at_least is not None else f"<= {self.at_most:g}x"

    def is_met_by(self, ratio: float) -> bool:
        if self.at_least is not None:
            return ratio >= self.at_least
        assert self.at_most is not None, "a bar has one side"
        return ratio <= self.at_most

    def worst(self, ratios: Sequence[float]) -> float:
        return min(ratios) if self.at_least is not None else max(ratios)


_BATCHED = "produce MB/s, 16 KB batches, one broker"
_UNBATCHED = "unbatched produce, requests/s"
_CONSUMED = ("consume", "raw-consume")
_P50, _P99 = "synchronous produce, p50", "synchronous produce, p99"

BARS: tuple[Bar, ...] = (
    Bar(_BATCHED, ("acks", "partitions"), "MB/s", KAFKAS, at_least=1.5),
    Bar(_BATCHED, ("acks", "partitions"), "MB/s", LIGHT, at_least=0.9),
    Bar("produce MB/s, 1 MB batches, each size", ("sizes",), "MB/s", KAFKAS, at_least=1.0),
    Bar("produce MB/s, 1 MB batches, each codec", ("codecs",), "MB/s", KAFKAS, at_least=1.0),
    Bar(_UNBATCHED, ("unbatched",), "records/s", KAFKAS, at_least=2.5),
    Bar(_UNBATCHED, ("unbatched",), "records/s", LIGHT, at_least=0.9),
    Bar("consume MB/s", _CONSUMED, "MB/s", KAFKAS, at_least=1.0),
    Bar("consume MB/s", _CONSUMED, "MB/s", LIGHT, at_least=1.0),
    Bar("consume MB/s", _CONSUMED, "MB/s", AS_THE_SYSTEM_SENDS, at_least=0.6),
    Bar("consume MB/s", _CONSUMED, "MB/s", AS_THE_MACHINE_CAN, at_least=0.6),
    Bar("consume MB/s", ("consume",), "MB/s", CLIENT, at_least=0.9),
    Bar(_P50, ("synchronous",), "p50 µs", KAFKAS, at_most=0.8),
    Bar(_P99, ("synchronous",), "p99 µs", KAFKAS, at_most=1.0),
    Bar(_P50, ("synchronous",), "p50 µs", LIGHT, at_most=1.0),
    Bar(_P99, ("synchronous",), "p99 µs", LIGHT, at_most=1.0),
    Bar("server CPU of an unbatched request", ("unbatched",), "CPU µs/record", KAFKAS, at_most=0.6),
    Bar(
        "RF 2 and 4, acks=all: MB/s",
        ("replicas-4", "replicas-2"),
        "MB/s",
        KAFKAS,
        at_least=1.5,
        cells=r"RF [24], min.insync \d, acks=all",
    ),
    Bar(
        "RF 2 and 4, acks=all: p50",
        ("replicas-latency",),
        "p50 µs",
        KAFKAS,
        at_most=0.8,
        cells="producer",
    ),
    Bar("start to ready", ("life",), "s", KAFKAS, at_most=0.15),
    Bar("RSS idle", ("life",), "RSS MB", KAFKAS, at_most=0.15, cells="idle"),
    Bar("RSS loaded", ("life",), "RSS MB", KAFKAS, at_most=0.1, cells="loaded"),
    Bar(
        "growth to 1,000 connections or partitions, CPU of a request",
        ("growth",),
        "CPU µs/request",
        OursAt(1),
        at_most=1.3,
        cells="1000 ",
    ),
    # Five at once on one connection come and go together; on five, as on a thousand, each alone.
    Bar(
        "growth from 5 to 1,000 connections, each asked once, CPU of a request",
        ("growth",),
        "CPU µs/request",
        OursAt(5),
        at_most=1.3,
        cells="1000 connections, 5 at once",
    ),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar in one cell, against one other."""

    bar: Bar
    scenario: str
    cell: str
    other: str
    ours: Reading
    theirs: Reading

    @property
    def ratio(self) -> float:
        return self.ours.median / self.theirs.median

    @property
    def is_met(self) -> bool:
        return self.bar.is_met_by(self.ratio)

    @property
    def is_borne_out(self) -> bool:
        """Whether the rounds are on this side of the bar by more than chance; too few say nothing
        against it."""
        bar = self.bar.at_least if self.bar.at_least is not None else self.bar.at_most
        assert bar is not None, "a bar has one side"
        at_the_bar = [bar * each for each in self.theirs.rounds]
        is_above = (self.bar.at_least is not None) == self.is_met
        lower, higher = (
            (at_the_bar, self.ours.rounds) if is_above else (self.ours.rounds, at_the_bar)
        )
        return chance_of_order(lower, higher) <= LIKELY


def judge(bar: Bar, results: Mapping[str, Result]) -> Iterator[Verdict]:
    for scenario in bar.scenarios:
        if (result := results.get(scenario)) is None:
            continue
        for cell in result.cells():
            ours = result.find(cell, OURS, bar.metric)
            if ours is None or not re.match(bar.cells, cell):
                continue
            for other, theirs in _others(bar, results, result, cell):
                yield Verdict(bar, scenario, cell, other, ours, theirs)


def _others(
    bar: Bar, results: Mapping[str, Result], result: Result, cell: str
) -> Iterator[tuple[str, Reading]]:
    match bar.against:
        case Peers(names):
            found = [(name, result.find(cell, name, bar.metric)) for name in names]
        case Limit(scenario, limit):
            machine = results[scenario].readings if scenario in results else ()
            same = (r for r in machine if r.cell == limit and r.metric == bar.metric)
            found = [(limit, next(same, None))]
        case OursAt(number):
            base = _FIRST_NUMBER.sub(str(number), cell)
            found = [(base, result.find(base, OURS, bar.metric))]
    yield from ((name, reading) for name, reading in found if reading is not None)
