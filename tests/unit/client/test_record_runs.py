"""Records read in runs are the records the plain reader reads; anything else is left to it."""

from random import Random

import pytest
from odradek.client.batch import RawRecord, sealed_batch
from odradek.client.partition_state import FetchedBatch, PartitionState, ReadSettings
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


@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_body_is_read_exactly_as_the_plain_reader_reads_it(seed: int) -> None:
    random = Random(seed)
    records: list[RawRecord] = [(FIRST, b"key", b"value", ())] * random.choice([5, 70, 200])
    batch = bytearray(sealed_batch(records, Codec.NONE, ProducerStamp()))
    at = random.randrange(61, len(batch))
    batch[at] ^= 1 << random.randrange(8)

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
