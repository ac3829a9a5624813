"""Frames come out whole, whatever pieces the bytes arrive in."""

import struct
from random import Random

import pytest
from odradek.client.frame_stream import LARGE_FRAME_BYTES, Frame, FrameStream


def feed(stream: FrameStream, data: bytes, pieces: list[int]) -> None:
    """Hand `data` over as a transport does: into the stream's own buffer, piece by piece."""
    position = 0
    for size in [*pieces, len(data)]:
        while size and position < len(data):
            buffer = stream.get_buffer(-1)
            count = min(size, len(buffer), len(data) - position)
            buffer[:count] = data[position : position + count]
            stream.buffer_updated(count)
            position += count
            size -= count


def frames_of(data: bytes, pieces: list[int]) -> tuple[list[Frame], list[Exception | None]]:
    frames: list[Frame] = []
    ends: list[Exception | None] = []
    stream = FrameStream(on_frame=frames.append, on_lost=ends.append, max_frame_bytes=1 << 20)
    feed(stream, data, pieces)
    stream.connection_lost(None)
    return frames, ends


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@pytest.mark.parametrize("seed", range(30))
def test_frames_of_all_sizes_survive_any_cutting(seed: int) -> None:
    random = Random(seed)
    sizes = [4, 5, 100, LARGE_FRAME_BYTES - 1, LARGE_FRAME_BYTES, 3 * LARGE_FRAME_BYTES, 200_000]
    bodies = [random.randbytes(random.choice(sizes)) for _ in range(20)]
    pieces = [random.choice([1, 3, 7, 1000, 70_000]) for _ in range(200)]
    frames, ends = frames_of(framed(bodies), pieces)
    assert [bytes(frame) for frame in frames] == bodies
    assert ends == [None]


@pytest.mark.parametrize("length", [-1, 0, 3, (1 << 20) + 1])
def test_a_length_that_cannot_be_ends_the_connection(length: int) -> None:
    frames, ends = frames_of(struct.pack(">i", length), [])
    assert frames == []
    assert str(ends[0]) == f"a frame cannot have {length} bytes"
