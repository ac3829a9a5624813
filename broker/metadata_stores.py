"""Which metadata store a broker uses: its own, one that a process shares, or ZooKeeper."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

from odradek.broker.config import BrokerConfig
from odradek.broker.failures import CannotStart
from odradek.controller.store import ConnectionLost, MetadataStore
from odradek.controller.store_embedded import EmbeddedStore
from odradek.protocol.clock import Clock

METADATA_FILE: Final = "metadata.db"


class OpenedStore(NamedTuple):
    handle: MetadataStore
    close: Callable[[], Awaitable[None]]


async def open_store(
    config: BrokerConfig, shared: EmbeddedStore | None, clock: Clock
) -> OpenedStore:
    """Raises CannotStart when ZooKeeper does not answer."""
    if shared is not None:
        handle = shared.session()
        return OpenedStore(handle, handle.close)
    if config.zookeeper_connect is None:
        path = Path(config.data_dirs[0]) / METADATA_FILE
        own = EmbeddedStore(clock=clock, path=path)
        return OpenedStore(own.session(), own.close)
    # kazoo is a twentieth of a broker's start: only those pay who need it.
    from odradek.controller.store_zookeeper import open_zookeeper

    try:
        zookeeper = await open_zookeeper(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_wait_ms,
        )
    except ConnectionLost as error:
        raise CannotStart(
            f"ZooKeeper at {config.zookeeper_connect} cannot be reached: {error}."
        ) from error
    return OpenedStore(zookeeper, zookeeper.close)
