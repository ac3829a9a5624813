"""Frames that no honest peer sends are refused with ProtocolError, quickly and cheaply."""

import time
import tracemalloc
from random import Random

import pytest
from odradek.protocol.compiler import decode, encode
from odradek.protocol.errors import ProtocolError
from odradek.protocol.footprint import MEMORY_PER_BYTE, SPARE_MEMORY
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.groups import HeartbeatRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.quotas import AlterClientQuotasRequest
from odradek.protocol.messages.topics import CreatePartitionsRequest
from odradek.protocol.schema import Versioned

from tests.support.bad_frames import bad_frames, honest_frames, tally
from tests.support.dense_messages import dense_encodings, peak_of_decoding

FRAMES = 5_000
# A budget for a machine that is busy with something else; the slowest took 0.01 s.
PATIENCE_SECONDS = 2.0
# No mutated frame came near its allowance; the largest seen in 200,000 was 6 times the frame.
LARGEST_MULTIPLE = 16


def test_damaged_frames_raise_nothing_but_protocol_error_and_stay_cheap() -> None:
    for frame in honest_frames(Random(1)):
        frame.read()  # compiles what the damaged ones will be read by
    result = tally(bad_frames(seed=1, count=FRAMES))
    assert result.read + result.refused == FRAMES
    assert result.refused > FRAMES // 3
    assert result.read > FRAMES // 10
    assert result.slowest_seconds < PATIENCE_SECONDS
    assert result.largest_multiple < LARGEST_MULTIPLE, result.hungriest


@pytest.mark.parametrize("count", ["7fffffff", "80000000", "fffffffe", "00000003"])
def test_a_forged_classic_count_is_refused_before_anything_is_allocated(count: str) -> None:
    forged = bytes.fromhex("ffffffff 00000001 00000001" + count) + bytes(8)
    assert peak_of_refusal(FetchRequest, 0, forged) < 4_096


@pytest.mark.parametrize("count", ["ffffffff0f", "ffffffff07", "8080808008", "ff7f", "14"])
def test_a_forged_compact_count_is_refused_before_anything_is_allocated(count: str) -> None:
    forged = bytes.fromhex(count) + bytes(20)
    assert peak_of_refusal(MetadataRequest, 12, forged) < 4_096


@pytest.mark.parametrize("count", ["ffffffff0f", "ffffffff07", "ff7f", "06"])
def test_a_forged_count_of_numbers_is_refused_before_anything_is_allocated(count: str) -> None:
    sent = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])
    encoded = encode(sent, 13)
    head = encoded[:-3]  # up to the count of forgotten topics
    forged = head + b"\x02" + bytes(16) + bytes.fromhex(count) + bytes(12)
    assert peak_of_refusal(FetchRequest, 13, forged) < 4_096


@pytest.mark.parametrize("count", ["ffffffff0f", "ff7f", "03"])
def test_a_forged_count_inside_an_element_is_refused(count: str) -> None:
    sent = FetchRequest(
        max_wait_ms=1,
        min_bytes=1,
        topics=[
            FetchTopic(
                topic_id=bytes(16),
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
            )
        ],
    )
    encoded = encode(sent, 13)
    where = encoded.index(bytes(16)) + 16
    forged = encoded[:where] + bytes.fromhex(count) + encoded[where + 1 :]
    assert peak_of_refusal(FetchRequest, 13, forged) < 4_096


@pytest.mark.parametrize("length", ["ffffffff0f", "8080808008", "8180808008", "818002", "09", "00"])
def test_a_forged_length_of_text_is_refused(length: str) -> None:
    forged = bytes.fromhex(length) + b"1234567"
    assert peak_of_refusal(HeartbeatRequest, 4, forged) < 4_096


def test_a_text_longer_than_kafka_allows_is_refused_though_it_is_all_there() -> None:
    forged = b"\x81\x80\x02" + b"x" * 32_768 + bytes(10)
    with pytest.raises(ProtocolError, match="too long"):
        decode(HeartbeatRequest, 4, forged)


@pytest.mark.parametrize("tags", ["01", "0100", "010005", "0100ffffffff0f", "ffffffff0f0000", "03"])
def test_forged_tags_are_refused(tags: str) -> None:
    sent = encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert peak_of_refusal(HeartbeatRequest, 4, sent[:-1] + bytes.fromhex(tags)) < 4_096


def test_a_varint_of_more_than_32_bits_is_refused() -> None:
    for forged in (b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x01"):
        with pytest.raises(ProtocolError, match="varint"):
            decode(HeartbeatRequest, 4, forged + bytes(50))


def test_a_tagged_field_cannot_make_the_frame_be_read_again_and_again() -> None:
    sent = encode(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 13)
    # Each of 20,000 tags says that it is one byte long, and holds a text of 30,000 bytes.
    again = b"\x00\x01" + b"\xb1\xea\x01"
    forged = sent[:-1] + b"\xa0\x9c\x01" + again * 20_000
    started = time.process_time()
    with pytest.raises(ProtocolError, match="another size"):
        decode(FetchRequest, 13, forged)
    assert time.process_time() - started < PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (AlterClientQuotasRequest, 1),
        (CreatePartitionsRequest, 3),
    ],
)
def test_emptiness_in_large_numbers_is_refused_before_it_fills_the_memory(
    message: type[Versioned], version: int
) -> None:
    for path, encoded in dense_encodings(message, version, 40_000):
        peak = peak_of_decoding(message, version, encoded)
        assert peak < SPARE_MEMORY + MEMORY_PER_BYTE * len(encoded), path


def test_what_a_large_cluster_sends_is_not_mistaken_for_emptiness() -> None:
    topics = [
        FetchTopic(
            topic=f"t{i}",
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
        )
        for i in range(20_000)
    ]
    sent = FetchRequest(max_wait_ms=1, min_bytes=1, topics=topics)
    assert decode(FetchRequest, 12, encode(sent, 12)) == sent


def peak_of_refusal(message: type[Versioned], version: int, encoded: bytes) -> int:
    with pytest.raises(ProtocolError):
        decode(message, version, encoded)  # and compile what decodes it
    tracemalloc.start()
    try:
        decode(message, version, encoded)
    except ProtocolError:
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    raise AssertionError("refused at first, but not again")
