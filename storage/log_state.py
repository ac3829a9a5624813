"""What a log consists of, where it begins and ends, and what its configuration says.

Offsets: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset; the last three
are exclusive ends. recovery_point <= log_end_offset says below which everything is on disk.

One owner, the log.
"""

from odradek.protocol.settings import MAX_LONG
from odradek.storage.epochs import EpochEntry
from odradek.storage.fence import Fenced
from odradek.storage.log_config import LogConfig
from odradek.storage.log_parts import LogParts
from odradek.storage.log_reading import Bounds
from odradek.storage.ordinary import takes_ordinary_from


class LogState(Fenced):
    # Of a thousand logs that are appended to in turns, none is in a core's caches when its turn
    # comes: what an append touches shall be little, and near by.
    __slots__ = (
        "_appended_epoch",
        "_clock",
        "_files",
        "_max_batch_bytes",
        "_synced_epochs",
        "_takes_ordinary_from",
        "damage",
        "directory",
        "epochs",
        "flushes_appends",
        "high_watermark",
        "is_name_synced",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "segments",
        "shape",
        "topic_partition",
    )

    def __init__(self, parts: LogParts) -> None:
        super().__init__(f"log {parts.topic_partition}", parts.on_failure)
        self.topic_partition = parts.topic_partition
        self.directory = parts.directory
        self.segments = parts.segments
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.recovery_point = parts.recovery_point
        self.high_watermark = parts.log_start_offset
        # Ranges of offsets that recovery found broken below the recovery point.
        self.damage = parts.damage
        self.last_flush_ms = parts.clock.now_ms()
        self._files = parts.files
        self._clock = parts.clock
        # Counts the times that the log was cut.
        self.shape = 0
        # The epoch of the last batch, once its entry in the history is certain.
        self._appended_epoch: int | None = None
        self._synced_epochs: list[EpochEntry] | None = None
        self.is_name_synced = False
        self.use_config(parts.segments.config)

    def __repr__(self) -> str:
        return f"Log({self.directory!r}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        return self.segments.config

    def use_config(self, config: LogConfig) -> None:
        """Take a changed configuration; index settings apply from the next segment on."""
        self.segments.use_config(config)
        self._takes_ordinary_from = takes_ordinary_from(config)
        self._max_batch_bytes = min(config.max_message_bytes, config.segment_bytes)
        self.flushes_appends = config.flush_messages < MAX_LONG

    @property
    def last_stable_offset(self) -> int:
        return self.producers.last_stable_offset(self.high_watermark)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def bounds(self) -> Bounds:
        high_watermark = self.high_watermark
        last_stable = self.producers.last_stable_offset(high_watermark)
        return Bounds(self.log_start_offset, last_stable, high_watermark, self.log_end_offset)

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept between log start and log end; returns what it became."""
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        return self.high_watermark
