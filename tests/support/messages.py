"""Arbitrary messages, made from their declarations.

A `Maker` draws every choice from one `Random`: a seeded one gives the same messages again, and
the one that Hypothesis hands out makes the choices searchable and shrinkable.

    Maker(Random(7)).message(FetchRequest, 13)

Only what can travel is made: fields that the version lacks have their default, nulls stand only
where the version allows them, and a tagged struct is absent (None) or differs from its default,
since Kafka does not send one that says nothing.
"""

from functools import cache
from random import Random
from typing import Any, Final, TypeVar

from odradek.protocol.registry import all_messages
from odradek.protocol.schema import (
    Array,
    Blob,
    Field,
    Fixed,
    Kind,
    Message,
    Nested,
    Records,
    Text,
    Versioned,
)

M = TypeVar("M", bound=Message)

_TEXTS: Final = ("", "a", "topic-7", "grüße", "名前", "🦊", "x" * 126, "y" * 127, "z" * 300)
_BLOBS: Final = (b"", b"\x00", b"\xff\x80", bytes(range(126)), bytes(127), bytes(300))
_FLOATS: Final = (0.0, -0.5, 1.0, 1e300, -2.5e-8)
# Long enough for a count to need a second byte.
_MANY: Final = 130


@cache
def every_version() -> tuple[tuple[type[Versioned], int], ...]:
    """Every declared message in each of its versions."""
    return tuple((message, version) for message in all_messages() for version in message.versions)


class Maker:
    def __init__(self, random: Random) -> None:
        self._random = random

    def message(self, cls: type[M], version: int) -> M:
        values = {field.name: self._field(field, version) for field in cls.fields}
        return cls(**values)

    def _field(self, field: Field, version: int) -> Any:
        if version not in field.versions:
            return _absent(field)
        if field.tag is not None:
            return self._tagged(field, version)
        if version in field.nullable and self._one_in(4):
            return None
        return self._value(field.kind, version)

    def _tagged(self, field: Field, version: int) -> Any:
        if self._one_in(2):
            return _absent(field)
        value = self._value(field.kind, version)
        if isinstance(value, Message) and value == of_defaults(type(value)):
            return None
        return value

    def _value(self, kind: Kind, version: int) -> Any:
        match kind:
            case Fixed():
                return self._fixed(kind)
            case Text():
                return self._random.choice(_TEXTS)
            case Blob() | Records():
                return self._random.choice(_BLOBS)
            case Nested(struct=struct):
                return self.message(struct, version)
            case Array(of=element):
                return [self._value(element, version) for _ in range(self._count(element))]

    def _count(self, element: Kind) -> int:
        if not isinstance(element, Nested) and self._one_in(12):
            return _MANY
        return self._random.choice((0, 1, 1, 2, 3))

    def _fixed(self, kind: Fixed) -> Any:
        match kind.format:
            case "?":
                return self._one_in(2)
            case "d":
                return self._random.choice(_FLOATS)
            case "16s":
                return self._random.getrandbits(128).to_bytes(16, "big")
        bits = 8 * kind.size
        low = -(1 << bits - 1) if kind.format.islower() else 0
        high = low + (1 << bits) - 1
        if self._one_in(3):
            return self._random.choice((low, high, 0, 1))
        return self._random.randint(low, high)

    def _one_in(self, chances: int) -> bool:
        return self._random.randrange(chances) == 0


def of_defaults(cls: type[M]) -> M:
    """The struct that says nothing: Kafka does not send it as a tag, and reads it when absent."""
    return cls(**{field.name: _absent(field) for field in cls.fields})


def _absent(field: Field) -> Any:
    absent = field.absent
    return list(absent) if isinstance(absent, list) else absent
