"""The transactions of a story as their producers know them, held against what the logs say.

A producer that was told of a commit must find all its records counted. One that never asked for
it, or was refused, must find none. One that asked and heard nothing may find either, but all of
them or none. So these have no place:

- aborted data that counts (G1a), committed data that does not (lost), a part that does (torn)
- a record that was copied in transactions and lies in the output twice, or is left out: a copier
  commits its position in the source with the copies, so both happen or neither
- what one producer writes to a partition in another order than it was sent
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from odradek.protocol.types import TopicPartition

from tests.sim.clients import Sent


class Wish(Enum):
    """What a producer asked for and was told."""

    NO_COMMIT = auto()
    PERHAPS = auto()
    COMMITTED = auto()


@dataclass(slots=True)
class Attempt:
    """One transaction. `sources` are the marks of what its batches are copies of, if they are."""

    producer: str
    name: str
    number: int
    wish: Wish = Wish.NO_COMMIT
    batches: list[Sent] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.producer}"

    def problem(self, counts: Mapping[int, bool]) -> str | None:
        """What is wrong with it; `counts` says of marks that lie in a log whether they count."""
        seen = {sent.mark for sent in self.batches if counts.get(sent.mark)}
        if self.wish is Wish.NO_COMMIT and seen:
            return f"{self} was not committed, and {min(seen)} is read"
        if self.wish is Wish.COMMITTED and len(seen) < len(self.batches):
            lost = min(sent.mark for sent in self.batches if sent.mark not in seen)
            return f"{self} was committed, and {lost} is not read"
        if 0 < len(seen) < len(self.batches):
            return f"{self} is torn: of {len(self.batches)} batches {len(seen)} are read"
        return None


class Ledger:
    def __init__(self) -> None:
        self.attempts: list[Attempt] = []

    def open(self, producer: str, name: str) -> Attempt:
        attempt = Attempt(producer, name, len(self.attempts))
        self.attempts.append(attempt)
        return attempt

    def problems(self, counts: Mapping[int, bool]) -> Iterable[str]:
        for attempt in self.attempts:
            problem = attempt.problem(counts)
            if problem is not None:
                yield problem

    def copied(self, name: str, counts: Mapping[int, bool]) -> list[int]:
        """The marks of what was copied under this name, for each copy that counts."""
        return [
            source
            for attempt in self.attempts
            if attempt.name == name
            for sent, source in zip(attempt.batches, attempt.sources, strict=False)
            if counts.get(sent.mark)
        ]


def copy_problem(source: list[int], copies: list[int]) -> str | None:
    """What is wrong with copies, told by the marks of their sources, of a partition whose batches
    that count are these. Copies lie in several partitions, so they have no order."""
    twice = {mark for mark in copies if copies.count(mark) > 1}
    if twice:
        return f"{min(twice)} was copied more than once"
    if set(copies) != set(source[: len(copies)]):
        missing = [mark for mark in source[: len(copies)] if mark not in set(copies)]
        return f"{missing[0]} was passed over by those who copied more than it"
    return None


def order_problem(marks: list[int], sent: Callable[[int], Sent]) -> str | None:
    """Marks count up as they are sent, so each producer's must in each partition."""
    last: dict[tuple[str, TopicPartition], int] = {}
    for mark in marks:
        batch = sent(mark)
        key = (batch.producer, batch.where)
        if mark < last.get(key, 0):
            return f"{batch} comes after {last[key]}"
        last[key] = mark
    return None
