"""Faults on demand: which requests go wrong, in what way and how often.

    faults = Faults()
    faults.attach(broker.fault_point())
    rule = faults.add(api="Produce", topic="orders", error="NOT_ENOUGH_REPLICAS", times=2)
    ...
    assert rule.hits == 2

A rule names requests by API, topic, partition, group and client id, and says what becomes of them:
an error, a delay, a connection that breaks before the work or after it. Here are the rules alone;
`fault_routes` makes a broker obey them, and is not in the way of requests while there are none.

Rules may be added and taken away from any thread; they are counted on the broker's own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from random import Random
from threading import Lock
from typing import Literal, Protocol

from odradek.protocol.errors import Errors
from odradek.protocol.registry import API_NAMES


class Drop(Enum):
    """Where a connection breaks."""

    CONNECTION = "connection"
    """Before anything is done."""
    ANSWER = "answer"
    """After everything is done: the client cannot know whether it was."""


@dataclass(slots=True, kw_only=True, eq=False)
class Rule:
    """One fault. `seen` counts the requests it is about, `hits` those that went wrong."""

    api: str | None
    topic: str | None
    partition: int | None
    group: str | None
    client_id: str | None
    error: Errors | None
    delay_ms: int
    drop: Drop | None
    nth: int
    times: int | None
    probability: float
    random: Random = field(repr=False)
    seen: int = 0
    hits: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing will go wrong by this rule any more."""
        return self.times is not None and self.hits >= self.times

    @property
    def names_partitions(self) -> bool:
        return self.topic is not None or self.partition is not None

    def is_about(self, topic: str, partition: int | None) -> bool:
        """Whether it is about this partition, or a request's word about a whole topic."""
        return self.topic in (None, topic) and self.partition in (None, partition)

    def strikes(self) -> bool:
        """Count a request the rule is about; whether it is one that goes wrong."""
        self.seen += 1
        if self.seen < self.nth or self.is_spent:
            return False
        if self.probability < 1 and self.random.random() >= self.probability:
            return False
        self.hits += 1
        return True


class Point(Protocol):
    """Where faults come in: a broker."""

    def obey(self, rules: Sequence[Rule], set_spent_aside: Callable[[], None]) -> None:
        """Take over these rules instead of those before; call back when one is spent."""
        ...

    def let_go(self) -> None:
        """Send the answers that a delay holds back."""
        ...


class Faults:
    """The rules, in the order in which they are looked at: the first that strikes decides."""

    def __init__(self) -> None:
        self._rules: tuple[Rule, ...] = ()
        self._points: list[Point] = []
        # Orders changes by tests' threads and by a broker's that sets a spent rule aside.
        self._changing = Lock()

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def hits(self) -> int:
        """How many requests have gone wrong by the rules there are."""
        return sum(rule.hits for rule in self._rules)

    def add(
        self,
        *,
        api: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        client_id: str | None = None,
        error: str | int | Errors | None = None,
        delay_ms: int = 0,
        drop: Literal["connection", "answer"] | None = None,
        nth: int | None = None,
        times: int | None = None,
        probability: float = 1.0,
        seed: int = 0,
    ) -> Rule:
        """Let requests go wrong from now on. Raises ValueError for a rule that makes no sense.

        `nth` is the first of the matching requests that goes wrong, and the only one unless
        `times` says otherwise; without either all of them do.
        """
        if drop is not None and error is not None:
            raise ValueError("a rule has an error or a drop, not both")
        if drop is None and error is None and delay_ms <= 0:
            raise ValueError("a rule needs an error, a delay_ms or a drop")
        if not 0 < probability <= 1:
            raise ValueError(f"a probability is above 0 and at most 1, not {probability}")
        if (nth is not None and nth < 1) or (times is not None and times < 1):
            raise ValueError("nth and times count from 1")
        rule = Rule(
            api=None if api is None else _known_api(api),
            topic=topic,
            partition=partition,
            group=group,
            client_id=client_id,
            error=None if error is None else _known_error(error),
            delay_ms=delay_ms,
            drop=None if drop is None else Drop(drop),
            nth=nth or 1,
            times=1 if nth is not None and times is None else times,
            probability=probability,
            random=Random(seed),
        )
        with self._changing:
            self._rules = (*self._rules, rule)
            self._install()
        return rule

    def remove(self, rule: Rule) -> None:
        """Take a rule back; fine when it is gone already."""
        with self._changing:
            self._rules = tuple(other for other in self._rules if other is not rule)
            self._install()

    def clear(self) -> None:
        with self._changing:
            self._rules = ()
            self._install()

    def attach(self, point: Point) -> None:
        """Have the rules obeyed there from now on."""
        with self._changing:
            self._points.append(point)
            self._install()

    def detach(self, point: Point) -> None:
        """Have them obeyed there no more, for the broker is about to stop."""
        with self._changing:
            self._points.remove(point)
        point.let_go()

    def _set_spent_aside(self) -> None:
        """Spent rules stay listed, but requests are not looked at for them any more."""
        with self._changing:
            self._install()

    def _install(self) -> None:
        alive = tuple(rule for rule in self._rules if not rule.is_spent)
        for point in self._points:
            point.obey(alive, self._set_spent_aside)


def _known_api(name: str) -> str:
    if name not in API_NAMES:
        raise ValueError(f"there is no API {name!r}{_meant(name, API_NAMES)}")
    return name


def _known_error(given: str | int | Errors) -> Errors:
    error = Errors.of(given) if isinstance(given, int) else Errors.__members__.get(given)
    if error is None or (isinstance(given, int) and error != given):
        raise ValueError(f"there is no error {given!r}{_meant(str(given), Errors.__members__)}")
    if error is Errors.NONE:
        raise ValueError("NONE is no error")
    return error


def _meant(given: str, known: Iterable[str]) -> str:
    near = get_close_matches(given, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
