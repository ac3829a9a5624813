"""What a consumer is given, by a broker or straight from a log: the same rows either way."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from odradek.protocol.clock import SystemClock
from odradek.protocol.records import (
    BatchHeader,
    Record,
    TimestampType,
    iter_headers,
    iter_records,
    read_end_txn_marker,
)
from odradek.protocol.types import TopicPartition as Partition
from odradek.storage.files import OsFiles
from odradek.storage.log import Log
from odradek.storage.log_config import LogConfig
from odradek.storage.log_reading import Isolation
from odradek.storage.logs import Logs, LogsSettings
from odradek.storage.properties_files import read_meta

READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"
ISOLATIONS = (READ_UNCOMMITTED, READ_COMMITTED)

_PATIENCE_SECONDS = 30
_FETCH_BYTES = 5000  # small, so that reading a log takes many fetches


class Row(NamedTuple):
    offset: int
    timestamp_type: TimestampType
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


class Consumed(NamedTuple):
    """All that a consumer saw of one partition, and where it begins and ends for it."""

    rows: list[Row]
    start: int
    end: int


# By topic and isolation level.
Findings = dict[tuple[str, str], Consumed]


# From a broker ------------------------------------------------------------------------------


def consume(bootstrap: str, topics: Iterable[str], isolation: str) -> dict[str, Consumed]:
    """Everything in partition 0 of each topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "never committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        rows: dict[str, list[Row]] = {topic: [] for topic in topics}
        places = [TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in rows]
        consumer.assign(places)
        unfinished = set(rows)
        while unfinished:
            message = consumer.poll(_PATIENCE_SECONDS)
            assert message is not None, f"neither a record nor the end came of {unfinished}"
            topic, error = message.topic(), message.error()
            assert topic is not None
            if error is None:
                rows[topic].append(_row(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(topic)
            else:
                raise AssertionError(error)
        return {
            place.topic: Consumed(
                rows[place.topic], *consumer.get_watermark_offsets(place, _PATIENCE_SECONDS)
            )
            for place in places
        }
    finally:
        consumer.close()


def consume_all(bootstrap: str, topics: Iterable[str]) -> Findings:
    return {
        (topic, isolation): consumed
        for isolation in ISOLATIONS
        for topic, consumed in consume(bootstrap, topics, isolation).items()
    }


def _row(message: Message) -> Row:
    kind, timestamp = message.timestamp()
    offset, epoch = message.offset(), message.leader_epoch()
    assert offset is not None
    return Row(
        offset,
        TimestampType(kind - 1),
        timestamp,
        message.key(),
        message.value(),
        _headers(message),
        -1 if epoch is None else epoch,
    )


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    headers = message.headers() or []
    assert isinstance(headers, list)
    found = []
    for name, value in headers:
        assert not isinstance(value, str), "librdkafka gives bytes"
        found.append((name, value))
    return tuple(found)


# From a log ---------------------------------------------------------------------------------


def open_logs(path: Path, configs: Mapping[str, str]) -> Logs:
    """Open a data directory, whoever wrote it, as a broker would."""
    files = OsFiles()
    meta = read_meta(files, str(path))
    assert meta is not None
    assert meta.broker_id is not None
    assert meta.cluster_id is not None
    config = LogConfig(LogConfig.table.defaults()).with_overrides(configs)
    logs = Logs(
        [str(path)],
        files=files,
        clock=SystemClock(),
        random=Random(1),
        settings=LogsSettings(config_of=lambda topic: config),
        on_offline=_refuse,
    )
    logs.open(meta.broker_id, meta.cluster_id)
    logs.load()
    return logs


def _refuse(directory: object) -> None:
    raise AssertionError(f"{directory} went offline")


def read(log: Log, isolation: str) -> Consumed:
    """What a consumer makes of what a log gives it, filtering aborted records as clients do."""
    log.update_high_watermark(log.log_end_offset)
    bounds = log.bounds()
    level = Isolation.HIGH_WATERMARK if isolation == READ_UNCOMMITTED else Isolation.LAST_STABLE
    return Consumed(list(_read_rows(log, level)), bounds.log_start, bounds.upper(level))


def read_all(logs: Logs, topics: Iterable[str]) -> Findings:
    found = {}
    for topic in topics:
        log = logs.get(Partition(topic, 0))
        assert log is not None
        found.update({(topic, isolation): read(log, isolation) for isolation in ISOLATIONS})
    return found


def _read_rows(log: Log, level: Isolation) -> Iterator[Row]:
    offset = log.log_start_offset
    while True:
        result = log.read(offset, _FETCH_BYTES, isolation=level)
        if result.records is None:
            return
        data = result.records.read()
        pending = sorted(result.aborted or [], key=lambda txn: txn.first_offset)
        aborted: set[int] = set()
        for position, header in iter_headers(data):
            while pending and pending[0].first_offset <= header.last_offset:
                aborted.add(pending.pop(0).producer_id)
            records = list(iter_records(data, position, header))
            if header.is_control:
                if _is_abort(records):
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                yield from (_log_row(r, header) for r in records if r.offset >= offset)
        *_, (_, last) = iter_headers(data)
        offset = last.next_offset


def _is_abort(records: list[Record]) -> bool:
    marker = read_end_txn_marker(records[0]) if records else None
    return marker is not None and not marker.commit


def _log_row(record: Record, header: BatchHeader) -> Row:
    return Row(
        record.offset,
        header.timestamp_type,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
        header.leader_epoch,
    )
