"""A broker's id, life sign and epoch; who may delete a registration that is in the way."""

import asyncio

import pytest
from odradek.controller import paths
from odradek.controller.fields import BadNode
from odradek.controller.registration import (
    BrokerIdTaken,
    Registration,
    cluster_id,
    generate_broker_id,
    prepare,
)
from odradek.controller.store import Create, StoreError
from odradek.controller.store_embedded import EmbeddedStore
from odradek.protocol.clock import ManualClock

from tests.unit.controller.cluster import node


def play(scene):
    async def run() -> None:
        store = EmbeddedStore(clock=ManualClock())
        await prepare(store.session())
        await scene(store)
        await store.close()

    asyncio.run(run())


def test_the_persistent_nodes_are_made_once_and_kept():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        for path in paths.PERSISTENT:
            assert await session.exists(path) is not None
        before = store.tree.zxid
        await prepare(session)
        assert store.tree.zxid == before

    play(scene)


def test_the_first_broker_chooses_the_cluster_id():
    async def scene(store: EmbeddedStore) -> None:
        first = await cluster_id(store.session(), lambda: "first")
        second = await cluster_id(store.session(), lambda: "second")
        assert first == second == "first"
        data, _ = await store.session().get(paths.CLUSTER_ID)
        assert data == b'{"version":"1","id":"first"}'

    play(scene)


def test_a_damaged_cluster_id_is_not_replaced():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        await session.create("/cluster")
        await session.create(paths.CLUSTER_ID, b"?")
        with pytest.raises(BadNode):
            await cluster_id(session, lambda: "new")
        assert (await session.get(paths.CLUSTER_ID))[0] == b"?"

    play(scene)


def test_generated_ids_lie_above_the_reserved_ones_and_differ():
    async def scene(store: EmbeddedStore) -> None:
        sessions = [store.session() for _ in range(3)]
        ids = await asyncio.gather(
            *(generate_broker_id(s, largest_reserved=1000) for s in sessions)
        )
        assert ids == [1001, 1002, 1003]

    play(scene)


def test_each_life_has_a_higher_epoch():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        registration = Registration(session, broker_id=1)
        first = await registration.register(node(1), patience_seconds=1)
        stat = await session.exists(paths.broker(1))
        assert stat is not None
        assert (stat.czxid, stat.ephemeral_owner) == (first, session.session_id)
        session.expire()
        second = await registration.register(node(1), patience_seconds=1)
        assert second > first
        await registration.unregister()
        assert await session.exists(paths.broker(1)) is None

    play(scene)


def test_the_node_of_the_present_session_is_an_earlier_success():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        first = await Registration(session, broker_id=1).register(node(1), patience_seconds=1)
        again = await Registration(session, broker_id=1).register(node(1, "r"), patience_seconds=1)
        assert again == first
        assert b'"rack":"r"' in (await session.get(paths.broker(1)))[0]

    play(scene)


def test_the_node_of_an_own_former_session_is_deleted():
    """KAFKA-7165: the store is slow to notice that the former session has ended."""

    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        registration = Registration(session, broker_id=1)
        first = await registration.register(node(1), patience_seconds=1)
        former = session.session_id
        session.expire()
        # As if the expiry had not reached the node yet.
        late = Create(paths.broker(1), node(1).encode(), ephemeral=True)
        store.commit([late], session=former)
        second = await registration.register(node(1), patience_seconds=1)
        assert second > first
        stat = await session.exists(paths.broker(1))
        assert stat is not None
        assert stat.ephemeral_owner == session.session_id

    play(scene)


def test_a_strangers_node_is_waited_for_and_never_deleted():
    async def scene(store: EmbeddedStore) -> None:
        stranger, session = store.session(), store.session()
        theirs = await Registration(stranger, broker_id=1).register(node(1), patience_seconds=1)
        registration = Registration(session, broker_id=1)
        with pytest.raises(BrokerIdTaken, match="Broker id 1 is in use"):
            await registration.register(node(1), patience_seconds=0.01)
        assert (await session.exists(paths.broker(1))).czxid == theirs
        waiting = asyncio.create_task(registration.register(node(1), patience_seconds=5))
        await asyncio.sleep(0)
        await stranger.close()
        assert await waiting > theirs

    play(scene)


def test_only_the_own_node_is_unregistered():
    async def scene(store: EmbeddedStore) -> None:
        stranger, session = store.session(), store.session()
        await Registration(stranger, broker_id=1).register(node(1), patience_seconds=1)
        await Registration(session, broker_id=1).unregister()
        assert await session.exists(paths.broker(1)) is not None

    play(scene)


def test_a_registration_waits_out_a_cut_connection_by_failing_clearly():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        session.suspend()
        with pytest.raises(StoreError):
            await Registration(session, broker_id=1).register(node(1), patience_seconds=1)

    play(scene)
