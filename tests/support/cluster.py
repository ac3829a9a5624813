"""A cluster of ours inside the test's own process and event loop."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random

from odradek.broker.config import BrokerConfig
from odradek.broker.local_cluster import LocalCluster, cluster_settings
from odradek.protocol.clock import SystemClock
from odradek.storage.files import Files, OsFiles


def local_cluster(
    directory: Path,
    brokers: int = 3,
    *,
    overrides: Mapping[str, object] | None = None,
    disks: int = 1,
    files: Files | None = None,
) -> LocalCluster:
    """Not started yet. Brokers are numbered from 1, each with so many directories, a port and a
    rack of its own."""

    def give_up(reason: str) -> None:
        raise AssertionError(reason)

    configs = [
        BrokerConfig.of(
            {
                **cluster_settings(brokers),
                "broker.id": str(number),
                "broker.rack": f"rack-{number}",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": ",".join(
                    str(directory / f"broker-{number}" / f"disk-{disk}") for disk in range(disks)
                ),
                "replica.lag.time.max.ms": "2000",
                "offsets.topic.num.partitions": "3",
                **{name: str(value) for name, value in (overrides or {}).items()},
            }
        )
        for number in range(1, brokers + 1)
    ]
    directory.mkdir(parents=True, exist_ok=True)
    return LocalCluster(
        configs,
        directory=directory,
        loop=asyncio.get_running_loop(),
        clock=SystemClock(),
        files=files or OsFiles(),
        random=Random(1),
        on_fatal=give_up,
    )
