"""Dynamic configuration in the store: who has what set, and how brokers hear of a change.

An entity is named as its path below /config: `topics/T`, `brokers/1`, `brokers/<default>`,
`users/U`, `clients/C`, `users/U/clients/C`, `ips/A`. A change writes the entity and, in the same
multi, a notification under /config/changes; every broker follows these and reads the entity again.
What a setting means, and whether it is allowed, is for the caller to know.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.controller import paths
from odradek.controller.fields import log, readable
from odradek.controller.store import (
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    MetadataStore,
    NodeExists,
    NoNode,
    Operation,
    SessionLost,
    SessionState,
    Set,
    Watch,
    ensure_path,
    name_of,
    parent_of,
)
from odradek.controller.znodes import ConfigChange, ConfigNode
from odradek.protocol.clock import Clock

# Notifications older than this have been seen by every broker that lives.
CHANGE_LIFETIME_MS: Final = 15 * 60 * 1000

Config = Mapping[str, str]


def topic_entity(name: str) -> str:
    return f"topics/{name}"


def broker_entity(broker_id: int | None) -> str:
    """One broker's entity, or the default of all brokers."""
    return f"brokers/{paths.DEFAULT_ENTITY if broker_id is None else broker_id}"


def quota_entity(*, user: str | None = None, client: str | None = None) -> str:
    """Names are escaped here; pass `paths.DEFAULT_ENTITY` for the default of a kind."""
    parts = []
    if user is not None:
        parts.append(f"users/{_element(user)}")
    if client is not None:
        parts.append(f"clients/{_element(client)}")
    if not parts:
        raise ValueError("a quota entity names a user, a client or both")
    return "/".join(parts)


def _element(name: str) -> str:
    return name if name == paths.DEFAULT_ENTITY else paths.escape(name)


async def read_config(store: MetadataStore, entity: str) -> Config:
    """What is set for an entity; nothing when it has no node or an unreadable one."""
    return (await _read(store, entity))[0]


async def _read(store: MetadataStore, entity: str) -> tuple[Config, int | None]:
    path = paths.config(entity)
    try:
        data, stat = await store.get(path)
    except NoNode:
        return {}, None
    node = readable(path, data, ConfigNode.decode)
    return ({} if node is None else node.config), stat.version


async def read_all_configs(store: MetadataStore, kind: str) -> dict[str, Config]:
    """Every entity of one kind that has something set, by its name as stored."""
    names = await store.children(f"/config/{kind}")
    configs = await asyncio.gather(*(read_config(store, f"{kind}/{name}") for name in names))
    return {name: config for name, config in zip(names, configs, strict=True) if config}


async def change_config(
    store: MetadataStore, entity: str, change: Callable[[Config], Config]
) -> Config:
    """Read, change, compare-and-set and notify, again until nobody came between.

    `change` gets what is set and returns what shall be; it may raise to refuse.
    """
    while True:
        before, version = await _read(store, entity)
        after = change(before)
        if version is None and not after:
            return after
        notice = Create(paths.CONFIG_CHANGE_PREFIX, ConfigChange(entity).encode(), sequential=True)
        try:
            await store.multi([_write(entity, after, version), notice])
            return after
        except (BadVersion, NodeExists, NoNode):
            await ensure_path(store, parent_of(paths.config(entity)))
            await ensure_path(store, paths.CONFIG_CHANGES)


def _write(entity: str, config: Config, version: int | None) -> Operation:
    path, data = paths.config(entity), ConfigNode(config).encode()
    return Create(path, data) if version is None else Set(path, data, version)


async def write_config(store: MetadataStore, entity: str, config: Config) -> None:
    """Set exactly this for an entity."""
    await change_config(store, entity, lambda _: config)


@dataclass(frozen=True, slots=True)
class Changes:
    """Entities that changed, in order, each once; and the last notification's number."""

    entities: tuple[str, ...]
    last: int


async def read_changes(store: MetadataStore, after: int, watch: Watch) -> Changes:
    """Notifications with a number above `after`; `watch` fires when there are more."""
    names = await store.children(paths.CONFIG_CHANGES, watch=watch)
    numbers = {number: name for name in names if (number := _number(name)) > after}
    entities: dict[str, None] = {}
    for number in sorted(numbers):
        path = f"{paths.CONFIG_CHANGES}/{numbers[number]}"
        try:
            data, _ = await store.get(path)
        except NoNode:
            continue
        change = readable(path, data, ConfigChange.decode)
        if change is not None:
            entities[change.entity_path] = None
    return Changes(tuple(entities), max(numbers, default=after))


def _number(name: str) -> int:
    digits = name.removeprefix(name_of(paths.CONFIG_CHANGE_PREFIX))
    return int(digits) if digits.isdecimal() else -1


async def purge_changes(store: MetadataStore, clock: Clock) -> None:
    """Delete notifications that everyone has seen."""
    oldest_ms = clock.now_ms() - CHANGE_LIFETIME_MS
    for name in await store.children(paths.CONFIG_CHANGES):
        path = f"{paths.CONFIG_CHANGES}/{name}"
        stat = await store.exists(path)
        if stat is None or stat.ctime_ms > oldest_ms:
            continue
        try:
            await store.multi([Delete(path)])
        except NoNode:
            continue  # another broker purges too


class ConfigFollower:
    """Tells a broker of every configuration change, from the moment it starts."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        clock: Clock,
        apply: Callable[[str, Config], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._apply = apply
        self._last = -1
        self._stirred = asyncio.Event()
        store.listen(self._session_changed)

    async def start(self) -> None:
        """Skip what happened before; the caller reads current configs after this returns."""
        self._last = (await read_changes(self._store, -1, self._stir)).last

    async def run(self) -> None:
        """Follow until cancelled. A lost connection is waited out; numbers say what was missed."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            try:
                await self._catch_up()
            except (ConnectionLost, SessionLost) as error:
                log.warning("configuration changes are delayed: %s", error)

    async def _catch_up(self) -> None:
        changes = await read_changes(self._store, self._last, self._stir)
        for entity in changes.entities:
            await self._apply(entity, await read_config(self._store, entity))
        self._last = changes.last
        await purge_changes(self._store, self._clock)

    def _stir(self, _: object) -> None:
        self._stirred.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._stirred.set()
