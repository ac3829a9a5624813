"""The features of the cluster: what its brokers can do together, and what has been agreed on.

A feature has levels. Brokers say in ApiVersions which levels they support and which one is
finalized; clients use what is finalized alone. The levels that are finalized lie in one node of
the metadata store, in Kafka's form, and every broker follows it.

`transaction.version` 2 lets clients end each transaction with a new producer epoch (KIP-890). As
with Kafka 3.9 on ZooKeeper, it is not finalized unless somebody asks for it, with kafka-features.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.controller import paths
from odradek.controller.fields import BadNode
from odradek.controller.store import (
    BadVersion,
    ConnectionLost,
    MetadataStore,
    NodeExists,
    NoNode,
    SessionLost,
    SessionState,
    WatchEvent,
)
from odradek.controller.znodes import decode_features, encode_features

log: Final = logging.getLogger(__name__)

TRANSACTION_VERSION: Final = "transaction.version"

NO_EPOCH: Final = -1


class Levels(NamedTuple):
    first: int
    last: int


SUPPORTED: Final[Mapping[str, Levels]] = {TRANSACTION_VERSION: Levels(0, 2)}


class Finalized(NamedTuple):
    """What is agreed on; the epoch counts the changes."""

    levels: Mapping[str, int]
    epoch: int = NO_EPOCH


NOTHING: Final = Finalized({})


class Features:
    """One owner: the event loop. `finalized` is what was last read."""

    def __init__(self, store: MetadataStore) -> None:
        self.finalized = NOTHING
        self._store = store
        self._stirred = asyncio.Event()
        self._stirred.set()
        store.listen(self._session_changed)

    async def run(self) -> None:
        """Follow the node until cancelled."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            try:
                await self.read()
            except (ConnectionLost, SessionLost) as error:
                log.warning("changes of features are delayed: %s", error)

    async def read(self) -> Finalized:
        await self._store.exists(paths.FEATURE, watch=self._stir)
        try:
            data, stat = await self._store.get(paths.FEATURE)
            self.finalized = Finalized(decode_features(data), stat.version)
        except NoNode:
            self.finalized = NOTHING
        except BadNode as error:
            log.warning("the features of the cluster cannot be read: %s", error)
        return self.finalized

    async def change(self, decide: Callable[[Mapping[str, int]], Mapping[str, int]]) -> None:
        """Write what `decide` makes of the levels there are; it is asked again when somebody else
        was quicker. A level of 0 is none."""
        while True:
            known = await self.read()
            levels = {name: level for name, level in decide(known.levels).items() if level}
            data = encode_features(levels)
            try:
                if known.epoch == NO_EPOCH:
                    await self._store.create(paths.FEATURE, data)
                else:
                    await self._store.set(paths.FEATURE, data, known.epoch)
            except (BadVersion, NodeExists, NoNode):
                continue
            await self.read()
            return

    def _stir(self, _: WatchEvent) -> None:
        self._stirred.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._stirred.set()
