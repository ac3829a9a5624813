"""Messages of one layout: bytes that are always the same, and values of fixed width in between.

Where the same message goes to and fro all day and only a few numbers differ, a form reads or writes
it by one call of `struct`. Nobody writes a layout down twice: it is found by encoding an example
whose values cannot be overlooked. A form reads only what has its layout to the last byte; all else
is for the codec.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

from odradek.protocol.primitives import Buffer

V = TypeVar("V", int, bytes)


class Gap(NamedTuple, Generic[V]):
    """A value of a form: how struct calls its type, and the example's value."""

    kind: str
    example: V


INT32: Final[Sequence[Gap[int]]] = tuple(Gap("i", 0x5EED_0B00 + number) for number in range(16))
INT64: Final[Sequence[Gap[int]]] = tuple(
    Gap("q", 0x5EED_0BAD_5EED_0A00 + number) for number in range(16)
)
UUID: Final = Gap("16s", bytes.fromhex("5eed0dad" * 4))


class Form:
    __slots__ = ("_fixed", "_pack", "_row", "_unpack", "size")

    def __init__(self, example: bytes, gaps: Sequence[Gap[int] | Gap[bytes]]) -> None:
        """`gaps` stand in the example in this order. Raises ValueError when one does not."""
        layout, at = ">", 0
        row: list[int | bytes] = []
        for gap in gaps:
            found = example.index(Struct(">" + gap.kind).pack(gap.example), at)
            layout += f"{found - at}s{gap.kind}"
            row += [example[at:found], gap.example]
            at = found + Struct(">" + gap.kind).size
        struct = Struct(f"{layout}{len(example) - at}s")
        row.append(example[at:])
        self.size = struct.size
        self._pack = struct.pack
        self._unpack = struct.unpack_from
        self._row = row
        self._fixed = tuple(row[::2])

    def write(self, *values: int | bytes) -> bytes:
        row = self._row[:]
        row[1::2] = values
        return self._pack(*row)

    def read(self, data: Buffer) -> tuple[Any, ...] | None:
        """The values at the start of `data`; None when it is not of this form."""
        if len(data) < self.size:
            return None
        row = self._unpack(data)
        return row[1::2] if row[::2] == self._fixed else None
