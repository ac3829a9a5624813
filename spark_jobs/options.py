"""The options of `format("odradek")`, named as the official connector's where they mean the same.

Options that begin with `kafka.` are settings of our client. Whatever else is not known is refused:
a misspelt limit that is silently ignored is found out in production.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.client.settings import (
    AdminSettings,
    ConsumerSettings,
    ProducerSettings,
    configured,
)
from odradek.protocol.settings import Settings, SettingsError
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    OptionError,
    parse_assignment,
    parse_offsets,
)

SERVERS: Final = "kafka.bootstrap.servers"
SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
SOURCE_OPTIONS: Final = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
)
# The official connector has them, and what they change there is not there to be changed here.
WITHOUT_EFFECT: Final = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
)
SINK_OPTIONS: Final = ("topic", "includeHeaders", "keepTimestamps", "exactlyOnce")
# What Spark itself, or the way to the sink, puts beside the user's options.
BESIDE: Final = ("checkpointLocation", "path", "queryName", "truncate", "numRows")
# Decided here, as the official connector decides them.
RESERVED: Final = (
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.transactional.id",
)
BOOLEANS: Final = {"true": True, "false": False}
# How Spark writes a length of time, `15m`; without a unit these are milliseconds.
UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}
LONGEST_DELAY: Final = "15m"

Kafka = dict[str, str]


@dataclass(frozen=True, slots=True)
class Names:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamesLike:
    pattern: str


@dataclass(frozen=True, slots=True)
class Partitions:
    partitions: frozenset[TopicPartition]


Subscription = Names | NamesLike | Partitions


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """One end of the log for all partitions, or an offset for each of some."""

    everywhere: int
    given: Offsets | None = None


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time: one for all, or one for each partition."""

    everywhere: int | None
    given: Offsets | None
    falls_back_to_latest: bool


Position = AtOffsets | AtTimes


@dataclass(frozen=True, slots=True)
class SourceOptions:
    kafka: Kafka
    subscription: Subscription
    starting: Position
    ending: Position
    group_id: str | None
    is_fatal_to_lose: bool
    includes_headers: bool
    poll_timeout_ms: int
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    max_records_per_partition: int | None
    min_partitions: int | None

    @property
    def is_read_committed(self) -> bool:
        return self.kafka.get("isolation.level") == "read_committed"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    kafka: Kafka
    topic: str | None
    keeps_timestamps: bool
    is_exactly_once: bool


class Given:
    """The options as they came; names are compared without regard to case."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        self._by_name = {name.lower(): str(value) for name, value in options.items()}
        allowed = {name.lower() for name in (*known, *BESIDE, *WITHOUT_EFFECT)}
        for name in self._by_name:
            if not name.startswith("kafka.") and name not in allowed:
                raise OptionError(f"There is no option {name}; known are {', '.join(known)}")
        for name in RESERVED:
            if name in self._by_name:
                raise OptionError(f"{name} cannot be set: Spark keeps positions and batches itself")

    def text(self, name: str) -> str | None:
        return self._by_name.get(name.lower())

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in BOOLEANS:
            raise OptionError(f"{name} is true or false, not {text!r}")
        return BOOLEANS[text.lower()]

    def positive(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not text.isdecimal() or not int(text):
            raise OptionError(f"{name} is a whole number above zero, not {text!r}")
        return int(text)

    def milliseconds(self, name: str, default: str) -> int:
        text = self.text(name) or default
        found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
        if found is None or found[2] not in UNITS_MS:
            raise OptionError(f"{name} is a time like 30s or 15m, not {text!r}")
        return int(found[1]) * UNITS_MS[found[2]]

    def kafka(self, kind: type[Settings], *, without: Iterable[str] = ()) -> Kafka:
        """The client's settings; wrong ones are refused here, before any task meets them."""
        settings = {
            name.removeprefix("kafka."): value
            for name, value in self._by_name.items()
            if name.startswith("kafka.")
        }
        if "bootstrap.servers" not in settings:
            raise OptionError(f"{SERVERS} is missing: where is the cluster?")
        try:
            configured(kind, settings)
        except SettingsError as error:
            raise OptionError("; ".join(f"kafka.*: {p}" for p in error.problems)) from error
        return {name: value for name, value in settings.items() if name not in without}


def source_options(options: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Raises OptionError with one sentence for the first thing that cannot be followed."""
    given = Given(options, SOURCE_OPTIONS)
    kafka = given.kafka(ConsumerSettings, without=("group.id",))
    subscription = _subscription(given)
    starting = _position(given, "starting", LATEST if is_streaming else EARLIEST)
    ending = _position(given, "ending", LATEST)
    if is_streaming and ending != AtOffsets(LATEST):
        raise OptionError("A stream has no end: ending* options are for batch queries")
    if not is_streaming and starting == AtOffsets(LATEST):
        raise OptionError("startingOffsets of a batch query cannot be latest")
    if ending == AtOffsets(EARLIEST):
        raise OptionError("endingOffsets cannot be earliest")
    least, most = given.positive("minOffsetsPerTrigger"), given.positive("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger, {least}, is above maxOffsetsPerTrigger, {most}")
    return SourceOptions(
        kafka=kafka,
        subscription=subscription,
        starting=starting,
        ending=ending,
        group_id=given.text("kafka.group.id"),
        is_fatal_to_lose=given.boolean("failOnDataLoss", True),
        includes_headers=given.boolean("includeHeaders", False),
        poll_timeout_ms=given.positive("kafkaConsumer.pollTimeoutMs") or 120_000,
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=given.milliseconds("maxTriggerDelay", LONGEST_DELAY),
        max_records_per_partition=given.positive("maxRecordsPerPartition"),
        min_partitions=given.positive("minPartitions"),
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    given = Given(options, SINK_OPTIONS)
    return SinkOptions(
        kafka=given.kafka(ProducerSettings),
        topic=given.text("topic"),
        keeps_timestamps=given.boolean("keepTimestamps", False),
        is_exactly_once=given.boolean("exactlyOnce", True),
    )


def admin_settings(kafka: Kafka) -> Kafka:
    """Those of a consumer's or producer's settings that an admin client has too."""
    return {name: value for name, value in kafka.items() if name in AdminSettings.table}


def _subscription(given: Given) -> Subscription:
    chosen = [name for name in SUBSCRIPTIONS if given.text(name) is not None]
    if len(chosen) != 1:
        raise OptionError(f"Give exactly one of {', '.join(SUBSCRIPTIONS)}")
    text = given.text(chosen[0]) or ""
    if chosen[0] == "assign":
        return Partitions(frozenset(parse_assignment(text)))
    if chosen[0] == "subscribe":
        topics = tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))
        if not topics:
            raise OptionError("subscribe names no topic")
        return Names(topics)
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"subscribePattern {text!r} is no regular expression: {error}") from error
    if not text:
        raise OptionError("subscribePattern is empty")
    return NamesLike(text)


def _position(given: Given, end: str, default: int) -> Position:
    """Where to start or end. As in the official connector times win over offsets, and what is
    said for all partitions over what is said for each."""
    fallback = (given.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if fallback not in ("error", "latest"):
        raise OptionError("startingOffsetsByTimestampStrategy is error or latest")
    falls_back = end == "ending" or fallback == "latest"
    time = given.text(f"{end}Timestamp")
    if time is not None:
        if not time.isdecimal():
            raise OptionError(f"{end}Timestamp is milliseconds since 1970, not {time!r}")
        return AtTimes(int(time), None, falls_back)
    times = given.text(f"{end}OffsetsByTimestamp")
    if times is not None:
        return AtTimes(None, parse_offsets(f"{end}OffsetsByTimestamp", times), falls_back)
    offsets = given.text(f"{end}Offsets")
    if offsets is None:
        return AtOffsets(default)
    ends = {"earliest": EARLIEST, "latest": LATEST}
    if offsets.strip().lower() in ends:
        return AtOffsets(ends[offsets.strip().lower()])
    parsed = parse_offsets(f"{end}Offsets", offsets)
    if end == "ending" and EARLIEST in parsed.values():
        raise OptionError("endingOffsets cannot be -2 (earliest)")
    return AtOffsets(LATEST, parsed)
