"""Logs on disk for measurements that need no broker."""

import os
import random

from odradek.protocol.clock import SystemClock
from odradek.protocol.types import TopicPartition
from odradek.storage.files import OsFiles
from odradek.storage.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.recovery import LogOpening, open_log

_EXPIRATION_MS = 86_400_000


def new_log(directory: str, where: TopicPartition, config: LogConfig | None = None) -> Log:
    """An empty log, with the defaults unless told; a disk that fails ends the measurement."""
    os.makedirs(directory)
    return open_log(
        LogOpening(
            topic_partition=where,
            directory=directory,
            files=OsFiles(),
            clock=SystemClock(),
            random=random.Random(1),
            config=config or LogConfig.from_broker({}),
            producer_expiration_ms=_EXPIRATION_MS,
            on_failure=_give_up,
        )
    )


def _give_up(error: OSError) -> None:
    raise error
