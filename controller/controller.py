"""A broker's part in the control plane: campaign, serve a term when elected, campaign again.

Every broker runs one. It follows /controller all the time, so it always knows who is in charge;
`ask` does something in the own term, or says NOT_CONTROLLER. A lost session ends a term at once; a
connection that is merely cut does not, but then nothing can be written until it is back.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from odradek.controller import paths
from odradek.controller.campaign import Won, campaign, resign
from odradek.controller.channels import Send
from odradek.controller.desk import ControllerSettings, Desk
from odradek.controller.fields import BadNode, log
from odradek.controller.office import Deposed, Office
from odradek.controller.store import (
    ConnectionLost,
    MetadataStore,
    SessionLost,
    SessionState,
    StoreError,
    StoreFailed,
)
from odradek.controller.term import Term
from odradek.controller.topics import TopicRules
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError

Value = TypeVar("Value")

# After a failure nobody foresaw: long enough for another broker to take over.
PAUSE_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.05


class Controller:
    def __init__(
        self,
        *,
        store: MetadataStore,
        settings: ControllerSettings,
        rules: TopicRules,
        send: Send,
        clock: Clock,
        random: Random,
        new_id: Callable[[], bytes],
    ) -> None:
        self._store = store
        self._settings = settings
        self._rules = rules
        self._send = send
        self._clock = clock
        self._random = random
        self._new_id = new_id
        # Set while the session is connected.
        self._connected = asyncio.Event()
        if store.state is SessionState.CONNECTED:
            self._connected.set()
        # Set when /controller changed, so that it is time to look again.
        self._stirred = asyncio.Event()
        self._term: Term | None = None
        self._controller_id: int | None = None
        self._main: asyncio.Task[None] | None = None
        store.listen(self._session_changed)

    @property
    def controller_id(self) -> int | None:
        """Who is controller, as far as this broker knows."""
        return self._controller_id

    @property
    def is_active(self) -> bool:
        return self._term is not None

    def start(self) -> None:
        self._main = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop campaigning; an office that is held is given up, so that another takes over."""
        if self._main is not None:
            self._main.cancel()
            await asyncio.gather(self._main, return_exceptions=True)

    async def wait(self) -> None:
        """Raises what ends the controller for good: a store that failed. Else waits for ever."""
        assert self._main is not None, "started before waited for"
        await asyncio.shield(self._main)

    async def ask(self, act: Callable[[Desk], Awaitable[Value]]) -> Value:
        """Do something in the present term. KafkaError(NOT_CONTROLLER) when there is none."""
        if self._term is None:
            raise KafkaError(Errors.NOT_CONTROLLER)
        return await self._term.ask(act)

    async def _run(self) -> None:
        while True:
            await self._connected.wait()
            self._stirred.clear()
            try:
                outcome = await campaign(
                    self._store,
                    broker_id=self._settings.broker_id,
                    clock=self._clock,
                    watch=self._stir,
                )
            except StoreFailed:
                raise
            except (ConnectionLost, SessionLost):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except (StoreError, BadNode) as error:
                log.error("cannot take part in the election of a controller: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if isinstance(outcome, Won):
                await self._hold_office(outcome)
            else:
                await self._serve_under(outcome.broker_id)

    async def _serve_under(self, broker_id: int | None) -> None:
        """Another broker is controller: wait until that changes."""
        if broker_id is not None and broker_id != self._controller_id:
            log.info("broker %d is controller", broker_id)
        self._controller_id = broker_id
        # An unreadable node is looked at again now and then, for it may never change.
        patience = PAUSE_SECONDS if broker_id is None else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._stirred.wait()

    async def _hold_office(self, won: Won) -> None:
        """Serve until the term ends, whatever ends it, and leave the office clean."""
        log.info("this broker is controller of epoch %d", won.epoch)
        self._controller_id = self._settings.broker_id
        self._term = self._new_term(won)
        loop = asyncio.get_running_loop()
        serving = loop.create_task(self._term.serve())
        losing = loop.create_task(self._until_lost())
        try:
            await asyncio.wait({serving, losing}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._end_term(serving, losing)
            await self._resign(won)
            raise
        failure = await self._end_term(serving, losing)
        if isinstance(failure, StoreFailed):
            raise failure
        if failure is None or isinstance(failure, Deposed | SessionLost):
            log.warning("no longer controller: %s", failure or "the office was lost")
            return
        log.error("the controller failed; another broker may do better", exc_info=failure)
        await self._resign(won)
        await asyncio.sleep(PAUSE_SECONDS)

    async def _end_term(
        self, serving: asyncio.Task[None], losing: asyncio.Task[None]
    ) -> BaseException | None:
        """Stop both tasks; gives what the term itself failed of, if it was not stopped."""
        self._term = None
        self._controller_id = None
        serving.cancel()
        losing.cancel()
        outcome, _ = await asyncio.gather(serving, losing, return_exceptions=True)
        return None if isinstance(outcome, asyncio.CancelledError) else outcome

    async def _until_lost(self) -> None:
        """Return when /controller is no longer this session's node."""
        session = self._store.session_id
        while self._store.session_id == session and self._store.state is not SessionState.LOST:
            self._stirred.clear()
            try:
                stat = await self._store.exists(paths.CONTROLLER, watch=self._stir)
            except ConnectionLost:
                await self._connected.wait()
                continue
            if stat is None or stat.ephemeral_owner != session:
                return
            await self._stirred.wait()

    def _new_term(self, won: Won) -> Term:
        return Term(
            store=self._store,
            office=Office(self._store, won),
            settings=self._settings,
            rules=self._rules,
            send=self._send,
            random=self._random,
            new_id=self._new_id,
            connected=self._connected,
        )

    async def _resign(self, won: Won) -> None:
        # Without the store the node cannot be removed; it then goes with the session.
        with contextlib.suppress(StoreError):
            await resign(self._store, won)

    def _stir(self, _: object) -> None:
        self._stirred.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()
        if state is SessionState.LOST:
            # Watches are gone with the session, and the office with its node.
            self._stirred.set()
