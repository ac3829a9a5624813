"""The metadata store inside the process: ZooKeeper's behaviour without ZooKeeper.

`EmbeddedStore` owns the tree and is shared by all brokers of a process; each takes a handle with
`session()`. With a journal every change is durable before anyone learns of it; without one the
store lives in memory and never leaves the event loop's thread.

How a change travels: it is applied to the tree at once, in the order of the calls, and queued for
the journal. A writer task hands everything queued to a thread as one disk commit. Only then are
watches called and callers answered, reads too: a read that could have seen a change waits until
that change is durable. When the disk refuses, the store is finished: tree and file differ, and
every call from then on raises StoreFailed.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from odradek.controller.journal import Journal
from odradek.controller.store import (
    ANY_VERSION,
    ConnectionLost,
    Create,
    Delete,
    NoNode,
    Operation,
    Result,
    SessionListener,
    SessionLost,
    SessionState,
    Set,
    Stat,
    StoreFailed,
    Watch,
    WatchEvent,
    WatchKind,
)
from odradek.controller.tree import Transaction, Tree
from odradek.protocol.clock import Clock


class EmbeddedStore:
    """The shared tree. Made and used on one event loop."""

    def __init__(self, *, clock: Clock, path: Path | None = None) -> None:
        """Open the file at `path`, or keep everything in memory when there is none."""
        self._clock = clock
        self._journal = None if path is None else Journal(path)
        self.tree = Tree(zxid=0 if self._journal is None else self._journal.zxid)
        if self._journal is not None:
            self.tree.load(self._journal.nodes())
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata-store")
        self._queue: deque[Transaction] = deque()
        # Transactions up to these ids are in the tree, and on disk with their watches called.
        self.applied = self.tree.zxid
        self._durable = self.tree.zxid
        self._barriers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._failure: StoreFailed | None = None
        self._sessions: list[EmbeddedSession] = []

    def session(self) -> "EmbeddedSession":
        """A new handle, connected."""
        handle = EmbeddedSession(self)
        self._sessions.append(handle)
        return handle

    async def close(self) -> None:
        """End every session and close the file."""
        for handle in list(self._sessions):
            await handle.close()
        self._thread.shutdown()
        if self._journal is not None:
            self._journal.close()
        self._failure = StoreFailed("the store is closed")

    def commit(self, operations: Sequence[Operation], *, session: int) -> list[Result]:
        """Apply now; the caller then awaits `settle`. Raises what the tree raises."""
        self._check()
        now_ms = self._clock.now_ms()
        transaction = self.tree.apply(operations, session=session, now_ms=now_ms)
        self.applied = transaction.zxid
        if self._journal is None:
            self._publish(transaction)
        else:
            self._queue.append(transaction)
            self._start_writer()
        return transaction.results

    async def settle(self) -> None:
        """Return when all that has been applied so far is durable and its watches were called."""
        self._check()
        if self._durable >= self.applied:
            return
        barrier: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._barriers.append((self.applied, barrier))
        await barrier

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _start_writer(self) -> None:
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        """Empty the queue, everything that waits in one commit, then be gone."""
        assert self._journal is not None
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                batch = list(self._queue)
                self._queue.clear()
                await loop.run_in_executor(self._thread, self._journal.commit, batch)
                for transaction in batch:
                    self._publish(transaction)
                self._release()
        except StoreFailed as failure:
            self._fail(failure)
        finally:
            self._writer = None

    def _publish(self, transaction: Transaction) -> None:
        self._durable = transaction.zxid
        for handle in list(self._sessions):
            handle.deliver(transaction)

    def _release(self) -> None:
        while self._barriers and self._barriers[0][0] <= self._durable:
            barrier = self._barriers.popleft()[1]
            if not barrier.done():
                barrier.set_result(None)

    def _fail(self, failure: StoreFailed) -> None:
        self._failure = failure
        self._queue.clear()
        while self._barriers:
            barrier = self._barriers.popleft()[1]
            if not barrier.done():
                barrier.set_exception(failure)

    def forget(self, handle: "EmbeddedSession") -> None:
        self._sessions.remove(handle)


class EmbeddedSession:
    """One broker's handle (a `MetadataStore`), with the levers tests pull: expire, suspend."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._session_id = store.tree.next_zxid()
        self._state = SessionState.CONNECTED
        self._listeners: list[SessionListener] = []
        # Watches in the order they were set, each with the transaction its read had seen.
        self._data_watches: dict[str, dict[Watch, int]] = {}
        self._child_watches: dict[str, dict[Watch, int]] = {}
        # What fired while the handle was cut off: told when it is back.
        self._undelivered: list[tuple[Watch, WatchEvent]] = []

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    def listen(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, Stat]:
        operation = Create(path, data, ephemeral, sequential)
        (created,) = self._commit([operation])
        assert isinstance(created, str)
        stat = self._store.tree.node(created).stat()
        await self._settle()
        return created, stat

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        self._check()
        node = self._store.tree.find(path)
        if node is not None:
            self._watch(self._data_watches, path, watch)
        await self._settle()
        if node is None:
            raise NoNode(path)
        return node.data, node.stat()

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        (stat,) = self._commit([Set(path, data, version)])
        await self._settle()
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._commit([Delete(path, version)])
        await self._settle()

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        self._check()
        names = self._store.tree.names(path)
        if names is not None:
            self._watch(self._child_watches, path, watch)
        await self._settle()
        if names is None:
            raise NoNode(path)
        return names

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        self._check()
        node = self._store.tree.find(path)
        self._watch(self._data_watches, path, watch)
        await self._settle()
        return None if node is None else node.stat()

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        results = self._commit(operations)
        await self._settle()
        return results

    async def close(self) -> None:
        if self._state is SessionState.CLOSED:
            return
        # A store that failed has nothing left to remove the ephemeral nodes from.
        with contextlib.suppress(StoreFailed):
            self._end_session()
            await self._store.settle()
        self._store.forget(self)
        self._move_to(SessionState.CLOSED)

    def expire(self) -> None:
        """End the session as a store does that has not heard from its broker for too long."""
        self._end_session()
        self._move_to(SessionState.LOST)
        self._session_id = self._store.tree.next_zxid()
        self._move_to(SessionState.CONNECTED)

    def suspend(self) -> None:
        """Cut the handle from the store; its session lives on until someone calls `expire`."""
        self._move_to(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Undo `suspend` within the session."""
        self._move_to(SessionState.CONNECTED)
        missed, self._undelivered = self._undelivered, []
        for watch, event in missed:
            watch(event)

    def deliver(self, transaction: Transaction) -> None:
        """Call, once, whoever watches what happened."""
        for event in transaction.events:
            for watch in self._take_watches(event, transaction.zxid):
                if self._state is SessionState.SUSPENDED:
                    self._undelivered.append((watch, event))
                else:
                    watch(event)

    def _watch(self, watches: dict[str, dict[Watch, int]], path: str, watch: Watch | None) -> None:
        if watch is not None:
            watches.setdefault(path, {})[watch] = self._store.applied

    def _take_watches(self, event: WatchEvent, zxid: int) -> list[Watch]:
        taken: dict[Watch, None] = {}
        if event.kind is not WatchKind.CHILDREN:
            _take(self._data_watches, event.path, zxid, taken)
        if event.kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            _take(self._child_watches, event.path, zxid, taken)
        return list(taken)

    def _commit(self, operations: Sequence[Operation]) -> list[Result]:
        self._check()
        return self._store.commit(operations, session=self._session_id)

    async def _settle(self) -> None:
        session = self._session_id
        await self._store.settle()
        if session != self._session_id or self._state is SessionState.CLOSED:
            raise SessionLost("the session ended while the store worked")
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost("the connection was lost while the store worked")

    def _check(self) -> None:
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost("not connected")
        if self._state is not SessionState.CONNECTED:
            raise SessionLost("the session is closed")

    def _end_session(self) -> None:
        self._data_watches.clear()
        self._child_watches.clear()
        self._undelivered.clear()
        owned = self._store.tree.owned_by(self._session_id)
        if owned:
            removal = [Delete(path) for path in owned]
            self._store.commit(removal, session=self._session_id)

    def _move_to(self, state: SessionState) -> None:
        self._state = state
        for listener in list(self._listeners):
            listener(state)


def _take(
    watches: dict[str, dict[Watch, int]], path: str, zxid: int, taken: dict[Watch, None]
) -> None:
    """Move the watches that were set before transaction `zxid` from `watches` to `taken`."""
    waiting = watches.get(path)
    if waiting is None:
        return
    for watch in [watch for watch, seen in waiting.items() if seen < zxid]:
        del waiting[watch]
        taken[watch] = None
    if not waiting:
        del watches[path]
