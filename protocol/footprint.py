"""How small a declared struct can be on the wire, and how large it then is in memory.

A forged frame must not cost much more memory than its own size. A decoder refuses a count when
the bytes left cannot hold that many of the smallest elements. Even so a struct of three bytes can
be 170 in memory; arrays of such bulky structs draw on an allowance of MEMORY_PER_BYTE for each
byte of the frame, with SPARE_MEMORY beside. What real peers send comes nowhere near it, since
their structs hold names and numbers, not emptiness.
"""

from typing import Final

from odradek.protocol.schema import Array, Field, Fixed, Kind, Message, Nested, Records, Text

MEMORY_PER_BYTE: Final = 16
SPARE_MEMORY: Final = 1 << 20

# What CPython spends, roughly: on an object with slots and its place in a list, on a slot, on an
# empty list, on a view.
_OBJECT_BYTES: Final = 40
_SLOT_BYTES: Final = 8
_LIST_BYTES: Final = 56
_VIEW_BYTES: Final = 200


class Footprint:
    """The sizes of structs in one version of a message."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible

    def smallest(self, kind: Kind) -> int:
        """The fewest bytes on the wire that one element can take, at least one."""
        match kind:
            case Fixed(size=size):
                return size
            case Nested(struct=struct):
                present = [f for f in struct.fields if self._has(f) and f.tag is None]
                sizes = (1 if self._may_be_null(f) else self.smallest(f.kind) for f in present)
                return max(1, sum(sizes) + self._flexible)
            case Text():
                return 1 if self._flexible else 2
            case _:
                return 1 if self._flexible else 4

    def memory(self, struct: type[Message]) -> int:
        """About how many bytes an element takes in memory when its numbers and texts are empty."""
        return _OBJECT_BYTES + sum(self._field_memory(field) for field in struct.fields)

    def is_bulky(self, struct: type[Message]) -> bool:
        return self.memory(struct) > MEMORY_PER_BYTE * self.smallest(Nested(struct))

    def holds_bulky_arrays(self, cls: type[Message]) -> bool:
        return any(self._is_bulky_array(field.kind) for field in cls.fields if self._has(field))

    def _is_bulky_array(self, kind: Kind) -> bool:
        match kind:
            case Array(of=Nested(struct=struct)):
                return self.is_bulky(struct) or self.holds_bulky_arrays(struct)
            case Nested(struct=struct):
                return self.holds_bulky_arrays(struct)
            case _:
                return False

    def _field_memory(self, field: Field) -> int:
        match field.kind:
            case Array() if self._has(field) or field.absent == []:
                return _SLOT_BYTES + _LIST_BYTES
            case Records() if self._has(field):
                return _SLOT_BYTES + _VIEW_BYTES
            case Nested(struct=struct) if self._has(field) and field.tag is None:
                return _SLOT_BYTES + self.memory(struct)
            case _:
                return _SLOT_BYTES

    def _has(self, field: Field) -> bool:
        return self._version in field.versions

    def _may_be_null(self, field: Field) -> bool:
        return isinstance(field.kind, Nested) and self._version in field.nullable
