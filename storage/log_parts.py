"""The values that go into a log when it is opened and come out when it is appended to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.protocol.clock import Clock
from odradek.protocol.types import TopicPartition
from odradek.storage.epochs import LeaderEpochs
from odradek.storage.files import Buffer, Files
from odradek.storage.producer_state import ProducerStates
from odradek.storage.segments import Segments


class AppendInfo(NamedTuple):
    """Where records went."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 unless the broker's clock stamped the batch
    log_start_offset: int
    is_duplicate: bool = False  # the batch was there already; nothing was appended
    written: Buffer = b""  # the bytes that are in the log now


@dataclass(slots=True, kw_only=True)
class LogParts:
    """What `recovery` found and put together."""

    topic_partition: TopicPartition
    directory: str
    files: Files
    clock: Clock
    segments: Segments
    epochs: LeaderEpochs
    producers: ProducerStates
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    damage: list[range] = field(default_factory=list)
    on_failure: Callable[[OSError], None]
