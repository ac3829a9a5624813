"""Records read in runs or as columns are those the plain reader reads; all else is left to it."""

from random import Random

import pytest
from odradek.client.batch import RawRecord, sealed_batch
from odradek.client.partition_state import FetchedBatch, PartitionState, ReadSettings
from odradek.client.record_columns import of_one_moment, read_columns
from odradek.client.record_runs import read_run
from odradek.protocol.compression import Codec
from odradek.protocol.errors import KafkaError, ProtocolError
from odradek.protocol.records import (
    ProducerStamp,
    Record,
    build_batch,
    iter_records,
    read_body,
    read_header,
)
from odradek.protocol.types import TopicPartition

PARTITION = TopicPartition("orders", 0)
FIRST = 1_700_000_000_000


def read(batch: bytes, position: int = 0) -> list[tuple[object, ...]]:
    state = PartitionState(PARTITION)
    state.seek(position)
    state.add([FetchedBatch(batch, 0, read_header(batch))], None)
    assert state.prepare(ReadSettings())
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in state.ready]


def alike(random: Random, count: int) -> list[RawRecord]:
    """Records that mostly look like the one before."""
    key_bytes: int | None = random.choice([None, 0, 8, 100, 20_000])
    value_bytes = random.choice([0, 1, 50, 100, 9000])
    records: list[RawRecord] = []
    timestamp = FIRST
    for _ in range(count):
        if random.random() < 0.01:
            value_bytes = random.choice([0, 60, 63, 64, 9000])
        timestamp += random.choice([0, 0, 0, 1, -1]) + (100 if random.random() < 0.003 else 0)
        key = None if key_bytes is None else random.randbytes(key_bytes)
        headers = [("h", b"1")] if random.random() < 0.003 else []
        value = None if random.random() < 0.003 else random.randbytes(value_bytes)
        records.append((timestamp, key, value, headers))
    return records


def unlike(random: Random, count: int) -> list[RawRecord]:
    """Records of all sizes, without keys but for a few, over a longer time."""
    key_chance = random.choice([0, 0, 0.01])
    step_ms = random.choice([0, 1, 50, 500])
    largest = random.choice([2, 70, 150, 9000])
    return [
        (
            FIRST + random.randrange(-3, 4) + number * step_ms,
            b"key" if random.random() < key_chance else None,
            random.randbytes(random.randrange(largest)),
            (),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(120))
def test_columns_read_what_the_plain_reader_reads(seed: int) -> None:
    random = Random(seed)
    count = random.choice([1, 3, 5, 63, 64, 65, 67, 200, 1000])
    batch = sealed_batch(unlike(random, count), Codec.NONE, ProducerStamp())
    assert read(batch) == [tuple(record) for record in iter_records(batch)]


def test_columns_take_sizes_and_times_of_one_and_two_bytes() -> None:
    records: list[RawRecord] = [
        (FIRST + number * 20, None, bytes(size), ())
        for number, size in enumerate([0, 1, 56, 57, 58, 63, 64, 65, 100, 7999, 8000] * 8)
    ]
    batch = sealed_batch(records, Codec.NONE, ProducerStamp())
    columns = read_columns(read_body(batch), read_header(batch))
    assert columns is not None
    assert columns.values == [value for _, _, value, _ in records]
    assert columns.timestamps == [FIRST + number * 20 for number in range(len(records))]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 300])
def test_records_of_one_moment_have_all_sizes_and_the_times_of_one_byte(count: int) -> None:
    sizes = [0, 1, 2, 55, 56, 57, 58, 62, 63, 64, 65, 66, 100, 4090, 4096, 7999, 8000]
    records: list[RawRecord] = [
        (FIRST + number % 128 - 64, None, b"\xff" * sizes[number % len(sizes)], ())
        for number in range(64, 64 + count)
    ]
    batch = sealed_batch(records, Codec.NONE, ProducerStamp())
    columns = of_one_moment(read_body(batch), count, FIRST)
    assert columns is not None
    assert columns.values == [value for _, _, value, _ in records]
    assert columns.timestamps == [timestamp for timestamp, _, _, _ in records]


@pytest.mark.parametrize("away_ms", [64, -65, 8192])
def test_a_record_of_another_moment_is_left_to_the_other_walk(away_ms: int) -> None:
    records: list[RawRecord] = [(FIRST, None, bytes(size), ()) for size in (100, 120, 90)]
    records.append((FIRST + away_ms, None, bytes(110), ()))
    batch = sealed_batch(records, Codec.NONE, ProducerStamp())
    assert of_one_moment(read_body(batch), 4, FIRST) is None
    assert read(batch) == [tuple(record) for record in iter_records(batch)]


@pytest.mark.parametrize(
    "unusual",
    [
        (FIRST, b"key", b"value", ()),
        (FIRST, None, None, ()),
        (FIRST, None, b"value", [("h", b"1")]),
        (FIRST + 100_000, None, b"value", ()),
        (FIRST, None, bytes(8001), ()),
    ],
    ids=["key", "null", "headers", "late", "large"],
)
def test_one_unusual_record_leaves_a_batch_to_the_plain_reader(unusual: RawRecord) -> None:
    records: list[RawRecord] = [(FIRST, None, bytes(size), ()) for size in (10, 20, 30)]
    batch = sealed_batch([*records, unusual], Codec.NONE, ProducerStamp())
    assert read_columns(read_body(batch), read_header(batch)) is None
    assert read(batch) == [tuple(record) for record in iter_records(batch)]


@pytest.mark.parametrize("seed", range(60))
def test_runs_read_what_the_plain_reader_reads(seed: int) -> None:
    random = Random(seed)
    count = random.choice([1, 3, 5, 63, 64, 65, 67, 200, 1000])
    batch = sealed_batch(alike(random, count), Codec.NONE, ProducerStamp())
    assert read(batch) == [tuple(record) for record in iter_records(batch)]


def test_more_records_than_two_bytes_can_count() -> None:
    records: list[RawRecord] = [(FIRST, None, b"%05d" % i, ()) for i in range(9000)]
    batch = sealed_batch(records, Codec.LZ4, ProducerStamp())
    assert [value for _, _, _, value, _ in read(batch)] == [value for _, _, value, _ in records]


def test_gaps_of_compaction_are_seen() -> None:
    kept = [Record(i, FIRST, b"k", b"v") for i in range(0, 100, 3)]
    assert [row[0] for row in read(build_batch(kept))] == list(range(0, 100, 3))


def test_records_before_the_position_are_left_out() -> None:
    batch = sealed_batch([(FIRST, None, b"v", ())] * 20, Codec.NONE, ProducerStamp())
    assert [row[0] for row in read(batch, 15)] == [15, 16, 17, 18, 19]


@pytest.mark.parametrize("seed", range(600))
def test_a_damaged_body_is_read_exactly_as_the_plain_reader_reads_it(seed: int) -> None:
    random = Random(seed)
    records: list[RawRecord] = [(FIRST, b"key", b"value", ())] * random.choice([5, 70, 200])
    if seed % 2:
        sizes = random.choices(range(random.choice([3, 100, 150])), k=random.choice([5, 70]))
        step_ms = random.choice([0, 1])
        records = [(FIRST + size * step_ms, None, bytes(size), ()) for size in sizes]
    batch = bytearray(sealed_batch(records, Codec.NONE, ProducerStamp()))
    for _ in range(random.choice([1, 1, 2, 3])):
        at = random.randrange(61, len(batch))
        batch[at] = random.choice([0, 1, 128, batch[at] ^ 1 << random.randrange(8)])

    def outcome(read_all: object) -> object:
        try:
            return read_all()  # type: ignore[operator]
        except ProtocolError:
            return "refused"

    def by_runs() -> object:
        state = PartitionState(PARTITION)
        state.seek(0)
        state.add([FetchedBatch(bytes(batch), 0, read_header(batch))], None)
        state.prepare(ReadSettings(check_crcs=False))
        return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in state.ready]

    plainly = outcome(lambda: [tuple(r) for r in iter_records(bytes(batch))])
    assert outcome(by_runs) == plainly


def test_a_wrong_checksum_is_an_error() -> None:
    batch = bytearray(sealed_batch([(FIRST, None, b"value", ())], Codec.NONE, ProducerStamp()))
    batch[-2] ^= 1
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        read(bytes(batch))


def test_records_of_different_sizes_are_no_run() -> None:
    records: list[RawRecord] = [(FIRST, None, bytes(size), ()) for size in (10, 20, 30, 40, 50)]
    batch = sealed_batch(records, Codec.NONE, ProducerStamp())
    assert read_run(read_body(batch), 0, 0, 5) is None


@pytest.mark.parametrize("sizes", [[5] * 20, [1, 20, 3, 40]], ids=["alike", "unlike"])
def test_times_that_leave_64_bits_are_refused(sizes: list[int]) -> None:
    last = (1 << 63) - 1
    records = [Record(i, last, None, bytes(size)) for i, size in enumerate(sizes)]
    batch = bytearray(build_batch(records))
    batch[27:35] = (last).to_bytes(8)  # the base
    body_at = 61
    at = batch.index(0, body_at) + 1  # the first record's time, behind its attributes
    batch[at] = 2  # one later than the last
    state = PartitionState(PARTITION)
    state.seek(0)
    state.add([FetchedBatch(bytes(batch), 0, read_header(batch))], None)
    with pytest.raises(ProtocolError):
        state.prepare(ReadSettings(check_crcs=False))
