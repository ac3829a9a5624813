"""The store on a real ZooKeeper keeps the contract, and what only a real one can break."""

import asyncio
from itertools import count

import pytest
from kazoo.client import KazooClient
from odradek.controller.store import (
    ConnectionLost,
    MetadataStore,
    SessionState,
    WatchEvent,
    WatchKind,
)
from odradek.controller.store_zookeeper import ZooKeeperStore, open_zookeeper

from tests.support.network import free_port
from tests.support.zookeeper import ZooKeeper
from tests.unit.controller.store_contract import StoreContract, Watcher

_numbers = count()
SESSION_MS = 6000
# Longer than it takes ZooKeeper to start again, on a busy machine too.
LONG_SESSION_MS = 30_000


async def reach(store: ZooKeeperStore, *wanted: SessionState) -> None:
    """Wait until the handle's session is in one of these states."""
    arrived = asyncio.Event()
    store.listen(lambda state: arrived.set() if state in wanted else None)
    if store.state in wanted:
        return
    await asyncio.wait_for(arrived.wait(), 60)


def end_session(store: ZooKeeperStore) -> None:
    """A second client that takes over the session and closes it ends it at once."""
    double = KazooClient(store._client.hosts[0][0] + f":{store._client.hosts[0][1]}")
    double._session_id, double._session_passwd = store._client.client_id
    double.start()
    double.stop()
    double.close()


class ZooKeeperWorld:
    def __init__(self, connect: str, *, session_ms: int = SESSION_MS) -> None:
        self._connect = connect
        self._session_ms = session_ms
        self._handles: list[ZooKeeperStore] = []

    async def open(self) -> MetadataStore:
        handle = await open_zookeeper(
            self._connect, session_timeout_ms=self._session_ms, connection_timeout_ms=20_000
        )
        self._handles.append(handle)
        return handle

    async def expire(self, handle: MetadataStore) -> None:
        assert isinstance(handle, ZooKeeperStore)
        renewed = asyncio.Event()
        before = handle.session_id

        def look(state: SessionState) -> None:
            if state is SessionState.CONNECTED and handle.session_id != before:
                renewed.set()

        handle.listen(look)
        await asyncio.to_thread(end_session, handle)
        await asyncio.wait_for(renewed.wait(), 30)

    async def close(self) -> None:
        await asyncio.gather(*(handle.close() for handle in self._handles))


@pytest.fixture
def make_world(zookeeper):
    async def make() -> ZooKeeperWorld:
        return ZooKeeperWorld(f"{zookeeper.connect}/store-{next(_numbers)}/below")

    return make


class TestOnZooKeeper(StoreContract):
    """The contract, each test under a root of its own: the chroot is made when it is missing."""


def test_nobody_home_is_told_within_the_connection_timeout():
    async def scene() -> None:
        with pytest.raises(ConnectionLost):
            await open_zookeeper(
                f"127.0.0.1:{free_port()}", session_timeout_ms=6000, connection_timeout_ms=300
            )

    asyncio.run(scene())


@pytest.fixture
def own_zookeeper(tmp_path):
    """One that the test may kill."""
    with ZooKeeper(tmp_path / "zookeeper", tick_ms=500) as server:
        yield server


def test_a_session_survives_a_short_absence_of_zookeeper_and_watches_are_called(tmp_path):
    async def scene(own_zookeeper: ZooKeeper) -> None:
        world = ZooKeeperWorld(own_zookeeper.connect, session_ms=LONG_SESSION_MS)
        store = await world.open()
        assert isinstance(store, ZooKeeperStore)
        session = store.session_id
        await store.create("/me", ephemeral=True)
        watcher = Watcher()
        await store.get("/me", watch=watcher)
        own_zookeeper.kill()
        await reach(store, SessionState.SUSPENDED)
        with pytest.raises(ConnectionLost):
            await store.get("/me")
        await asyncio.to_thread(own_zookeeper.start)
        await reach(store, SessionState.CONNECTED)
        assert store.session_id == session
        assert await watcher.next() == WatchEvent(WatchKind.CHANGED, "/me")
        stat = await store.exists("/me")
        assert stat is not None
        assert stat.ephemeral_owner == session
        await world.close()

    with ZooKeeper(tmp_path / "zookeeper", tick_ms=2000) as server:
        asyncio.run(scene(server))


def test_a_handle_that_is_cut_off_declares_its_session_lost_by_itself(own_zookeeper):
    async def scene() -> None:
        store = await open_zookeeper(
            own_zookeeper.connect, session_timeout_ms=1500, connection_timeout_ms=20_000
        )
        states: list[SessionState] = []
        store.listen(states.append)
        own_zookeeper.kill()
        await reach(store, SessionState.LOST)
        assert states == [SessionState.SUSPENDED, SessionState.LOST]
        await asyncio.to_thread(own_zookeeper.start)
        await reach(store, SessionState.CONNECTED)
        await store.create("/a")
        await store.close()

    asyncio.run(scene())
