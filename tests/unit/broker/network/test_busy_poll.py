"""Staying awake for the next request: when the loop does, and when it lets it be."""

from collections.abc import Callable
from random import Random

from odradek.broker.network.busy_poll import BusyPoll

SECONDS = 200e-6
TURN_SECONDS = 4e-6


class Loop:
    """An event loop and its machine: each turn takes some microseconds, unless others take the core
    when it is offered."""

    def __init__(self) -> None:
        self.time = 0.0
        self.taken_seconds = 0.0
        """By others, each time they may."""
        self._soon: list[Callable[[], None]] = []
        self.poll = BusyPoll(
            seconds=SECONDS,
            now=lambda: self.time,
            call_soon=self._soon.append,
            give_way=self._others_run,
        )

    @property
    def is_awake(self) -> bool:
        """Whether it would not sleep now, if no event is there."""
        return bool(self._soon)

    def _others_run(self) -> None:
        self.time += self.taken_seconds

    def turn(self) -> None:
        self.time += TURN_SECONDS
        due, self._soon[:] = list(self._soon), []
        for callback in due:
            callback()

    def hear(self) -> bool:
        """An event; whether the loop stays awake after it."""
        self.poll.heard()
        return self.is_awake

    def pass_time(self, seconds: float) -> None:
        """Turn until then, or until nothing keeps the loop awake."""
        end = self.time + seconds
        while self.is_awake and self.time < end:
            self.turn()
        self.time = max(self.time, end)

    def events_until_awake(self) -> int:
        number = 1
        while not self.hear():
            number += 1
            self.turn()
        return number


def test_the_loop_stays_awake_after_an_event_for_so_long_and_no_longer() -> None:
    loop = Loop()
    assert not loop.is_awake
    assert loop.hear()
    loop.pass_time(SECONDS - 2 * TURN_SECONDS)
    assert loop.is_awake
    loop.pass_time(4 * TURN_SECONDS)
    assert not loop.is_awake


def test_each_event_that_comes_in_time_prolongs_it() -> None:
    loop = Loop()
    for _ in range(1000):
        assert loop.hear()
        loop.pass_time(SECONDS / 2)
        assert loop.is_awake


def test_misses_let_more_and_more_events_pass() -> None:
    loop = Loop()
    waits = []
    for _ in range(6):
        waits.append(loop.events_until_awake())
        loop.pass_time(1.0)
    assert waits == [1, 5, 17, 65, 257, 257]


def test_being_of_use_four_times_makes_up_for_a_miss() -> None:
    loop = Loop()
    for _ in range(2):
        loop.events_until_awake()
        loop.pass_time(1.0)
    loop.events_until_awake()
    for _ in range(4):
        loop.pass_time(SECONDS / 2)
        loop.hear()
    loop.pass_time(1.0)
    assert loop.events_until_awake() == 17  # as after two misses, not three


def test_a_broker_that_is_asked_now_and_then_mostly_sleeps() -> None:
    loop = Loop()
    random = Random(1)
    awake_seconds = 0.0
    for _ in range(10_000):
        loop.hear()
        gap = random.expovariate(1 / SECONDS)  # two of three come in time
        awake_seconds += min(gap, SECONDS) if loop.is_awake else 0.0
        loop.pass_time(gap)
    assert awake_seconds < 0.1 * loop.time


def test_where_others_take_the_core_the_loop_soon_sleeps() -> None:
    loop = Loop()
    loop.taken_seconds = SECONDS * 3 / 4
    loop.hear()
    loop.turn()
    loop.turn()
    assert not loop.is_awake
    assert loop.events_until_awake() == 5
    loop.pass_time(1.0)
    assert loop.events_until_awake() == 17


def test_who_takes_the_core_for_a_moment_does_not_send_the_loop_to_sleep() -> None:
    loop = Loop()
    loop.taken_seconds = SECONDS / 4
    loop.hear()
    loop.turn()
    loop.turn()
    assert loop.is_awake


def test_a_loop_that_always_has_something_to_do_need_not_look() -> None:
    loop = Loop()
    looked = 0
    for _ in range(1000):
        looked += loop.hear()
        loop.turn()
    assert looked < 250
    assert loop.hear() or loop.events_until_awake() < 65  # and soon finds out when that is over
