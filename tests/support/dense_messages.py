"""Messages that are as large in memory as their few bytes can make them.

For each array of a message in turn: as many elements as fit a given size, each saying as little
as the version allows (empty texts, empty arrays, null where it may be). Well formed, and nothing
that a peer would send; what it costs to decode them is the most that a frame can cost.
"""

import tracemalloc
from collections.abc import Iterator
from typing import Any

from odradek.protocol.compiler import decode, decoder, encode
from odradek.protocol.errors import ProtocolError
from odradek.protocol.footprint import Footprint
from odradek.protocol.schema import Array, Field, Fixed, Message, Nested, Text, Versioned

Path = tuple[str, ...]


def dense_encodings(
    message: type[Versioned], version: int, size: int
) -> Iterator[tuple[Path, bytes]]:
    """For each array of the message, its path and an encoding of about `size` bytes full of it."""
    footprint = Footprint(version, flexible=version in message.flexible)
    for path, element in _arrays(message, version):
        count = size // footprint.smallest(element)
        yield path, encode(_sparse(message, version, path, count), version)


def peak_of_decoding(message: type[Versioned], version: int, encoded: bytes) -> int:
    """The most memory that decoding takes, until the message is there or refused as too much."""
    decoder(message, version)
    tracemalloc.start()
    kept = None
    try:
        kept = decode(message, version, encoded)
    except ProtocolError as refusal:
        if "too many small elements" not in str(refusal):
            raise
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del kept
    return peak


def _arrays(cls: type[Message], version: int) -> Iterator[tuple[Path, Any]]:
    for field in cls.fields:
        if version not in field.versions or field.tag is not None:
            continue
        kind = field.kind
        if isinstance(kind, Array):
            yield (field.name,), kind.of
            kind = kind.of
        if isinstance(kind, Nested):
            for path, element in _arrays(kind.struct, version):
                yield (field.name, *path), element


def _sparse(cls: type[Message], version: int, path: Path = (), count: int = 0) -> Any:
    """The message that says least, but for `count` elements in the array at `path`."""
    values = {}
    for field in cls.fields:
        is_on_path = bool(path) and field.name == path[0]
        rest = path[1:] if is_on_path else ()
        if version not in field.versions or field.tag is not None:
            values[field.name] = field.absent
        elif isinstance(field.kind, Array):
            values[field.name] = _elements(field.kind.of, version, rest, count, is_on_path)
        else:
            values[field.name] = _value(field, version, rest, count, is_on_path)
    return cls(**values)


def _elements(element: Any, version: int, rest: Path, count: int, is_on_path: bool) -> list[Any]:
    if not is_on_path:
        return []
    if rest:
        return [_sparse(element.struct, version, rest, count)]
    match element:
        case Nested(struct=struct):
            return [_sparse(struct, version)] * count
        case Fixed(format="16s"):
            return [bytes(16)] * count
        case Fixed(size=size):
            # Large enough not to be one of the small numbers that Python shares.
            return [1 << 8 * size - 2] * count if size > 1 else [1] * count
        case Text():
            return ["ab"] * (count // 3)
        case _:
            return [b"ab"] * (count // 6)


def _value(field: Field, version: int, rest: Path, count: int, is_on_path: bool) -> Any:
    match field.kind:
        case Nested(struct=struct):
            if version in field.nullable and not is_on_path:
                return None
            return _sparse(struct, version, rest, count)
        case Fixed(zero=zero):
            return zero
        case Text():
            return ""
        case _:
            return b""
