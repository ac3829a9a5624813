"""The settings of a topic: how its partitions' logs are written, kept and cleaned.

`LogConfig` declares every topic-level setting once. Each names the broker-level settings that
give its value when the topic itself says nothing (`retention.ms` <- `log.retention.ms` <-
`log.retention.minutes` <- `log.retention.hours`); from them `broker_settings` derives the broker's
own declarations, so that no default, bound or unit is written twice. Of such a chain the last
name carries the default, the names before it are unset until somebody sets them, and only the
first may change while the broker runs.

A `LogConfig` is an immutable snapshot: the broker builds one from its own settings with
`from_broker`, and one per topic with `with_overrides`. A log is handed a new one when its topic's
configuration changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from odradek.protocol.checks import (
    Value,
    at_least,
    between,
    either,
    exactly,
    kafka_version,
    matching,
    one_of,
)
from odradek.protocol.settings import (
    MAX_LONG,
    Dynamic,
    Importance,
    Kind,
    Setting,
    Settings,
    SettingsError,
    Synonym,
    boolean,
    double,
    integer,
    long,
    text,
    words,
)

_MINUTE_MS = 60 * 1000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS

# What "no limit of its own" is for local retention: as long as retention.ms and .bytes say.
_AS_RETENTION = -2

_REPLICA_LIST = matching(r"\*|[0-9]+:[0-9]+", "* or a list of partition:broker pairs")


def _from(*names: str) -> tuple[Synonym, ...]:
    units = {"minutes": _MINUTE_MS, "hours": _HOUR_MS}
    return tuple(Synonym(name, units.get(name.rpartition(".")[2], 1)) for name in names)


class LogConfig(Settings):
    """Settings of a topic."""

    segment_bytes = integer(
        "segment.bytes",
        1024**3,
        "The size at which a segment file is closed and the next one begun.",
        check=at_least(14),
        synonyms=_from("log.segment.bytes"),
    )
    segment_ms = long(
        "segment.ms",
        7 * _DAY_MS,
        "The age at which a segment is closed even though it is not full, so that old records "
        "can be deleted or compacted.",
        check=at_least(1),
        synonyms=_from("log.roll.ms", "log.roll.hours"),
    )
    segment_jitter_ms = long(
        "segment.jitter.ms",
        0,
        "The most that is taken off segment.ms at random, so that not all logs roll at once.",
        check=at_least(0),
        synonyms=_from("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_index_bytes = integer(
        "segment.index.bytes",
        10 * 1024**2,
        "The largest size of a segment's offset or time index; a full index closes the segment.",
        check=at_least(4),
        synonyms=_from("log.index.size.max.bytes"),
    )
    flush_messages = long(
        "flush.messages",
        MAX_LONG,
        "How many records may be appended before the log is synced to disk. Replication is the "
        "better safety; leave this to the operating system unless you know why.",
        check=at_least(1),
        synonyms=_from("log.flush.interval.messages"),
    )
    flush_ms = long(
        "flush.ms",
        MAX_LONG,
        "How long records may stay unsynced to disk.",
        check=at_least(0),
        synonyms=_from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    retention_bytes = long(
        "retention.bytes",
        -1,
        "The size of a partition above which its oldest segments are deleted; -1 is no limit.",
        synonyms=_from("log.retention.bytes"),
    )
    retention_ms = long(
        "retention.ms",
        7 * _DAY_MS,
        "The age above which records are deleted; -1 is no limit.",
        check=at_least(-1),
        synonyms=_from("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    max_message_bytes = integer(
        "max.message.bytes",
        1024**2 + 12,
        "The largest record batch that is accepted, compressed as it came.",
        check=at_least(0),
        synonyms=_from("message.max.bytes"),
    )
    index_interval_bytes = integer(
        "index.interval.bytes",
        4096,
        "About how many bytes of log lie between two entries of the offset index.",
        check=at_least(0),
        synonyms=_from("log.index.interval.bytes"),
    )
    delete_retention_ms = long(
        "delete.retention.ms",
        _DAY_MS,
        "How long a compacted topic keeps the mark of a deleted key, so that readers who began "
        "before can still learn of the deletion.",
        check=at_least(0),
        synonyms=_from("log.cleaner.delete.retention.ms"),
    )
    min_compaction_lag_ms = long(
        "min.compaction.lag.ms",
        0,
        "The age a record must reach before compaction may remove it.",
        check=at_least(0),
        synonyms=_from("log.cleaner.min.compaction.lag.ms"),
    )
    max_compaction_lag_ms = long(
        "max.compaction.lag.ms",
        MAX_LONG,
        "The age at which a record is due for compaction, however clean the log is otherwise.",
        check=at_least(1),
        synonyms=_from("log.cleaner.max.compaction.lag.ms"),
    )
    file_delete_delay_ms = long(
        "file.delete.delay.ms",
        60_000,
        "How long a deleted segment's files stay on disk, for readers who are still at them.",
        check=at_least(0),
        synonyms=_from("log.segment.delete.delay.ms"),
    )
    min_cleanable_dirty_ratio = double(
        "min.cleanable.dirty.ratio",
        0.5,
        "The share of a compacted log that must be new since the last cleaning before it is "
        "cleaned again.",
        check=between(0, 1),
        synonyms=_from("log.cleaner.min.cleanable.ratio"),
    )
    cleanup_policy = words(
        "cleanup.policy",
        ("delete",),
        "What becomes of old records: delete removes whole segments by age and size, compact "
        "keeps the last record of each key. Both may be given.",
        check=one_of("compact", "delete"),
        synonyms=_from("log.cleanup.policy"),
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that is not in sync may become leader when no other is left. It "
        "brings the partition back at the price of acknowledged records.",
        synonyms=_from("unclean.leader.election.enable"),
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        "How many replicas, the leader among them, must be in sync for a produce request with "
        "acks=all to be accepted.",
        check=at_least(1),
        synonyms=_from("min.insync.replicas"),
    )
    compression_type = text(
        "compression.type",
        "producer",
        "The compression in which batches are stored; producer keeps what the producer chose.",
        check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=_from("compression.type"),
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        -1,
        "The gzip level when compression.type is gzip; -1 is the library's choice.",
        check=either(between(1, 9), exactly(-1)),
        synonyms=_from("compression.gzip.level"),
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        9,
        "The lz4 level when compression.type is lz4.",
        check=between(1, 17),
        synonyms=_from("compression.lz4.level"),
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        3,
        "The zstd level when compression.type is zstd.",
        check=between(-131072, 22),
        synonyms=_from("compression.zstd.level"),
    )
    preallocate = boolean(
        "preallocate",
        False,
        "Whether a new segment file is given its full size on disk at once.",
        synonyms=_from("log.preallocate"),
    )
    message_format_version = text(
        "message.format.version",
        "3.0-IV1",
        "Accepted for old tools and without effect: batches are always stored in format 2.",
        check=kafka_version(),
        synonyms=_from("log.message.format.version"),
    )
    message_timestamp_type = text(
        "message.timestamp.type",
        "CreateTime",
        "Whether a record keeps the producer's timestamp or gets the broker's at the append.",
        check=one_of("CreateTime", "LogAppendTime"),
        synonyms=_from("log.message.timestamp.type"),
    )
    message_timestamp_difference_max_ms = long(
        "message.timestamp.difference.max.ms",
        MAX_LONG,
        "Old form of the two limits below: holds for each of them that is not set itself.",
        check=at_least(0),
        synonyms=_from("log.message.timestamp.difference.max.ms"),
    )
    message_timestamp_before_max_ms = long(
        "message.timestamp.before.max.ms",
        MAX_LONG,
        "How far a CreateTime timestamp may lie before the broker's clock.",
        check=at_least(0),
        synonyms=_from("log.message.timestamp.before.max.ms"),
    )
    message_timestamp_after_max_ms = long(
        "message.timestamp.after.max.ms",
        MAX_LONG,
        "How far a CreateTime timestamp may lie after the broker's clock.",
        check=at_least(0),
        synonyms=_from("log.message.timestamp.after.max.ms"),
    )
    leader_replication_throttled_replicas = words(
        "leader.replication.throttled.replicas",
        (),
        "Replicas whose replication traffic counts against the leader's throttle: "
        "partition:broker pairs, or * for all.",
        check=_REPLICA_LIST,
    )
    follower_replication_throttled_replicas = words(
        "follower.replication.throttled.replicas",
        (),
        "Replicas whose replication traffic counts against the follower's throttle: "
        "partition:broker pairs, or * for all.",
        check=_REPLICA_LIST,
    )
    message_downconversion_enable = boolean(
        "message.downconversion.enable",
        True,
        "Whether old consumers get batches converted to the older formats they ask for.",
        importance=Importance.LOW,
        synonyms=_from("log.message.downconversion.enable"),
    )
    remote_storage_enable = boolean(
        "remote.storage.enable",
        False,
        "Tiered storage, which is not there: only false is accepted.",
        check=exactly(False, because="there is no tiered storage"),
    )
    local_retention_ms = long(
        "local.retention.ms",
        _AS_RETENTION,
        "Without effect, as it is in Kafka for topics without tiered storage.",
        check=at_least(_AS_RETENTION),
        synonyms=_from("log.local.retention.ms"),
    )
    local_retention_bytes = long(
        "local.retention.bytes",
        _AS_RETENTION,
        "Without effect, as it is in Kafka for topics without tiered storage.",
        check=at_least(_AS_RETENTION),
        synonyms=_from("log.local.retention.bytes"),
    )
    remote_log_copy_disable = boolean(
        "remote.log.copy.disable",
        False,
        "Without effect, as it is in Kafka for topics without tiered storage.",
    )
    remote_log_delete_on_disable = boolean(
        "remote.log.delete.on.disable",
        False,
        "Without effect, as it is in Kafka for topics without tiered storage.",
    )

    @classmethod
    def from_broker(cls, broker: Mapping[str, Value]) -> "LogConfig":
        """What holds for topics that say nothing, from the broker's own typed values."""
        return cls({name: _from_chain(setting, broker) for name, setting in cls.table.items()})

    def with_overrides(self, overrides: Mapping[str, str]) -> "LogConfig":
        """The configuration of a topic, from the texts stored for it.

        A stored name that is unknown here is passed over: another version may have written it.
        Raises SettingsError for values that do not parse or contradict each other.
        """
        config = LogConfig({**self.values, **self.table.parse(overrides)})
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise SettingsError(
                [
                    f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) must not exceed "
                    f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
                ]
            )
        return config

    def checked(self, overrides: Mapping[str, str]) -> "LogConfig":
        """As `with_overrides`, for texts that somebody asks to store: unknown names are refused."""
        unknown = self.table.unknown(overrides)
        if unknown:
            raise SettingsError([f"Unknown topic config name: {name}" for name in unknown])
        return self.with_overrides(overrides)

    @cached_property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @cached_property
    def has_retention(self) -> bool:
        """Whether retention.ms and retention.bytes apply."""
        return "delete" in self.cleanup_policy

    @cached_property
    def uses_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @cached_property
    def oldest_timestamp_lag_ms(self) -> int:
        """How far a CreateTime may lie in the past; the older setting stands in for the newer."""
        if self.message_timestamp_before_max_ms != MAX_LONG:
            return self.message_timestamp_before_max_ms
        return self.message_timestamp_difference_max_ms

    @cached_property
    def newest_timestamp_lead_ms(self) -> int:
        """How far a CreateTime may lie in the future; the older setting stands in likewise."""
        if self.message_timestamp_after_max_ms != MAX_LONG:
            return self.message_timestamp_after_max_ms
        return self.message_timestamp_difference_max_ms


def _from_chain(setting: Setting[Value], broker: Mapping[str, Value]) -> Value:
    for synonym in setting.synonyms:
        value = broker.get(synonym.name)
        if value is None:
            continue
        if synonym.unit == 1:
            return value
        assert isinstance(value, int)
        # Any negative time means no limit, and no limit is -1 whatever the unit.
        return max(value * synonym.unit, -1)
    return setting.default


def broker_settings() -> Iterator[Setting[Value]]:
    """The broker-level settings that the topic settings name as their synonyms."""
    for setting in LogConfig.table.values():
        for place, synonym in enumerate(setting.synonyms):
            yield _broker_setting(setting, synonym, place)


def _broker_setting(setting: Setting[Value], synonym: Synonym, place: int) -> Setting[Value]:
    is_last = place == len(setting.synonyms) - 1
    default = setting.default if is_last else None
    kind = setting.kind
    if synonym.unit != 1:
        kind = Kind.INT
        default = default // synonym.unit if isinstance(default, int) else None
    return replace(
        setting,
        name=synonym.name,
        kind=kind,
        default=default,
        doc=_broker_doc(setting, synonym, place),
        dynamic=Dynamic.CLUSTER_WIDE if place == 0 else Dynamic.READ_ONLY,
        synonyms=(),
    )


def _broker_doc(setting: Setting[Value], synonym: Synonym, place: int) -> str:
    if place == 0:
        return f"`{setting.name}` for topics that do not set it. {setting.doc}"
    earlier = " and ".join(f"`{other.name}`" for other in setting.synonyms[:place])
    unit = {_MINUTE_MS: ", in minutes", _HOUR_MS: ", in hours"}.get(synonym.unit, "")
    return f"Stands in for {earlier} while unset{unit}."
