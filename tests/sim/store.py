"""The metadata store of a simulation: ZooKeeper as brokers see it over the network.

One tree, held by a machine of its own that never fails. A broker's handle speaks to it in messages
that keep their order and take their time; answers and watches come back on one lane, so a watch is
always called before a newer state is read. A session ends when the store has not heard from its
broker for the session timeout; the broker learns of that only when it can reach the store again.
What was asked over a connection that broke may have been done or not.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, Final, TypeVar

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
    StoreError,
    Watch,
    WatchEvent,
    WatchKind,
)
from odradek.controller.tree import Transaction, Tree
from odradek.protocol.clock import Clock

from tests.sim.loop import LIFE
from tests.sim.network import KERNEL, Lane, Network

T = TypeVar("T")

ADDRESS: Final = "10.0.9.1"
LOOK_SECONDS: Final = 0.2


class Told:
    """An event on its way to whoever watches."""

    def __init__(self, watch: Watch, event: WatchEvent) -> None:
        self.watch = watch
        self.event = event


class Account:
    """What the store keeps of one session."""

    def __init__(self, session_id: int, now: float) -> None:
        self.id = session_id
        self.heard_at = now
        self.data_watches: dict[str, dict[Watch, None]] = {}
        self.child_watches: dict[str, dict[Watch, None]] = {}
        # Sends an event to the broker; None while there is no connection.
        self.tell: Callable[[Told], None] | None = None
        # Events that have not reached the broker yet, in order: told again over a new connection.
        self.untold: dict[Told, None] = {}

    def stir(self, event: WatchEvent) -> None:
        taken: dict[Watch, None] = {}
        if event.kind is not WatchKind.CHILDREN:
            taken |= self.data_watches.pop(event.path, {})
        if event.kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            taken |= self.child_watches.pop(event.path, {})
        for watch in taken:
            told = Told(watch, event)
            self.untold[told] = None
            if self.tell is not None:
                self.tell(told)


class SimStore:
    """`on_commit` is called after every change of the tree."""

    def __init__(self, network: Network, clock: Clock, *, session_seconds: float) -> None:
        self.network = network
        self.loop = network.loop
        self.tree = Tree()
        self.session_seconds = session_seconds
        self.on_commit: Callable[[Transaction], None] = lambda _: None
        self._clock = clock
        self.accounts: dict[int, Account] = {}
        self.handles: list[SimSession] = []
        self.loop.call_later(LOOK_SECONDS, self._look, context=KERNEL)

    def session(self) -> "SimSession":
        handle = SimSession(self)
        self.handles.append(handle)
        return handle

    def open_account(self) -> Account:
        account = Account(self.tree.next_zxid(), self.loop.time())
        self.accounts[account.id] = account
        return account

    def close_account(self, session_id: int) -> None:
        """The session is over: its ephemeral nodes go."""
        if self.accounts.pop(session_id, None) is not None:
            owned = self.tree.owned_by(session_id)
            if owned:
                self.commit([Delete(path) for path in owned], session_id)

    def commit(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        now_ms = self._clock.now_ms()
        done = self.tree.apply(operations, session=session_id, now_ms=now_ms)
        for event in done.events:
            for account in list(self.accounts.values()):
                account.stir(event)
        self.on_commit(done)
        return done.results

    async def close(self) -> None:
        for handle in list(self.handles):
            await handle.close()

    def _look(self) -> None:
        """Heartbeats, without sending them: who could be heard, and who was not for too long."""
        now = self.loop.time()
        for handle in list(self.handles):
            if handle.is_within_reach():
                account = self.accounts.get(handle.session_id)
                if account is not None:
                    account.heard_at = now
                handle.reached_at = now
            if not handle.life_is_over():
                self.loop.call_soon(handle.look, context=handle.context)
        for account in list(self.accounts.values()):
            if now - account.heard_at > self.session_seconds:
                self.close_account(account.id)
        self.handles = [each for each in self.handles if not each.life_is_over()]
        self.loop.call_later(LOOK_SECONDS, self._look, context=KERNEL)


class SimSession:
    """A broker's handle: a `MetadataStore`."""

    def __init__(self, store: SimStore) -> None:
        life = LIFE.get()
        self._store = store
        self.life = life
        self._host = ADDRESS if life is None else life.host
        self.context = copy_context()
        self._state = SessionState.CONNECTED
        self._listeners: list[SessionListener] = []
        self._pending: dict[asyncio.Future[Any], None] = {}
        self.reached_at = store.loop.time()
        self._account = store.open_account()
        self._connect()

    @property
    def session_id(self) -> int:
        return self._account.id

    @property
    def state(self) -> SessionState:
        return self._state

    def listen(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def life_is_over(self) -> bool:
        return self._state is SessionState.CLOSED or (self.life is not None and self.life.is_dead)

    def is_within_reach(self) -> bool:
        if self.life_is_over() or (self.life is not None and self.life.is_frozen):
            return False
        return self._store.network.is_open(self._host, ADDRESS)

    # The connection -------------------------------------------------------------------------

    def _connect(self) -> None:
        """Lanes of a new connection; what was on the old ones never arrives."""
        self._there = Lane(self._store.network, self._host, ADDRESS)
        self._back = back = Lane(self._store.network, ADDRESS, self._host)
        account = self._account
        account.tell = lambda told: back.send(lambda: self._watched(back, told))
        for told in account.untold:
            account.tell(told)

    def _disconnect(self, error: StoreError) -> None:
        self._account.tell = None
        self._there = self._back = Lane(self._store.network, self._host, ADDRESS)
        pending, self._pending = self._pending, {}
        for future in pending:
            if not future.done():
                future.set_exception(error)

    def look(self) -> None:
        """Find out what became of the connection; called now and then."""
        store = self._store
        if self._state is SessionState.CLOSED:
            return
        if not self.is_within_reach():
            silence = store.loop.time() - self.reached_at
            if self._state is SessionState.CONNECTED and silence > store.session_seconds / 3:
                self._disconnect(ConnectionLost("the store is silent"))
                self._move_to(SessionState.SUSPENDED)
        elif self._account.id not in store.accounts:
            self._disconnect(SessionLost("the session has expired"))
            self._move_to(SessionState.LOST)
            self._account = store.open_account()
            self._connect()
            self._move_to(SessionState.CONNECTED)
        elif self._state is SessionState.SUSPENDED:
            self._connect()
            self._move_to(SessionState.CONNECTED)

    def _move_to(self, state: SessionState) -> None:
        self._state = state
        for listener in list(self._listeners):
            listener(state)

    def _watched(self, back: Lane, told: Told) -> None:
        if back is self._back:
            self._account.untold.pop(told, None)
            self._store.loop.call_soon(told.watch, told.event, context=self.context)

    async def _ask(self, act: Callable[[Account], T]) -> T:
        """Have something done at the store, over the connection there is now."""
        if self._state is SessionState.SUSPENDED:
            raise ConnectionLost("not connected")
        if self._state is not SessionState.CONNECTED:
            raise SessionLost("the session is over")
        store, account, back = self._store, self._account, self._back
        answer: asyncio.Future[T] = store.loop.create_future()
        self._pending[answer] = None

        def serve() -> None:
            if back is not self._back and not self.life_is_over():
                return  # the connection broke before this arrived
            try:
                if account.id not in store.accounts:
                    raise SessionLost("the session has expired")
                value = act(account)
            except (StoreError, ValueError) as error:
                failure = error
                back.send(lambda: settle(lambda: answer.set_exception(failure)))
            else:
                back.send(lambda: settle(lambda: answer.set_result(value)))

        def settle(how: Callable[[], None]) -> None:
            if back is self._back and not answer.done():
                self._pending.pop(answer, None)
                how()

        self._there.send(serve)
        try:
            return await answer
        finally:
            self._pending.pop(answer, None)

    # The verbs ------------------------------------------------------------------------------

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, Stat]:
        def act(account: Account) -> tuple[str, Stat]:
            (made,) = self._store.commit([Create(path, data, ephemeral, sequential)], account.id)
            assert isinstance(made, str)
            return made, self._store.tree.node(made).stat()

        return await self._ask(act)

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        def act(account: Account) -> tuple[bytes, Stat]:
            node = self._store.tree.node(path)
            _set_watch(account.data_watches, path, watch)
            return node.data, node.stat()

        return await self._ask(act)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        def act(account: Account) -> Stat:
            (stat,) = self._store.commit([Set(path, data, version)], account.id)
            assert isinstance(stat, Stat)
            return stat

        return await self._ask(act)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._ask(lambda account: self._store.commit([Delete(path, version)], account.id))

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        def act(account: Account) -> list[str]:
            names = self._store.tree.names(path)
            if names is None:
                raise NoNode(path)
            _set_watch(account.child_watches, path, watch)
            return names

        return await self._ask(act)

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        def act(account: Account) -> Stat | None:
            node = self._store.tree.find(path)
            _set_watch(account.data_watches, path, watch)
            return None if node is None else node.stat()

        return await self._ask(act)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        return await self._ask(lambda account: self._store.commit(operations, account.id))

    async def close(self) -> None:
        if self._state is SessionState.CONNECTED:
            try:
                await self._ask(lambda account: self._store.close_account(account.id))
            except StoreError:
                # Out of reach: the session ends when the store misses it.
                self._account.tell = None
        self._disconnect(SessionLost("the session is closed"))
        self._move_to(SessionState.CLOSED)


def _set_watch(watches: dict[str, dict[Watch, None]], path: str, watch: Watch | None) -> None:
    if watch is not None:
        watches.setdefault(path, {})[watch] = None
