"""How a Kafka message is declared: one class for all its versions.

    class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
        group_id: str = string()
        generation_id: int = int32()
        member_id: str = string()
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

The annotation is what readers and type checkers see; the value says how the field travels: its
wire type, the versions that carry it, those in which it may be null, its tag. A struct inside a
message is a nested class. A field without a default must be given to the constructor; decoding a
version that lacks a field gives the field's default. A tagged struct that is absent is None; one
that may be null is always sent, as null when it is None.

Classes are slotted and plain; `compiler` turns (class, version) into functions on first use.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, dataclass_transform

from odradek.protocol.types import NO_ID


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; `last` None means open-ended, first > last means none."""

    first: int
    last: int | None

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)

    def __iter__(self) -> Iterator[int]:
        assert self.last is not None, "an open range has no end to iterate to"
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        if self == NO_VERSIONS:
            return "none"
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NO_VERSIONS: Final = Versions(1, 0)


@cache
def versions_of(text: str) -> Versions:
    """The range that "3", "3+", "0-3" or "none" stands for."""
    if text == "none":
        return NO_VERSIONS
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if match is None:
        raise ValueError(f"not a version range: {text!r}")
    first = int(match[1])
    if match[2]:
        return Versions(first, None)
    return Versions(first, int(match[3]) if match[3] else first)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of a fixed size, given by its `struct` format."""

    name: str
    format: str
    size: int
    zero: Any


@dataclass(frozen=True, slots=True)
class Text:
    """A UTF-8 string of at most 32,767 bytes."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Opaque bytes, copied out of the frame."""


@dataclass(frozen=True, slots=True)
class Records:
    """Record batches: a view of the frame when decoded, any sized part when encoded."""


@dataclass(frozen=True, slots=True)
class Nested:
    struct: "type[Message]"


@dataclass(frozen=True, slots=True)
class Array:
    of: "Fixed | Text | Blob | Nested"


Kind = Fixed | Text | Blob | Records | Nested | Array

BOOLEAN: Final = Fixed("bool", "?", 1, False)
INT8: Final = Fixed("int8", "b", 1, 0)
INT16: Final = Fixed("int16", "h", 2, 0)
UINT16: Final = Fixed("uint16", "H", 2, 0)
INT32: Final = Fixed("int32", "i", 4, 0)
UINT32: Final = Fixed("uint32", "I", 4, 0)
INT64: Final = Fixed("int64", "q", 8, 0)
FLOAT64: Final = Fixed("float64", "d", 8, 0.0)
UUID: Final = Fixed("uuid", "16s", 16, NO_ID)

_REQUIRED: Final[Any] = object()


@dataclass(slots=True)
class Field:
    """How one field travels. The class it is declared in gives it its name."""

    kind: Kind
    versions: Versions
    nullable: Versions
    tag: int | None
    compact: bool
    default: Any
    name: str = ""

    @property
    def is_required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def absent(self) -> Any:
        """What the field reads as in a version that lacks it."""
        if not self.is_required:
            return self.default
        match self.kind:
            case Fixed(zero=zero):
                return zero
            case Text():
                return ""
            case Blob():
                return b""
            case Array():
                return []
            case _:
                return None


def _field(
    kind: Kind,
    versions: str,
    *,
    default: Any = _REQUIRED,
    nullable: str = "none",
    tag: int | None = None,
    compact: bool = True,
) -> Any:
    return Field(
        kind=kind,
        versions=versions_of(versions),
        nullable=versions_of(nullable),
        tag=tag,
        compact=compact,
        default=default,
    )


def boolean(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(BOOLEAN, versions, default=default, tag=tag)


def int8(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(INT8, versions, default=default, tag=tag)


def int16(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(INT16, versions, default=default, tag=tag)


def uint16(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(UINT16, versions, default=default, tag=tag)


def int32(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(INT32, versions, default=default, tag=tag)


def uint32(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(UINT32, versions, default=default, tag=tag)


def int64(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(INT64, versions, default=default, tag=tag)


def float64(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(FLOAT64, versions, default=default, tag=tag)


def uuid(versions: str = "0+", *, default: Any = _REQUIRED, tag: int | None = None) -> Any:
    return _field(UUID, versions, default=default, tag=tag)


def string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = _REQUIRED,
    tag: int | None = None,
    compact: bool = True,
) -> Any:
    """`compact=False` keeps the two-byte length even in flexible versions."""
    return _field(Text(), versions, default=default, nullable=nullable, tag=tag, compact=compact)


def blob(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = _REQUIRED,
    tag: int | None = None,
) -> Any:
    return _field(Blob(), versions, default=default, nullable=nullable, tag=tag)


def records(versions: str = "0+", *, nullable: str = "none", default: Any = _REQUIRED) -> Any:
    return _field(Records(), versions, default=default, nullable=nullable)


def array(
    of: "Fixed | Text | Blob | type[Message]",
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = _REQUIRED,
    tag: int | None = None,
) -> Any:
    element = Nested(of) if isinstance(of, type) else of
    return _field(Array(element), versions, default=default, nullable=nullable, tag=tag)


def nested(
    of: "type[Message]",
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = _REQUIRED,
    tag: int | None = None,
) -> Any:
    return _field(Nested(of), versions, default=default, nullable=nullable, tag=tag)


STRING: Final = Text()
BLOB: Final = Blob()


@dataclass_transform(
    kw_only_default=True,
    eq_default=True,
    field_specifiers=(
        boolean,
        int8,
        int16,
        uint16,
        int32,
        uint32,
        int64,
        float64,
        uuid,
        string,
        blob,
        records,
        array,
        nested,
    ),
)
class MessageMeta(type):
    """Takes the fields out of the class body and leaves slots in their place."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> "MessageMeta":
        declared = {key: value for key, value in body.items() if isinstance(value, Field)}
        for key, field in declared.items():
            field.name = key
            del body[key]
        fields = tuple(declared.values())
        body["__slots__"] = tuple(field.name for field in fields)
        body["fields"] = fields
        return super().__new__(mcs, name, bases, body, **options)


class Message(metaclass=MessageMeta):
    """What every declared class is: slots, a keyword constructor, equality and a repr."""

    fields: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        # The real constructor is compiled when the class is first used: 800 of them at import
        # would cost a broker a fifth of a second of its start.
        cls = type(self)
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.fields)
        return f"{type(self).__qualname__}({shown})"


class Struct(Message):
    """A part of one message; its versions are those of the message around it."""


class Versioned(Message):
    """A message with versions of its own."""

    versions: ClassVar[Versions] = NO_VERSIONS
    flexible: ClassVar[Versions] = NO_VERSIONS

    def __init_subclass__(cls, versions: str = "none", flexible: str = "none") -> None:
        cls.versions = versions_of(versions)
        cls.flexible = versions_of(flexible)


class Request(Versioned):
    api_key: ClassVar[int]

    def __init_subclass__(
        cls, api_key: int = -1, versions: str = "none", flexible: str = "none"
    ) -> None:
        super().__init_subclass__(versions, flexible)
        cls.api_key = api_key


class Response(Versioned):
    api_key: ClassVar[int]

    def __init_subclass__(
        cls, api_key: int = -1, versions: str = "none", flexible: str = "none"
    ) -> None:
        super().__init_subclass__(versions, flexible)
        cls.api_key = api_key


class Data(Versioned):
    """A versioned structure that is no request: headers and the records of internal topics."""


def _constructor(cls: type[Message]) -> Callable[..., None]:
    arguments: list[str] = []
    body: list[str] = []
    names: dict[str, Any] = {"_MISSING": _REQUIRED}
    for field in cls.fields:
        if field.is_required:
            arguments.append(field.name)
            body.append(f" self.{field.name} = {field.name}")
            continue
        default = f"_default_{field.name}"
        names[default] = field.default
        if isinstance(field.default, list):
            # A fresh list for every message: handlers append to them.
            arguments.append(f"{field.name}=_MISSING")
            value = f"[] if {field.name} is _MISSING else {field.name}"
        else:
            arguments.append(f"{field.name}={default}")
            value = field.name
        body.append(f" self.{field.name} = {value}")
    signature = ", ".join(["self", "*", *arguments] if arguments else ["self"])
    source = "\n".join([f"def __init__({signature}):", *(body or [" pass"])])
    exec(compile(source, f"<constructor of {cls.__qualname__}>", "exec"), names)
    constructor: Callable[..., None] = names["__init__"]
    return constructor
