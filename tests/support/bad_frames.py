"""Frames that no honest peer sends, for decoders that must survive them.

Each is a well-formed frame of some message, damaged: bytes turned, cut, inserted or repeated,
two frames spliced, lengths and counts forged, or nothing but noise behind a plausible header.
Everything comes from one seed, so that a failure can be looked at again.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from odradek.protocol.errors import ProtocolError
from odradek.protocol.frames import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from odradek.protocol.registry import API_KEYS, Api, api

from tests.support.messages import Maker

# What is spent whatever the frame: an exception and its text, a list that grows ahead of need.
FIXED_COST_BYTES: Final = 16_384
LENGTH_BYTES: Final = 4

# Lengths and counts at the edges of 8, 16 and 32 bits, classic and compact.
_FORGED: Final = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\x03",
    b"\xff\x7f",
    b"\x00\x00\xff\xff",
)


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame without its length, and how it is read: as a request, or as what answers one."""

    api: Api
    version: int
    is_request: bool
    content: bytes

    def read(self) -> None:
        if self.is_request:
            decode_request(self.content, read_request_header(self.content))
        else:
            decode_response(self.content, self.api.request, self.version)


@dataclass(slots=True)
class Tally:
    """What became of the frames."""

    read: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0
    largest_multiple: float = 0.0
    hungriest: Frame | None = field(default=None, repr=False)


def honest_frames(random: Random) -> list[Frame]:
    """One request and one response of every API in every version."""
    maker = Maker(random)
    frames = []
    for key in API_KEYS:
        described = api(key)
        for version in described.versions:
            request = maker.message(described.request, version)
            response = maker.message(described.response, version)
            asked = encode_request(request, version, 7, "client")[LENGTH_BYTES:]
            parts = encode_response(response, version, 7)
            answered = b"".join(part for part in parts if isinstance(part, bytes))[LENGTH_BYTES:]
            frames.append(Frame(described, version, True, asked))
            frames.append(Frame(described, version, False, answered))
    return frames


def bad_frames(seed: int, count: int) -> Iterator[Frame]:
    random = Random(seed)
    honest = honest_frames(random)
    for _ in range(count):
        frame = random.choice(honest)
        content = random.choice(_DAMAGES)(random, frame.content, random.choice(honest).content)
        yield Frame(frame.api, frame.version, frame.is_request, content)


def tally(frames: Iterator[Frame]) -> Tally:
    """Read all the frames. Anything but ProtocolError goes through to the caller."""
    result = Tally()
    tracemalloc.start()
    try:
        for frame in frames:
            _read(frame, result)
    finally:
        tracemalloc.stop()
    return result


def _read(frame: Frame, result: Tally) -> None:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    started = time.process_time()
    try:
        frame.read()
        result.read += 1
    except ProtocolError:
        result.refused += 1
    _, peak = tracemalloc.get_traced_memory()
    result.slowest_seconds = max(result.slowest_seconds, time.process_time() - started)
    multiple = max(0, peak - before - FIXED_COST_BYTES) / max(1, len(frame.content))
    if multiple > result.largest_multiple:
        result.largest_multiple, result.hungriest = multiple, frame


def _turn_bytes(random: Random, content: bytes, other: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 5))):
        damaged[random.randrange(len(damaged))] = random.choice((0, 1, 127, 128, 254, 255))
    return bytes(damaged)


def _cut(random: Random, content: bytes, other: bytes) -> bytes:
    return content[: random.randrange(len(content))]


def _remove(random: Random, content: bytes, other: bytes) -> bytes:
    start = random.randrange(len(content))
    return content[:start] + content[start + random.randint(1, 8) :]


def _insert(random: Random, content: bytes, other: bytes) -> bytes:
    start = random.randrange(len(content))
    return content[:start] + random.randbytes(random.randint(1, 8)) + content[start:]


def _repeat(random: Random, content: bytes, other: bytes) -> bytes:
    start = random.randrange(len(content))
    piece = content[start : start + random.randint(1, 40)]
    return content[:start] + piece * random.randint(2, 20) + content[start:]


def _splice(random: Random, content: bytes, other: bytes) -> bytes:
    return content[: random.randrange(len(content))] + other[random.randrange(len(other)) :]


def _forge(random: Random, content: bytes, other: bytes) -> bytes:
    start = random.randrange(len(content))
    forged = random.choice(_FORGED)
    return content[:start] + forged + content[start + len(forged) :]


def _forge_and_fill(random: Random, content: bytes, other: bytes) -> bytes:
    """A count, and as many bytes of emptiness as make it believable."""
    start = random.randrange(len(content))
    filler = random.choice((b"\x00", b"\x01", b"\x01\x00", b"\x02\x00\x01", b"\xff\xff"))
    return content[:start] + random.choice(_FORGED) + filler * random.randrange(2_000)


def _noise_behind_header(random: Random, content: bytes, other: bytes) -> bytes:
    return content[: random.randint(0, 20)] + random.randbytes(random.randrange(300))


_DAMAGES: Final[tuple[Callable[[Random, bytes, bytes], bytes], ...]] = (
    _turn_bytes,
    _turn_bytes,
    _cut,
    _remove,
    _insert,
    _repeat,
    _splice,
    _forge,
    _forge_and_fill,
    _noise_behind_header,
)
