"""A broker's membership in its cluster: registered while its session lives, and again after it.

A session that ended took the registration with it. The next one gets a new registration, and with
it a new broker epoch, by which the controller knows that this is another life of the broker.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.broker.config import BrokerConfig
from odradek.broker.failures import CannotStart
from odradek.controller.registration import BrokerIdTaken, Registration, generate_broker_id
from odradek.controller.store import MetadataStore, SessionState, StoreError, StoreFailed
from odradek.controller.znodes import BrokerRegistration
from odradek.storage.properties_files import MetaProperties

_log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.2
FIRST_BROKER_ID: Final = 0


async def find_broker_id(
    config: BrokerConfig, meta: MetaProperties, store: MetadataStore, *, is_clustered: bool
) -> int:
    """The configured number, the one in the directories, or one that nobody had."""
    if config.broker_id >= 0:
        return config.broker_id
    if meta.broker_id is not None:
        return meta.broker_id
    if not is_clustered:
        return FIRST_BROKER_ID
    if not config.broker_id_generation_enable:
        raise CannotStart("broker.id is not set, and broker.id.generation.enable is false.")
    return await generate_broker_id(store, largest_reserved=config.reserved_broker_max_id)


class Membership:
    """`joined` is called with the epoch of each life."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        broker_id: int,
        node: Callable[[], BrokerRegistration],
        patience_seconds: float,
        joined: Callable[[int], None],
    ) -> None:
        self._store = store
        self._node = node
        self._patience_seconds = patience_seconds
        self._joined = joined
        self._registration = Registration(store, broker_id=broker_id)
        self._is_lost = False
        self._has_left = False
        self._rejoining: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Register for the first time. Raises BrokerIdTaken."""
        self._joined(await self._register())
        self._store.listen(self._session_changed)

    async def leave(self) -> None:
        """Unregister, for good: a session that is lost from now on, while what has begun is still
        answered, is not a reason to come back."""
        self._has_left = True
        if self._rejoining is not None:
            self._rejoining.cancel()
            await asyncio.gather(self._rejoining, return_exceptions=True)
        await self._registration.unregister()

    async def _register(self) -> int:
        return await self._registration.register(
            self._node(), patience_seconds=self._patience_seconds
        )

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            _log.warning("the session with the metadata store is lost")
            self._is_lost = True
        elif state is SessionState.CONNECTED and self._should_rejoin:
            self._rejoining = asyncio.get_running_loop().create_task(self._rejoin())

    @property
    def _should_rejoin(self) -> bool:
        return self._is_lost and not self._has_left and self._rejoining is None

    async def _rejoin(self) -> None:
        """Register again, for as long as it takes."""
        try:
            while self._is_lost:
                self._is_lost = False
                try:
                    epoch = await self._register()
                except StoreFailed:
                    raise
                except (StoreError, BrokerIdTaken) as error:
                    _log.warning("cannot register again yet: %s", error)
                    self._is_lost = True
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    _log.info("registered again, as epoch %d", epoch)
                    self._joined(epoch)
        finally:
            self._rejoining = None
