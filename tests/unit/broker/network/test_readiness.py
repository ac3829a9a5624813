"""Connections that speak together are begun together, then answered; who is alone is not kept."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from odradek.broker.network.readiness import LoopReaders, Readers, Readiness


class Talker:
    """One end of a connection that is told of bytes, and writes down what became of it."""

    def __init__(self, name: str, table: "Table") -> None:
        self.name = name
        self.mine, self.theirs = socket.socketpair()
        self.mine.setblocking(False)
        self.table = table
        self.ends: Talker | None = None
        self.fails_in = ""

    def speak(self) -> None:
        self.theirs.send(b"word")

    def on_readable(self) -> None:
        if self.begin():
            self.answer()

    def begin(self) -> bool:
        self.mine.recv(100)
        self._note("begin")
        if self.ends is not None:
            self.table.readers.remove(self.ends.mine.fileno())
        return True

    def answer(self) -> None:
        self._note("answer")

    def _note(self, step: str) -> None:
        self.table.story.append(f"{step} {self.name}")
        if step == self.fails_in:
            raise ZeroDivisionError(self.name)


class Table:
    def __init__(self, readers: Readers) -> None:
        self.readers = readers
        self.story: list[str] = []
        self.talkers: list[Talker] = []

    def seat(self, *names: str) -> list[Talker]:
        seated = [Talker(name, self) for name in names]
        for talker in seated:
            self.readers.add(talker.mine.fileno(), talker)
        self.talkers += seated
        return seated

    def leave(self) -> None:
        for talker in self.talkers:
            with contextlib.suppress(KeyError):
                self.readers.remove(talker.mine.fileno())
            talker.mine.close()
            talker.theirs.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def table(loop: asyncio.AbstractEventLoop) -> Iterator[Table]:
    readiness = Readiness(loop)
    table = Table(readiness)
    yield table
    table.leave()
    readiness.close()


def turn(loop: asyncio.AbstractEventLoop) -> None:
    """One look at what is ready, and all that comes of it."""
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_who_speaks_alone_is_answered_at_once(
    loop: asyncio.AbstractEventLoop, table: Table
) -> None:
    one, _ = table.seat("one", "other")
    one.speak()
    turn(loop)
    assert table.story == ["begin one", "answer one"]


def test_those_who_speak_together_are_begun_before_the_first_is_answered(
    loop: asyncio.AbstractEventLoop, table: Table
) -> None:
    for talker in table.seat("a", "b", "c"):
        talker.speak()
    turn(loop)
    assert table.story == ["begin a", "begin b", "begin c", "answer a", "answer b", "answer c"]


def test_an_answer_waits_for_seven_others_at_most(
    loop: asyncio.AbstractEventLoop, table: Table
) -> None:
    names = [str(number) for number in range(20)]
    for talker in table.seat(*names):
        talker.speak()
    turn(loop)
    assert table.story[:8] == [f"begin {name}" for name in names[:8]]
    assert table.story[8:16] == [f"answer {name}" for name in names[:8]]
    assert sorted(table.story) == sorted(
        f"{step} {name}" for name in names for step in ("begin", "answer")
    )


def test_many_at_once_do_not_keep_the_loop_from_its_turn(
    loop: asyncio.AbstractEventLoop, table: Table
) -> None:
    for talker in table.seat(*(str(number) for number in range(100))):
        talker.speak()
    turn(loop)
    assert len(table.story) == 2 * 64
    turn(loop)
    assert len(table.story) == 2 * 100


def test_one_that_another_has_ended_hears_nothing_more(
    loop: asyncio.AbstractEventLoop, table: Table
) -> None:
    one, other, third = table.seat("one", "other", "third")
    one.ends = other
    for talker in (one, other, third):
        talker.speak()
    turn(loop)
    assert table.story == ["begin one", "begin third", "answer one", "answer third"]


@pytest.mark.parametrize("step", ["begin", "answer"])
def test_one_that_fails_is_reported_and_the_others_are_answered(
    loop: asyncio.AbstractEventLoop, table: Table, step: str
) -> None:
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    a, b, c = table.seat("a", "b", "c")
    b.fails_in = step
    for talker in (a, b, c):
        talker.speak()
    turn(loop)
    assert table.story[-1] == "answer c"
    assert "answer a" in table.story
    assert [str(context["exception"]) for context in reported] == ["b"]


def test_one_that_was_removed_is_told_again_after_it_is_added(
    loop: asyncio.AbstractEventLoop, table: Table
) -> None:
    (one,) = table.seat("one")
    table.readers.remove(one.mine.fileno())
    one.speak()
    turn(loop)
    assert table.story == []
    table.readers.add(one.mine.fileno(), one)
    turn(loop)
    assert table.story == ["begin one", "answer one"]


def test_the_loops_own_readers_tell_one_after_the_other(
    loop: asyncio.AbstractEventLoop,
) -> None:
    table = Table(LoopReaders(loop))
    for talker in table.seat("a", "b"):
        talker.speak()
    turn(loop)
    assert sorted(table.story[:2]) in (["answer a", "begin a"], ["answer b", "begin b"])
    assert len(table.story) == 4
    table.leave()
