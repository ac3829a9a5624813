"""What Kafka's own DumpLogSegments says of the files of a log, one value for each line it prints.

One run takes any number of files, for a Java process is slow to start. Nothing it prints is passed
over: a line that no pattern here knows, and every word on stderr, is a complaint.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scripts.parts import KAFKA_ON_ZOOKEEPER
from tests.support.java import java_tool

DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"

_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>\d+) lastOffset: (?P<last_offset>\d+) "
    r"count: (?P<record_count>\d+) baseSequence: (?P<base_sequence>-?\d+) lastSequence: -?\d+ "
    r"producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<leader_epoch>-?\d+) "
    r"isTransactional: (?P<is_transactional>true|false) isControl: (?P<is_control>true|false) "
    r"deleteHorizonMs: OptionalLong(\.empty|\[(?P<delete_horizon_ms>\d+)\]) "
    r"position: (?P<position>\d+) \w+: (?P<max_timestamp>-?\d+) size: (?P<size_bytes>\d+) magic: 2 "
    r"compresscodec: (?P<codec>\w+) crc: \d+ isvalid: true"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) "
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+) "
    r"headerKeys: \[(?P<header_keys>[^\]]*)\]"
    r"( endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+)"
    r"|( key: (?P<key>.*?))?( payload: (?P<value>.*))?)"
)
_INDEX_ENTRY = re.compile(r"offset: (\d+) position: (\d+)")
_TIME_ENTRY = re.compile(r"timestamp: (-?\d+) offset: (\d+)")
_ABORTED = re.compile(
    r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
)
_PRODUCER = re.compile(
    r"producerId: (?P<producer_id>\d+) producerEpoch: (?P<epoch>\d+) "
    r"coordinatorEpoch: (?P<coordinator_epoch>-?\d+) "
    r"currentTxnFirstOffset: OptionalLong(\.empty|\[(?P<txn_first_offset>\d+)\]) "
    r"lastTimestamp: (?P<timestamp>-?\d+)"
    r"( firstSequence: -?\d+ lastSequence: (?P<last_sequence>-?\d+) "
    r"lastOffset: (?P<last_offset>\d+) offsetDelta: (?P<offset_delta>\d+) timestamp: -?\d+)?"
)
_SILENT = re.compile(
    r"Log starting offset: \d+|.* is empty\.|.* passed sanity check\.|Log timestamp: .*|"
)


class DumpedRecord(NamedTuple):
    """One record as the tool shows it; a control record has a marker in the place of a value."""

    offset: int
    timestamp: int
    timestamp_type: str
    key: str | None
    value: str | None
    header_keys: tuple[str, ...]
    codec: str
    producer_id: int
    producer_epoch: int
    sequence: int
    leader_epoch: int
    is_transactional: bool
    marker: str | None


class DumpedBatch(NamedTuple):
    base_offset: int
    last_offset: int
    record_count: int
    position: int
    size_bytes: int
    max_timestamp: int
    delete_horizon_ms: int | None


class DumpedProducer(NamedTuple):
    """One producer of a snapshot, in the order of our own snapshot's fields."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


@dataclass
class DumpedFile:
    batches: list[DumpedBatch] = field(default_factory=list)
    records: list[DumpedRecord] = field(default_factory=list)
    index: list[tuple[int, int]] = field(default_factory=list)  # offset, position
    times: list[tuple[int, int]] = field(default_factory=list)  # timestamp, offset
    aborted: list[tuple[int, ...]] = field(default_factory=list)
    producers: list[DumpedProducer] = field(default_factory=list)
    _batch: Mapping[str, str] = field(default_factory=dict)

    def take(self, line: str) -> bool:
        """Note what a line says; False when it says something that is not known here."""
        if found := _BATCH.fullmatch(line):
            self._take_batch(found.groupdict())
        elif self._batch and (found := _RECORD.fullmatch(line)):
            self.records.append(self._record(found.groupdict()))
        elif found := _INDEX_ENTRY.fullmatch(line):
            self.index.append((int(found[1]), int(found[2])))
        elif found := _TIME_ENTRY.fullmatch(line):
            self.times.append((int(found[1]), int(found[2])))
        elif found := _ABORTED.fullmatch(line):
            self.aborted.append(tuple(map(int, found.groups())))
        elif found := _PRODUCER.fullmatch(line):
            self.producers.append(_producer(found.groupdict()))
        else:
            return _SILENT.fullmatch(line) is not None
        return True

    def _take_batch(self, words: dict[str, str | None]) -> None:
        self._batch = {name: word for name, word in words.items() if word is not None}
        horizon = words["delete_horizon_ms"]
        self.batches.append(
            DumpedBatch(
                base_offset=_number(words["base_offset"]),
                last_offset=_number(words["last_offset"]),
                record_count=_number(words["record_count"]),
                position=_number(words["position"]),
                size_bytes=_number(words["size_bytes"]),
                max_timestamp=_number(words["max_timestamp"]),
                delete_horizon_ms=None if horizon is None else int(horizon),
            )
        )

    def _record(self, words: dict[str, str | None]) -> DumpedRecord:
        batch = self._batch
        assert (batch["is_control"] == "true") == (words["marker"] is not None)
        return DumpedRecord(
            offset=_number(words["offset"]),
            timestamp=_number(words["timestamp"]),
            timestamp_type=words["timestamp_type"] or "",
            key=words["key"],
            value=words["value"],
            header_keys=tuple(words["header_keys"].split(",")) if words["header_keys"] else (),
            codec=batch["codec"],
            producer_id=int(batch["producer_id"]),
            producer_epoch=int(batch["producer_epoch"]),
            sequence=_number(words["sequence"]),
            leader_epoch=int(batch["leader_epoch"]),
            is_transactional=batch["is_transactional"] == "true",
            marker=words["marker"],
        )


def _producer(words: dict[str, str | None]) -> DumpedProducer:
    return DumpedProducer(
        _number(words["producer_id"]),
        _number(words["epoch"]),
        _number(words["last_sequence"]),
        _number(words["last_offset"]),
        _number(words["offset_delta"], 0),
        _number(words["timestamp"]),
        _number(words["coordinator_epoch"]),
        _number(words["txn_first_offset"]),
    )


def _number(word: str | None, missing: int = -1) -> int:
    return missing if word is None else int(word)


class Dump:
    """The output of one run: each file's contents by its path, and all complaints."""

    def __init__(self, output: str, errors: str) -> None:
        self.files: dict[Path, DumpedFile] = {}
        self.complaints = [line for line in errors.splitlines() if line]
        file = DumpedFile()
        for line in output.splitlines():
            if line.startswith("Dumping "):
                file = self.files.setdefault(Path(line.removeprefix("Dumping ")), DumpedFile())
            elif not file.take(line):
                self.complaints.append(line)

    def of(self, directory: Path, suffix: str) -> Iterator[DumpedFile]:
        """The files of one log with this suffix, in the order of their offsets."""
        for path in sorted(self.files):
            if path.parent == directory and path.suffix == suffix:
                yield self.files[path]

    def records(self, directory: Path) -> list[DumpedRecord]:
        return [record for file in self.of(directory, ".log") for record in file.records]

    def batches(self, directory: Path) -> list[DumpedBatch]:
        return [batch for file in self.of(directory, ".log") for batch in file.batches]


LOG_FILES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def log_files(directories: Iterable[Path], suffixes: Iterable[str] = LOG_FILES) -> list[Path]:
    """The files of logs that the tool can read."""
    wanted = set(suffixes)
    return [path for d in directories for path in sorted(d.iterdir()) if path.suffix in wanted]


def dump(files: Iterable[Path], *options: str) -> Dump:
    """Run the tool once over all the files."""
    names = ",".join(map(str, files))
    done = java_tool(KAFKA_ON_ZOOKEEPER, DUMP_LOG_SEGMENTS, *options, "--files", names)
    assert done.returncode == 0, done.stderr
    return Dump(done.stdout, done.stderr)
