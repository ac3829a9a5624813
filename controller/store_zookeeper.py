"""The metadata store on ZooKeeper, through kazoo.

Every call is sent at once and awaited on the loop; `zookeeper_threads` keeps answers and watches in
the order in which ZooKeeper sent them. kazoo opens a new session for ever, whatever ends one.

Two things are better known here than by kazoo:

- it reports a session as lost only when ZooKeeper, reachable again, says so. A timer of our own
  says it when the connection has been gone for as long as a session may be silent, so that a
  controller that is cut off stops acting as one. Should ZooKeeper have been away itself and keep
  the session, the handle goes on with the same session id: its nodes are then still there, which
  whoever registers or campaigns finds out by looking.
- it forgets all watches when the connection breaks. Those are called when it is back within the
  session, since what they watch may have changed meanwhile: a watch is a reason to look again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry
from odradek.controller import store
from odradek.controller.store import (
    ANY_VERSION,
    MAX_DATA_BYTES,
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    DataTooLarge,
    Delete,
    Operation,
    Result,
    SessionListener,
    SessionLost,
    SessionState,
    Set,
    Stat,
    StoreError,
    StoreFailed,
    Watch,
    WatchEvent,
    WatchKind,
    check_path,
)
from odradek.controller.zookeeper_threads import LoopHandler, future_of

MAX_RECONNECT_SECONDS: Final = 1.0

_Call = Callable[[], IAsyncResult]

_ERRORS: Final[dict[type[Exception], type[StoreError]]] = {
    kazoo_errors.NoNodeError: store.NoNode,
    kazoo_errors.NodeExistsError: store.NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: store.NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: store.NoChildrenForEphemerals,
    kazoo_errors.ConnectionLoss: ConnectionLost,
    kazoo_errors.ConnectionClosedError: ConnectionLost,
    kazoo_errors.OperationTimeoutError: ConnectionLost,
    kazoo_errors.SessionExpiredError: SessionLost,
}
_KINDS: Final = {
    EventType.CREATED: WatchKind.CREATED,
    EventType.CHANGED: WatchKind.CHANGED,
    EventType.DELETED: WatchKind.DELETED,
    EventType.CHILD: WatchKind.CHILDREN,
}
# What a multi answers for operations that were not to blame for its failure.
_BYSTANDERS: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)


class ZooKeeperStore:
    """One broker's handle (a `MetadataStore`). Made by `open_zookeeper`."""

    def __init__(
        self, connect: str, *, session_timeout_s: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._loop = loop
        self._session_timeout_s = session_timeout_s
        self._client = KazooClient(
            connect,
            timeout=session_timeout_s,
            handler=LoopHandler(loop),
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=MAX_RECONNECT_SECONDS),
        )
        self._client.add_listener(self._hop)
        self._state = SessionState.LOST
        self._session_id = 0
        self._listeners: list[SessionListener] = []
        self._dropped_watches: dict[_Armed, None] = {}
        self._fence: asyncio.TimerHandle | None = None

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    def listen(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def connect(self, timeout_s: float) -> None:
        """Open the first session and make the chroot. Raises ConnectionLost."""
        connected = asyncio.Event()
        self.listen(lambda _: connected.set())
        await self._loop.run_in_executor(None, self._client.start_async)
        try:
            await asyncio.wait_for(connected.wait(), timeout_s)
            await self._make_chroot()
        except (TimeoutError, StoreError):
            await self.close()
            raise ConnectionLost(f"ZooKeeper did not answer within {timeout_s:g} s") from None

    async def _make_chroot(self) -> None:
        """kazoo makes paths below its chroot alone, so the chroot is taken off for it."""
        client = self._client
        chroot, client.chroot = client.chroot, ""
        try:
            if chroot:
                await self._answer(client.ensure_path_async(chroot), chroot)
        finally:
            client.chroot = chroot

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, Stat]:
        check_path(path)
        _check_size(path, data)
        answer = await self._ask(
            lambda: self._client.create_async(
                path, data, ephemeral=ephemeral, sequence=sequential, include_data=True
            ),
            path,
        )
        assert isinstance(answer, tuple)
        created, stat = answer
        return str(created), _stat(stat)

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        check_path(path)
        armed = self._arm(watch, path)
        answer = await self._ask(lambda: self._client.get_async(path, watch=armed), path)
        assert isinstance(answer, tuple)
        data, stat = answer
        # Kafka makes nodes without any data, which is another thing to ZooKeeper than empty data.
        return bytes(data or b""), _stat(stat)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        check_path(path)
        _check_size(path, data)
        return _stat(await self._ask(lambda: self._client.set_async(path, data, version), path))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        check_path(path)
        await self._ask(lambda: self._client.delete_async(path, version), path)

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        check_path(path)
        armed = self._arm(watch, path, for_children=True)
        names = await self._ask(lambda: self._client.get_children_async(path, watch=armed), path)
        assert isinstance(names, list)
        return sorted(names)

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        check_path(path)
        armed = self._arm(watch, path)
        stat = await self._ask(lambda: self._client.exists_async(path, watch=armed), path)
        return None if stat is None else _stat(stat)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        request = self._client.transaction()
        for index, operation in enumerate(operations):
            check_path(operation.path)
            if isinstance(operation, Create | Set):
                _check_size(operation.path, operation.data, index)
            _add(request, operation)
        answers = await self._ask(request.commit_async, "multi")
        assert isinstance(answers, list)
        _raise_culprit(answers, operations)
        return [_result(answer) for answer in answers]

    async def close(self) -> None:
        if self._state is SessionState.CLOSED:
            return
        self._move_to(SessionState.CLOSED)
        self._stop_fence()
        self._dropped_watches.clear()
        await self._loop.run_in_executor(None, self._stop_client)

    def _stop_client(self) -> None:
        self._client.stop()
        self._client.close()

    # Calls ----------------------------------------------------------------------------------

    async def _ask(self, call: _Call, path: str) -> object:
        """Send one request and await its answer, in the words of `store`."""
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost("not connected")
        if self._state is not SessionState.CONNECTED:
            raise SessionLost("there is no session")
        return await self._answer(call(), path)

    async def _answer(self, result: IAsyncResult, path: str) -> object:
        session = self._session_id
        try:
            answer = await future_of(result, self._loop)
        except kazoo_errors.KazooException as error:
            raise _translated(error, path) from error
        if session != self._session_id or self._state is SessionState.CLOSED:
            raise SessionLost("the session ended while ZooKeeper worked")
        return answer

    # Watches --------------------------------------------------------------------------------

    def _arm(self, watch: Watch | None, path: str, for_children: bool = False) -> "_Armed | None":
        if watch is None:
            return None
        return _Armed(self, self._session_id, watch, path, for_children)

    def watch_fired(self, armed: "_Armed", event: WatchedEvent) -> None:
        if armed.session != self._session_id or self._state is SessionState.CLOSED:
            return
        kind = _KINDS.get(event.type)
        if kind is not None:
            armed.watch(WatchEvent(kind, event.path))
        elif self._state is not SessionState.LOST:
            # No event: kazoo forgets the watch because the connection broke.
            self._dropped_watches[armed] = None

    def _call_dropped_watches(self) -> None:
        dropped, self._dropped_watches = list(self._dropped_watches), {}
        for armed in dropped:
            if armed.session == self._session_id:
                kind = WatchKind.CHILDREN if armed.for_children else WatchKind.CHANGED
                armed.watch(WatchEvent(kind, armed.path))

    # The session ----------------------------------------------------------------------------

    def _hop(self, state: str) -> None:
        """kazoo's thread tells of a new state; the session's id is read while it is certain."""
        session_id = self._client._session_id or 0
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._session_is, state, session_id)

    def _session_is(self, state: str, session_id: int) -> None:
        if self._state is SessionState.CLOSED:
            return
        if state == KazooState.CONNECTED:
            self._connected(session_id)
        elif state == KazooState.SUSPENDED:
            self._suspended()
        else:
            self._lose()

    def _connected(self, session_id: int) -> None:
        self._stop_fence()
        if session_id != self._session_id:
            if self._state is SessionState.SUSPENDED:
                self._lose()
            self._dropped_watches.clear()
        self._session_id = session_id
        self._move_to(SessionState.CONNECTED)
        self._call_dropped_watches()

    def _suspended(self) -> None:
        if self._state is not SessionState.CONNECTED:
            return
        self._move_to(SessionState.SUSPENDED)
        self._fence = self._loop.call_later(self._session_timeout_s, self._lose)

    def _lose(self) -> None:
        self._stop_fence()
        self._dropped_watches.clear()
        if self._state not in (SessionState.LOST, SessionState.CLOSED):
            self._move_to(SessionState.LOST)

    def _stop_fence(self) -> None:
        if self._fence is not None:
            self._fence.cancel()
            self._fence = None

    def _move_to(self, state: SessionState) -> None:
        self._state = state
        for listener in list(self._listeners):
            listener(state)


@dataclass(frozen=True, slots=True)
class _Armed:
    """A watch as kazoo keeps it: equal ones are kept, and called, once."""

    store: ZooKeeperStore
    session: int
    watch: Watch
    path: str
    for_children: bool

    def __call__(self, event: WatchedEvent) -> None:
        self.store.watch_fired(self, event)


async def open_zookeeper(
    connect: str, *, session_timeout_ms: int, connection_timeout_ms: int
) -> ZooKeeperStore:
    """A connected handle; `connect` is HOST:PORT,… and may end in a path, the cluster's root."""
    handle = ZooKeeperStore(
        connect,
        session_timeout_s=session_timeout_ms / 1000,
        loop=asyncio.get_running_loop(),
    )
    await handle.connect(connection_timeout_ms / 1000)
    return handle


def _add(request: TransactionRequest, operation: Operation) -> None:
    match operation:
        case Create(path, data, ephemeral, sequential):
            request.create(path, data, ephemeral=ephemeral, sequence=sequential)
        case Set(path, data, version):
            request.set_data(path, data, version)
        case Delete(path, version):
            request.delete(path, version)
        case Check(path, version):
            request.check(path, version)


def _raise_culprit(answers: Sequence[object], operations: Sequence[Operation]) -> None:
    for index, answer in enumerate(answers):
        if isinstance(answer, Exception) and not isinstance(answer, _BYSTANDERS):
            error = _translated(answer, operations[index].path)
            error.index = index
            raise error


def _result(answer: object) -> Result:
    if isinstance(answer, str):
        return answer
    return _stat(answer) if isinstance(answer, ZnodeStat) else None


def _translated(error: Exception, path: str) -> StoreError:
    for kind, ours in _ERRORS.items():
        if isinstance(error, kind):
            return ours(path)
    return StoreFailed(f"{path}: {error!r}")


def _stat(stat: object) -> Stat:
    assert isinstance(stat, ZnodeStat)
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        data_length=stat.dataLength,
        children=stat.numChildren,
    )


def _check_size(path: str, data: bytes, index: int | None = None) -> None:
    if len(data) > MAX_DATA_BYTES:
        raise DataTooLarge(f"{len(data)} bytes for {path}, at most {MAX_DATA_BYTES}", index=index)
