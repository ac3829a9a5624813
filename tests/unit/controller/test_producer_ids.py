"""No producer id is given twice, by any broker, in any life of the store."""

import asyncio

import pytest
from odradek.controller import paths
from odradek.controller.fields import INT64_MAX, BadNode
from odradek.controller.producer_ids import ProducerIds, block_after, next_block
from odradek.controller.registration import prepare
from odradek.controller.store_embedded import EmbeddedStore
from odradek.controller.znodes import ProducerIdBlock
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import KafkaError


def test_brokers_that_ask_at_once_get_different_blocks():
    async def scene() -> None:
        store = EmbeddedStore(clock=ManualClock())
        await prepare(store.session())
        blocks = await asyncio.gather(*(next_block(store.session(), b) for b in range(5)))
        assert sorted(block.first for block in blocks) == [0, 1000, 2000, 3000, 4000]
        assert all(block.last == block.first + 999 for block in blocks)
        await store.close()

    asyncio.run(scene())


def test_blocks_go_on_after_a_restart(tmp_path):
    async def take() -> int:
        store = EmbeddedStore(clock=ManualClock(), path=tmp_path / "db")
        block = await next_block(store.session(), 1)
        await store.close()
        return block.first

    assert [asyncio.run(take()) for _ in range(3)] == [0, 1000, 2000]


def test_ids_follow_each_other_and_blocks_are_shared_by_all_that_wait():
    async def scene() -> None:
        store = EmbeddedStore(clock=ManualClock())
        await prepare(store.session())
        ids = ProducerIds(lambda: next_block(store.session(), 1))
        taken = await asyncio.gather(*(ids.take() for _ in range(1500)))
        assert taken == list(range(1500))
        await store.close()

    asyncio.run(scene())


def test_a_damaged_block_is_an_error_not_a_restart_from_zero():
    async def scene() -> None:
        store = EmbeddedStore(clock=ManualClock())
        session = store.session()
        await prepare(session)
        await session.set(paths.PRODUCER_ID_BLOCK, b"rubbish")
        with pytest.raises(BadNode):
            await next_block(session, 1)
        await store.close()

    asyncio.run(scene())


def test_ids_end():
    with pytest.raises(KafkaError):
        block_after(ProducerIdBlock(1, INT64_MAX - 1000, INT64_MAX - 1), 1)
