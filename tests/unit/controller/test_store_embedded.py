"""The embedded store keeps the contract in memory and on disk, and survives being killed."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from odradek.controller.journal import Journal
from odradek.controller.store import (
    ConnectionLost,
    MetadataStore,
    SessionState,
    StoreFailed,
    WatchEvent,
    WatchKind,
)
from odradek.controller.store_embedded import EmbeddedSession, EmbeddedStore
from odradek.protocol.clock import ManualClock

from tests.unit.controller.store_contract import StoreContract, Watcher


class EmbeddedWorld:
    def __init__(self, path: Path | None) -> None:
        self._store = EmbeddedStore(clock=ManualClock(), path=path)

    async def open(self) -> MetadataStore:
        return self._store.session()

    async def expire(self, handle: MetadataStore) -> None:
        assert isinstance(handle, EmbeddedSession)
        handle.expire()

    async def close(self) -> None:
        await self._store.close()


class TestInMemory(StoreContract):
    @pytest.fixture
    def make_world(self):
        async def make() -> EmbeddedWorld:
            return EmbeddedWorld(None)

        return make


class TestOnDisk(StoreContract):
    @pytest.fixture
    def make_world(self, tmp_path):
        async def make() -> EmbeddedWorld:
            return EmbeddedWorld(tmp_path / "metadata.db")

        return make


def open_store(path: Path) -> EmbeddedStore:
    return EmbeddedStore(clock=ManualClock(), path=path)


def test_a_closed_store_opens_as_it_was_without_ephemerals(tmp_path):
    async def scene() -> None:
        store = open_store(tmp_path / "db")
        handle = store.session()
        await handle.create("/a", b"0")
        await handle.create("/a/n_", sequential=True)
        kept = await handle.set("/a", b"1")
        _, last = await handle.create("/me", ephemeral=True)
        old_session = handle.session_id
        await store.close()

        store = open_store(tmp_path / "db")
        handle = store.session()
        assert await handle.get("/a") == (b"1", kept)
        assert await handle.exists("/me") is None
        assert handle.session_id > old_session
        _, reborn = await handle.create("/me", ephemeral=True)
        assert reborn.czxid > last.czxid
        assert (await handle.create("/a/n_", sequential=True))[0] == "/a/n_0000000001"
        await store.close()

    asyncio.run(scene())


KILLED = """
import asyncio, sys
from pathlib import Path
from odradek.controller.store_embedded import EmbeddedStore
from odradek.protocol.clock import SystemClock

async def main():
    handle = EmbeddedStore(clock=SystemClock(), path=Path(sys.argv[1])).session()
    await handle.create("/me", ephemeral=True)
    await handle.create("/counter")
    while True:
        stat = await handle.set("/counter", b"x")
        print(stat.version, flush=True)

asyncio.run(main())
"""


def test_what_was_answered_survives_a_kill(tmp_path):
    """Each printed version was answered: none may be missing after kill -9."""
    path = tmp_path / "db"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        answered = [int(child.stdout.readline()) for _ in range(20)]
        os.kill(child.pid, signal.SIGKILL)
        answered += [int(line) for line in child.stdout]

    async def scene() -> None:
        store = open_store(path)
        handle = store.session()
        _, stat = await handle.get("/counter")
        assert stat.version >= answered[-1]
        assert await handle.exists("/me") is None
        await store.close()

    asyncio.run(scene())


def test_a_file_in_use_is_refused(tmp_path):
    async def scene() -> None:
        store = open_store(tmp_path / "db")
        with pytest.raises(StoreFailed, match="locked"):
            open_store(tmp_path / "db")
        await store.close()

    asyncio.run(scene())


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "db").write_bytes(b"something else" * 100)
    with pytest.raises(StoreFailed, match="cannot open"):
        Journal(tmp_path / "db")


def test_a_read_waits_until_what_it_saw_is_durable(tmp_path):
    async def scene() -> None:
        store = open_store(tmp_path / "db")
        one, two = store.session(), store.session()
        order: list[str] = []

        async def write() -> None:
            await one.create("/a")
            order.append("written")

        async def read() -> None:
            assert await two.exists("/a") is not None
            order.append("read")

        await asyncio.gather(write(), read())
        assert order == ["written", "read"]
        await store.close()

    asyncio.run(scene())


def test_writes_that_wait_share_a_commit(tmp_path):
    async def scene() -> None:
        store = open_store(tmp_path / "db")
        handle = store.session()
        await handle.create("/a")
        journal = store._journal
        assert journal is not None
        commits: list[int] = []
        commit = journal.commit

        def counted(batch):
            commits.append(len(batch))
            commit(batch)

        journal.commit = counted
        await asyncio.gather(*(handle.create("/a/n_", sequential=True) for _ in range(50)))
        assert sum(commits) == 50
        assert len(commits) <= 2
        await store.close()

    asyncio.run(scene())


def test_a_watch_is_not_fired_by_a_change_its_own_read_had_seen(tmp_path):
    async def scene() -> None:
        store = open_store(tmp_path / "db")
        handle = store.session()
        watcher = Watcher()
        write = asyncio.create_task(handle.create("/a"))
        await asyncio.sleep(0)
        assert await handle.exists("/a", watch=watcher) is not None
        await write
        assert watcher.is_quiet
        await handle.set("/a", b"1")
        assert await watcher.next() == WatchEvent(WatchKind.CHANGED, "/a")
        await store.close()

    asyncio.run(scene())


def test_a_disk_that_refuses_ends_the_store(tmp_path):
    async def scene() -> None:
        store = open_store(tmp_path / "db")
        handle = store.session()
        await handle.create("/a")
        assert store._journal is not None
        store._journal.close()
        with pytest.raises(StoreFailed, match="refused"):
            await handle.create("/b")
        with pytest.raises(StoreFailed):
            await handle.get("/a")
        await store.close()

    asyncio.run(scene())


def test_a_suspended_handle_changes_nothing_and_hears_of_it_later():
    async def scene() -> None:
        store = EmbeddedStore(clock=ManualClock())
        one, two = store.session(), store.session()
        states: list[SessionState] = []
        one.listen(states.append)
        await one.create("/me", ephemeral=True)
        watcher = Watcher()
        await one.exists("/a", watch=watcher)

        one.suspend()
        with pytest.raises(ConnectionLost):
            await one.create("/b")
        await two.create("/a")
        assert watcher.is_quiet
        assert await two.exists("/me") is not None

        one.resume()
        assert await watcher.next() == WatchEvent(WatchKind.CREATED, "/a")
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        await store.close()

    asyncio.run(scene())


def test_the_in_memory_store_starts_no_thread():
    async def scene() -> None:
        before = threading.active_count()
        store = EmbeddedStore(clock=ManualClock())
        await store.session().create("/a")
        await store.close()
        assert threading.active_count() == before

    asyncio.run(scene())
