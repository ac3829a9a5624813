"""Frames come out whole and in order, however their bytes come in; memory follows the bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.network.framing import FrameReader
from odradek.protocol.errors import ProtocolError

LIMIT = 1_000_000


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def a_reader(scratch_bytes: int = 65_536) -> FrameReader:
    return FrameReader(memoryview(bytearray(scratch_bytes)), LIMIT)


def feed(reader: FrameReader, data: bytes, *, take: int = 1_000_000) -> list[bytes]:
    """Give the reader all of `data` as a driver would, and take up to `take` frames per piece."""
    taken: list[bytes] = []
    while data:
        space = reader.space()
        piece = data[: len(space)]
        data = data[len(piece) :]
        space[: len(piece)] = piece
        del space  # a view of a buffer that may grow now
        reader.received(len(piece))
        while len(taken) < take and (frame := reader.next_frame()) is not None:
            taken.append(bytes(frame))
        reader.keep()
    return taken


def test_one_piece_may_hold_many_frames() -> None:
    reader = a_reader()
    assert feed(reader, framed(b"one", b"two", b"three")) == [b"one", b"two", b"three"]
    assert reader.is_drained
    assert reader.held_bytes == 0


def test_a_frame_may_come_byte_by_byte() -> None:
    reader = a_reader()
    taken = [frame for byte in framed(b"slow", b"drops") for frame in feed(reader, bytes([byte]))]
    assert taken == [b"slow", b"drops"]


def test_a_frame_larger_than_the_scratch_buffer_is_received_in_its_own() -> None:
    body = bytes(range(256)) * 2000
    reader = a_reader(scratch_bytes=1024)
    assert feed(reader, framed(b"before", body, b"after")) == [b"before", body, b"after"]
    assert reader.held_bytes == 0


def test_a_partial_body_never_holds_a_full_size_buffer() -> None:
    reader = a_reader()
    feed(reader, struct.pack(">i", LIMIT) + b"x" * 10)
    assert reader.begun_bytes == LIMIT
    assert reader.held_bytes <= 16 * 1024
    feed(reader, b"x" * 100_000)
    assert reader.held_bytes <= 4 * 100_010


def test_frames_that_are_not_taken_stay_for_later() -> None:
    reader = a_reader()
    assert feed(reader, framed(b"a", b"b", b"c") + b"\0\0", take=1) == [b"a"]
    assert reader.next_frame() == b"b"
    reader.keep()
    assert reader.next_frame() == b"c"
    assert reader.next_frame() is None
    reader.keep()
    assert not reader.is_drained
    assert feed(reader, b"\0\1d") == [b"d"]


def test_a_partial_frame_behind_frames_that_wait_is_completed() -> None:
    reader = a_reader()
    whole = framed(b"first", b"second")
    assert feed(reader, whole[:-3], take=0) == []
    assert reader.next_frame() == b"first"
    assert reader.next_frame() is None
    reader.keep()
    assert feed(reader, whole[-3:]) == [b"second"]


@pytest.mark.parametrize("length", [0, -1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_length_no_frame_can_have_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        feed(a_reader(), struct.pack(">i", length) + b"abc")


@pytest.mark.parametrize("length", [0, -1, LIMIT + 1])
def test_a_bad_length_behind_frames_that_wait_is_refused_when_its_turn_comes(length: int) -> None:
    reader = a_reader()
    assert feed(reader, framed(b"good") + struct.pack(">i", length), take=0) == []
    assert reader.next_frame() == b"good"
    with pytest.raises(ProtocolError):
        reader.next_frame()


def test_frames_own_their_bytes_and_may_be_written_to() -> None:
    reader = a_reader()
    space = reader.space()
    data = framed(b"stamp me", b"other")
    space[: len(data)] = data
    reader.received(len(data))
    frame = reader.next_frame()
    assert frame is not None
    frame[:5] = b"STAMP"
    assert reader.next_frame() == b"other"


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    cuts=st.lists(st.integers(min_value=1, max_value=30), min_size=1),
    take=st.integers(min_value=1, max_value=3),
)
def test_any_cutting_of_the_bytes_gives_the_same_frames(
    bodies: list[bytes], cuts: list[int], take: int
) -> None:
    reader = a_reader(scratch_bytes=16)
    data = framed(*bodies)
    taken: list[bytes] = []
    for turn in range(10_000):
        while (frame := reader.next_frame()) is not None:
            taken.append(bytes(frame))
            if len(taken) % take == 0:
                reader.keep()
        reader.keep()
        if not data:
            break
        space = reader.space()
        assert len(space) > 0
        piece = data[: min(len(space), cuts[turn % len(cuts)])]
        space[: len(piece)] = piece
        del space  # a view of a buffer that may grow now
        reader.received(len(piece))
        data = data[len(piece) :]
    assert taken == bodies
    assert reader.is_drained
    assert reader.held_bytes == 0
