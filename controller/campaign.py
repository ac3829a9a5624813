"""Becoming the controller: whoever creates /controller, in one step with a new epoch.

The node and the epoch are written in one multi, so there are never two controllers of one epoch,
nor one without. The node is ephemeral: it goes with the session of the broker that made it.
"""

import contextlib
from dataclasses import dataclass

from odradek.controller import paths
from odradek.controller.fields import readable
from odradek.controller.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    NodeExists,
    NoNode,
    Set,
    Stat,
    Watch,
)
from odradek.controller.znodes import ControllerNode, decode_epoch, encode_epoch
from odradek.protocol.clock import Clock


@dataclass(frozen=True, slots=True)
class Won:
    """This broker is controller; its writes are fenced by the epoch node's version."""

    epoch: int
    epoch_version: int


@dataclass(frozen=True, slots=True)
class Other:
    """Another broker is; None when that could not be told."""

    broker_id: int | None


async def campaign(
    store: MetadataStore, *, broker_id: int, clock: Clock, watch: Watch
) -> Won | Other:
    """Try once. `watch` is set on /controller and fires when there is reason to try again.

    After ConnectionLost, call again: a node of our own session means that the attempt had worked,
    and since nobody can raise the epoch while the node is there, the epoch is ours too.
    """
    stat = await store.exists(paths.CONTROLLER, watch=watch)
    if stat is not None and stat.ephemeral_owner == store.session_id:
        epoch, version = await _read_epoch(store)
        return Won(epoch, version)
    if stat is not None:
        return Other(await read_controller(store))
    epoch, version = await _read_epoch(store)
    node = ControllerNode(broker_id, clock.now_ms())
    try:
        _, raised = await store.multi(
            [
                Create(paths.CONTROLLER, node.encode(), ephemeral=True),
                Set(paths.CONTROLLER_EPOCH, encode_epoch(epoch + 1), version),
            ]
        )
    except (NodeExists, BadVersion, NoNode):
        return Other(await read_controller(store))
    assert isinstance(raised, Stat)
    return Won(epoch + 1, raised.version)


async def read_controller(store: MetadataStore) -> int | None:
    """Who is controller according to the store, if anyone."""
    try:
        data, _ = await store.get(paths.CONTROLLER)
    except NoNode:
        return None
    node = readable(paths.CONTROLLER, data, ControllerNode.decode)
    return None if node is None else node.broker_id


async def resign(store: MetadataStore, won: Won) -> None:
    """Give up the office, if it is still the one that was won."""
    # Someone else's office, or none: then there is nothing left to give up.
    with contextlib.suppress(NoNode, BadVersion):
        await store.multi(
            [Check(paths.CONTROLLER_EPOCH, won.epoch_version), Delete(paths.CONTROLLER)]
        )


async def _read_epoch(store: MetadataStore) -> tuple[int, int]:
    try:
        data, stat = await store.get(paths.CONTROLLER_EPOCH)
    except NoNode:
        return await _first_epoch(store)
    return decode_epoch(data), stat.version


async def _first_epoch(store: MetadataStore) -> tuple[int, int]:
    try:
        _, stat = await store.create(paths.CONTROLLER_EPOCH, encode_epoch(0))
    except NodeExists:
        data, stat = await store.get(paths.CONTROLLER_EPOCH)
        return decode_epoch(data), stat.version
    return 0, stat.version
