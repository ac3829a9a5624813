"""`odradek cluster` in one process: every broker on one event loop, until a signal comes."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from odradek.broker.config import BrokerConfig
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.network.peer import Address
from odradek.broker.process import (
    give_up,
    log,
    on_signals,
    run_loop,
    spare_garbage_collection,
)
from odradek.broker.wanted_topics import WantedTopic
from odradek.protocol.clock import SystemClock
from odradek.storage.files import OsFiles, raise_open_file_limit


def run_cluster(
    configs: Sequence[BrokerConfig],
    directory: Path,
    topics: Sequence[WantedTopic],
    announce: Callable[[Sequence[Address]], None],
) -> None:
    """`announce` is called when every broker serves. Raises CannotStart or CannotListen."""
    raise_open_file_limit()
    run_loop(_serve(configs, directory, topics, announce))


async def _serve(
    configs: Sequence[BrokerConfig],
    directory: Path,
    topics: Sequence[WantedTopic],
    announce: Callable[[Sequence[Address]], None],
) -> None:
    loop = asyncio.get_running_loop()
    stop = on_signals(loop)
    cluster = LocalCluster(
        configs,
        directory=directory,
        loop=loop,
        clock=SystemClock(),
        files=OsFiles(),
        random=Random(),
        on_fatal=give_up,
    )
    await cluster.start(topics)
    spare_garbage_collection()
    announce(cluster.addresses)
    await stop.wait()
    log.info("stopping")
    await cluster.stop()
    log.info("stopped")
