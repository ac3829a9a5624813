"""Memory for waiting records: in turn, in time, and never more than there is."""

import asyncio

import pytest
from odradek.client.memory import BufferMemory
from odradek.protocol.errors import KafkaError


def test_who_came_first_is_served_first() -> None:
    async def run() -> list[str]:
        memory = BufferMemory(100)
        served: list[str] = []

        async def take(name: str, count: int) -> None:
            await memory.reserve(count, 5)
            served.append(name)

        await take("first", 80)
        waiting = [
            asyncio.ensure_future(take("large", 60)),
            asyncio.ensure_future(take("small", 10)),
        ]
        await asyncio.sleep(0)
        assert served == ["first"]
        assert memory.is_short
        memory.release(80)
        await asyncio.gather(*waiting)
        assert memory.free_bytes == 30
        return served

    assert asyncio.run(run()) == ["first", "large", "small"]


def test_waiting_ends_after_the_given_time() -> None:
    async def run() -> BufferMemory:
        memory = BufferMemory(100)
        await memory.reserve(100, 5)
        with pytest.raises(KafkaError, match="the buffer is full"):
            await memory.reserve(1, 0.01)
        memory.release(100)
        return memory

    memory = asyncio.run(run())
    assert memory.free_bytes == 100
    assert not memory.is_short


def test_one_who_leaves_the_line_lets_the_next_in() -> None:
    async def run() -> None:
        memory = BufferMemory(100)
        await memory.reserve(50, 5)
        large = asyncio.ensure_future(memory.reserve(80, 5))
        small = asyncio.ensure_future(memory.reserve(20, 5))
        await asyncio.sleep(0)
        large.cancel()
        await small
        assert memory.free_bytes == 30

    asyncio.run(run())


def test_what_can_never_fit_is_refused_at_once() -> None:
    with pytest.raises(KafkaError, match="do not fit"):
        asyncio.run(BufferMemory(10).reserve(11, 60))
