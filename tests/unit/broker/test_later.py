"""Answers that come later."""

import asyncio

from odradek.broker.later import Later


def test_who_waits_is_called_in_the_moment_of_the_result():
    later: Later[int] = Later()
    told: list[int] = []
    later.then(told.append)
    assert told == []
    later.set(1)
    assert told == [1]


def test_who_comes_afterwards_is_called_at_once():
    later: Later[int] = Later()
    later.set(1)
    told: list[int] = []
    later.then(told.append)
    assert told == [1]


def test_the_first_result_stays():
    later: Later[int] = Later()
    told: list[int] = []
    later.then(told.append)
    later.set(1)
    later.set(2)
    assert (told, later.result) == ([1], 1)


def test_it_can_be_awaited_before_and_after():
    async def scene() -> list[int]:
        later: Later[int] = Later()
        asyncio.get_running_loop().call_soon(later.set, 1)
        return [await later, await later]

    assert asyncio.run(scene()) == [1, 1]
