"""Topics, log directories and the cleaner."""

from odradek.protocol.checks import at_least
from odradek.protocol.settings import (
    Dynamic,
    Importance,
    Settings,
    boolean,
    double,
    integer,
    long,
    optional_text,
    text,
)
from odradek.storage.log_config import broker_settings

_MAX_DOUBLE = 1.7976931348623157e308


class TopicSettings(Settings):
    """Topics."""

    auto_create_topics_enable = boolean(
        "auto.create.topics.enable",
        True,
        "Whether a topic is created when a client asks for it by name.",
        importance=Importance.HIGH,
    )
    delete_topic_enable = boolean(
        "delete.topic.enable", True, "Whether topics may be deleted.", importance=Importance.HIGH
    )
    num_partitions = integer(
        "num.partitions",
        1,
        "How many partitions a topic gets when nobody says.",
        check=at_least(1),
    )
    default_replication_factor = integer(
        "default.replication.factor", 1, "How many replicas a topic gets when nobody says."
    )


class LogSettings(Settings):
    """Log directories and background work."""

    log_dir = text(
        "log.dir",
        "/tmp/kafka-logs",
        "The directory of the logs, when `log.dirs` is unset.",
        importance=Importance.HIGH,
    )
    log_dirs = optional_text(
        "log.dirs",
        "The directories of the logs, separated by commas.",
        importance=Importance.HIGH,
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        5 * 60 * 1000,
        "How often the broker looks for segments to delete.",
        check=at_least(1),
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often the broker notes how far each log is known to be on disk.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "How often the broker notes the first offset of each log.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    log_initial_task_delay_ms = long(
        "log.initial.task.delay.ms",
        30_000,
        "How long after the start the background work on logs begins.",
        check=at_least(0),
        importance=Importance.LOW,
    )
    num_recovery_threads_per_data_dir = integer(
        "num.recovery.threads.per.data.dir",
        1,
        "How many threads recover the logs of a directory at the start and sync them at the end.",
        check=at_least(1),
        dynamic=Dynamic.CLUSTER_WIDE,
        importance=Importance.HIGH,
    )

    @property
    def data_dirs(self) -> tuple[str, ...]:
        """The log directories, in the order given, without blanks."""
        given = self.log_dir if self.log_dirs is None else self.log_dirs
        return tuple(part.strip() for part in given.split(",") if part.strip())


class CleanerSettings(Settings):
    """Compaction."""

    log_cleaner_enable = boolean(
        "log.cleaner.enable", True, "Whether compacted topics are compacted."
    )
    log_cleaner_threads = integer(
        "log.cleaner.threads",
        1,
        "How many logs are compacted at once.",
        check=at_least(0),
        dynamic=Dynamic.CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = double(
        "log.cleaner.io.max.bytes.per.second",
        _MAX_DOUBLE,
        "How fast compaction may read and write, all threads together.",
        dynamic=Dynamic.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 * 1024**2,
        "The memory for the keys of the logs being compacted, all threads together.",
        dynamic=Dynamic.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        512 * 1024,
        "The memory for reading and writing while compacting, all threads together.",
        check=at_least(0),
        dynamic=Dynamic.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "How full the memory for keys may become before a compaction stops taking in more.",
        dynamic=Dynamic.CLUSTER_WIDE,
    )
    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15_000,
        "How long a cleaner rests when there is nothing to clean.",
        check=at_least(0),
        dynamic=Dynamic.CLUSTER_WIDE,
    )


class TopicDefaultSettings(Settings, also=broker_settings()):
    """Defaults for topics."""
