"""A broker's place in the cluster: the cluster's id, its own id, and its life sign.

The registration is an ephemeral node; the transaction that created it numbers this life of the
broker (the broker epoch). After a lost session the broker registers again and has a new epoch.

When the node is there already, its owner decides. Our present session: an earlier attempt had
worked, though the answer was lost. A session we had before: the store has not noticed yet that it
ended, so the node is deleted. Anyone else: another broker with our id, or ourselves before a
restart; we wait for that session to end, and give up when it does not.
"""

import asyncio
import contextlib
from collections.abc import Callable

from odradek.controller import paths
from odradek.controller.fields import BadNode
from odradek.controller.office import together
from odradek.controller.store import (
    BadVersion,
    MetadataStore,
    NodeExists,
    NoNode,
    ensure_path,
    parent_of,
)
from odradek.controller.znodes import BrokerRegistration, decode_cluster_id, encode_cluster_id


class BrokerIdTaken(Exception):
    """Another living broker has this id."""


async def prepare(store: MetadataStore) -> None:
    """Make the nodes that must always be there."""
    await together(ensure_path(store, parent_of(path)) for path in paths.PERSISTENT)
    await together(ensure_path(store, path) for path in paths.PERSISTENT)


async def cluster_id(store: MetadataStore, new_id: Callable[[], str]) -> str:
    """The cluster's id; the first broker of all chooses it. BadNode when it is damaged."""
    await ensure_path(store, parent_of(paths.CLUSTER_ID))
    with contextlib.suppress(NodeExists):
        await store.create(paths.CLUSTER_ID, encode_cluster_id(new_id()))
    data, _ = await store.get(paths.CLUSTER_ID)
    found = decode_cluster_id(data)
    if not found:
        raise BadNode(f"{paths.CLUSTER_ID} is empty")
    return found


async def generate_broker_id(store: MetadataStore, *, largest_reserved: int) -> int:
    """An id nobody had, above those that people give by hand."""
    await ensure_path(store, paths.BROKER_SEQUENCE)
    stat = await store.set(paths.BROKER_SEQUENCE, b"")
    return largest_reserved + stat.version


class Registration:
    def __init__(self, store: MetadataStore, *, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._path = paths.broker(broker_id)
        # Every session this broker tried to register with.
        self._own_sessions: set[int] = set()

    async def register(self, node: BrokerRegistration, *, patience_seconds: float) -> int:
        """Register in the present session; gives the broker epoch.

        Waits up to `patience_seconds` for a stranger's node to go, then raises BrokerIdTaken.
        """
        self._own_sessions.add(self._store.session_id)
        try:
            async with asyncio.timeout(patience_seconds):
                return await self._insist(node)
        except TimeoutError:
            raise BrokerIdTaken(
                f"Broker id {self._broker_id} is in use: {self._path} belongs to another session."
            ) from None

    async def update(self, node: BrokerRegistration) -> None:
        """Tell of other listeners within the same life."""
        await self._store.set(self._path, node.encode())

    async def unregister(self) -> None:
        """Leave before the session ends; only our own node is touched."""
        stat = await self._store.exists(self._path)
        if stat is not None and stat.ephemeral_owner == self._store.session_id:
            await self._store.delete(self._path)

    async def _insist(self, node: BrokerRegistration) -> int:
        while True:
            epoch = await self._attempt(node)
            if epoch is not None:
                return epoch
            await self._resolve_conflict()

    async def _attempt(self, node: BrokerRegistration) -> int | None:
        """The broker epoch, or None when a node of another session is in the way."""
        try:
            _, stat = await self._store.create(self._path, node.encode(), ephemeral=True)
            return stat.czxid
        except NodeExists:
            found = await self._store.exists(self._path)
        if found is not None and found.ephemeral_owner == self._store.session_id:
            await self._store.set(self._path, node.encode())
            return found.czxid
        return None

    async def _resolve_conflict(self) -> None:
        """Delete the node if it is of a former session of ours, else wait until it changes."""
        changed = asyncio.Event()
        stat = await self._store.exists(self._path, watch=lambda _: changed.set())
        if stat is None:
            return
        if stat.ephemeral_owner in self._own_sessions:
            with contextlib.suppress(NoNode, BadVersion):
                await self._store.delete(self._path, stat.version)
            return
        await changed.wait()
