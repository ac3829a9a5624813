"""Kafka's DumpLogSegments reads the files that our log writes and finds nothing wrong in them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from odradek.protocol.compression import Codec
from odradek.storage.files import OsFiles

from scripts.parts import KAFKA_ON_ZOOKEEPER
from tests.integration.dumped_segments import Dump, dump, log_files
from tests.integration.noted_log import NotedLog
from tests.unit.storage.log_room import replicated

pytestmark = [
    pytest.mark.needs(f"kafka-{KAFKA_ON_ZOOKEEPER}"),
    pytest.mark.xdist_group("dumped logs"),
]

SMALL = {"segment.bytes": "4000", "index.interval.bytes": "500", "segment.index.bytes": "4096"}


def write_all_codecs(log: NotedLog) -> None:
    for _ in range(12):
        for codec in Codec:
            log.write(log.some_records(log.random.randint(1, 25)), codec)


def write_as_stored(log: NotedLog) -> None:
    """The topic has a codec of its own."""
    for codec in Codec:
        log.write(log.some_records(20), codec)


def write_idempotently(log: NotedLog) -> None:
    for turn in range(60):
        producer = turn % 3
        if producer == 2 and turn > 30:
            if turn < 34:
                log.sequences[producer] = 0  # a new epoch begins its count again
            log.write(log.some_records(3), producer=producer, epoch=1)
        else:
            log.write(log.some_records(4), Codec.LZ4, producer=producer)


def write_transactions(log: NotedLog) -> None:
    """Three producers side by side; every third transaction is aborted, the last one is open."""
    for turn in range(40):
        for producer in (100, 200, 300):
            if (turn + producer // 100) % 3:
                log.write(log.some_records(2), producer=producer, in_transaction=True)
        if turn % 2 == 0:
            log.write(log.some_records(2), producer=7)
        log.finish(100 * (1 + turn % 3), commit=turn % 3 != 0 or turn % 2 == 0)
    log.write(log.some_records(2), producer=100, in_transaction=True)


def write_and_compact(log: NotedLog) -> None:
    for turn in range(30):
        producer = 100 + turn % 2
        log.write(log.some_records(6, keys=20), Codec.GZIP)
        log.write(log.some_records(3, keys=20), producer=producer, in_transaction=True)
        log.finish(producer, commit=turn % 3 != 0)
        if turn % 10 == 9:
            log.roll_and_clean()
    log.write(log.some_records(6, keys=20))


def compact_past_the_delete_horizon(log: NotedLog) -> None:
    write_and_compact(log)
    log.roll_and_clean()
    log.wait_past_the_delete_horizon()
    log.write(log.some_records(1, keys=1))
    log.roll_and_clean()


def write_cut_and_write(log: NotedLog) -> None:
    for turn in range(12):
        log.leader_epoch = turn
        for _ in range(8):
            log.write(log.some_records(5), producer=5)
        end = log.log.log_end_offset - 10
        log.log.truncate_to(end)
        log.notes = [note for note in log.notes if note.offset < end]
        log.sequences[5] -= 10


def write_and_recover(log: NotedLog) -> None:
    write_transactions(log)
    log.log.flush()
    write_all_codecs(log)
    for index in Path(log.directory).glob("*.*index"):
        index.write_bytes(log.random.randbytes(log.random.randrange(500)))
    log.kill_and_open()
    log.replicate()


def restart_often(log: NotedLog) -> None:
    for _ in range(12):
        log.write(log.some_records(20), Codec.SNAPPY, producer=3)
        log.stop_and_open()
        log.replicate()
    log.log.roll()


STORIES: dict[str, tuple[Callable[[NotedLog], None], dict[str, str]]] = {
    "codecs": (write_all_codecs, {}),
    "append-time": (write_all_codecs, {"message.timestamp.type": "LogAppendTime"}),
    **{
        f"stored-{name}": (write_as_stored, {"compression.type": name})
        for name in ("uncompressed", "gzip", "snappy", "lz4", "zstd")
    },
    "idempotent": (write_idempotently, {}),
    "transactions": (write_transactions, {}),
    "compacted": (write_and_compact, {"cleanup.policy": "compact"}),
    "compacted-late": (compact_past_the_delete_horizon, {"cleanup.policy": "compact"}),
    "cut": (write_cut_and_write, {}),
    "recovered": (write_and_recover, {}),
    "restarted": (restart_often, {}),
}
COMPACTED = {"compacted", "compacted-late"}
each_story = pytest.mark.parametrize("name", STORIES)
each_plain_story = pytest.mark.parametrize("name", sorted(STORIES.keys() - COMPACTED))


@dataclass
class Library:
    """All stories, written and closed, and what the tool says of all their files."""

    logs: dict[str, NotedLog]
    dumped: Dump

    def of(self, name: str) -> tuple[NotedLog, Path]:
        return self.logs[name], Path(self.logs[name].directory)


def write_story(folder: Path, name: str) -> NotedLog:
    tell, overrides = STORIES[name]
    log = NotedLog(
        files=OsFiles(),
        directory=str(folder / f"{name}-0"),
        overrides={**SMALL, "cleanup.policy": "delete", **overrides},
    )
    tell(log)
    log.log.close()
    return log


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("stories")
    logs = {name: write_story(folder, name) for name in STORIES}
    files = log_files(Path(log.directory) for log in logs.values())
    return Library(logs, dump(files, "--deep-iteration", "--print-data-log"))


def test_the_tool_complains_of_nothing_but_the_gaps_of_compaction(library: Library) -> None:
    complaints = library.dumped.complaints
    gaps = [line for line in complaints if re.fullmatch(r"\s+\d+ is followed by \d+", line)]
    headings = [line for line in complaints if line.startswith("Non-consecutive offsets in ")]
    assert gaps
    assert len(gaps) + len(headings) == len(complaints), complaints
    assert all(any(f"/{name}-0/" in line for name in COMPACTED) for line in headings)


@each_plain_story
def test_every_record_is_read_as_it_was_written(library: Library, name: str) -> None:
    log, directory = library.of(name)
    assert library.dumped.records(directory) == log.notes


@each_story
def test_logs_have_several_segments_with_all_their_files(library: Library, name: str) -> None:
    _, directory = library.of(name)
    counts = {
        suffix: len(list(directory.glob(f"*{suffix}")))
        for suffix in (".log", ".index", ".timeindex")
    }
    assert len(set(counts.values())) == 1
    assert counts[".log"] >= (2 if name.startswith(("stored", "compacted")) else 4)


@pytest.mark.parametrize("name", sorted(COMPACTED))
def test_compaction_leaves_the_last_record_of_each_key_as_it_was(
    library: Library, name: str
) -> None:
    log, directory = library.of(name)
    notes = {note.offset: note for note in log.notes}
    records = library.dumped.records(directory)
    assert [notes[record.offset] for record in records] == records
    data = {record.offset for record in records if record.marker is None}
    last = log.last_of_each_key()
    tombstones = {offset for offset in last.values() if notes[offset].value is None}
    beyond = {o for o, note in notes.items() if o >= (log.cleaned_to or 0) and not note.marker}
    assert data - tombstones == set(last.values()) - tombstones | beyond
    assert len(data) < len(notes) / 3


def test_tombstones_carry_the_time_of_their_deletion_until_they_are_gone(library: Library) -> None:
    with_horizon = {
        name: sum(
            b.delete_horizon_ms is not None for b in library.dumped.batches(library.of(name)[1])
        )
        for name in COMPACTED
    }
    assert with_horizon["compacted"] > 0
    kept = [
        record
        for record in library.dumped.records(library.of("compacted-late")[1])
        if record.marker is None and record.value is None
    ]
    log, _ = library.of("compacted-late")
    assert all(record.offset >= (log.cleaned_to or 0) - 1 for record in kept)


@each_story
def test_index_entries_are_where_the_batches_are(library: Library, name: str) -> None:
    _, directory = library.of(name)
    for log, index in zip(
        library.dumped.of(directory, ".log"), library.dumped.of(directory, ".index"), strict=True
    ):
        places = {(batch.last_offset, batch.position) for batch in log.batches}
        assert set(index.index) <= places
        assert len(index.index) >= max(0, len(log.batches) // 6 - 1)


@each_story
def test_the_time_index_ends_with_the_latest_timestamp(library: Library, name: str) -> None:
    _, directory = library.of(name)
    for log, times in zip(
        library.dumped.of(directory, ".log"),
        library.dumped.of(directory, ".timeindex"),
        strict=True,
    ):
        latest = max((record.timestamp for record in log.records), default=-1)
        if latest >= 0:
            assert times.times[-1][0] == latest
            assert times.times == sorted(set(times.times))


@pytest.mark.parametrize("name", ["idempotent", "transactions", "recovered", "restarted", "cut"])
def test_the_last_snapshot_holds_every_producer(library: Library, name: str) -> None:
    log, directory = library.of(name)
    *_, last = library.dumped.of(directory, ".snapshot")
    assert sorted(last.producers) == sorted(tuple(entry) for entry in log.producers())
    written = {note.producer_id: note for note in log.notes if note.sequence >= 0}
    assert {p.producer_id for p in last.producers} == set(written)
    for producer in last.producers:
        note = written[producer.producer_id]
        assert (producer.epoch, producer.last_sequence) == (note.producer_epoch, note.sequence)
        assert producer.last_offset == note.offset


@pytest.mark.parametrize("name", ["transactions", "recovered"])
def test_the_transaction_index_lists_what_was_aborted(library: Library, name: str) -> None:
    log, directory = library.of(name)
    listed = [row for file in library.dumped.of(directory, ".txnindex") for row in file.aborted]
    aborts = [note for note in log.notes if note.marker == "ABORT"]
    covered = {
        note.offset
        for producer, first, last, _ in listed
        for note in log.notes
        if note.producer_id == producer and first <= note.offset < last and note.marker is None
    }
    assert aborts
    assert {last for _, _, last, _ in listed} <= {note.offset for note in aborts}
    assert covered == log.aborted_offsets()


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_the_indexes_pass_kafkas_own_checks(library: Library, option: str) -> None:
    directories = [Path(log.directory) for log in library.logs.values()]
    checked = dump(log_files(directories, (".index", ".timeindex")), option)
    assert not checked.complaints


def test_batches_of_several_epochs_from_a_leader_are_read(tmp_path: Path) -> None:
    log = NotedLog(files=OsFiles(), directory=str(tmp_path / "follower-0"), overrides=dict(SMALL))
    for turn in range(40):
        base = turn * 6
        parts = [replicated(b"a", b"b", offset=base + n, epoch=turn // 7) for n in (0, 2, 4)]
        log.log.append_as_follower(b"".join(parts))
    log.log.close()
    directory = Path(log.directory)
    dumped = dump(log_files([directory]), "--deep-iteration", "--print-data-log")
    assert not dumped.complaints
    records = dumped.records(directory)
    assert [record.offset for record in records] == list(range(240))
    assert [record.leader_epoch for record in records] == [o // 6 // 7 for o in range(240)]


@pytest.mark.parametrize(("suffix", "position"), [(".log", 100), (".index", 3), (".timeindex", 7)])
def test_a_single_wrong_byte_does_not_escape_the_tool(
    tmp_path: Path, suffix: str, position: int
) -> None:
    """What all the other tests here rest upon."""
    directory = Path(write_story(tmp_path, "codecs").directory)
    path = min(directory.glob(f"*{suffix}"))
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    assert dump([path], "--deep-iteration").complaints
