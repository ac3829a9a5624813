"""Our bytes against those of kio, an independent implementation generated from Kafka's schemas.

For each message and version that kio has too: kio reads our bytes to the values we wrote, writes
those values as the same bytes, and we read its bytes as the message we began with. Both put the
same version of the header before it.
"""

import datetime
import io
from collections.abc import Iterator
from dataclasses import Field as KioField
from dataclasses import fields as kio_fields
from functools import cache
from pkgutil import resolve_name
from random import Random
from typing import Any, get_args
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from odradek.protocol.compiler import decode, encode
from odradek.protocol.registry import all_messages, api
from odradek.protocol.schema import Array, Field, Message, Nested, Request, Response, Versioned
from odradek.protocol.types import NO_ID

from tests.support.messages import Maker, of_defaults

EXAMPLES = 4
# kio's dates end with the year 9999, and its long durations with datetime.timedelta.
LATEST_MS = 253_402_300_799_000
ERROR_CODES = tuple(ErrorCode)


@cache
def kio_paths() -> dict[tuple[str, int], str]:
    """Where kio keeps each (message, version)."""
    return {
        (path.partition(":")[2], version): path
        for versions in schema_name_map.values()
        for version, entities in versions.items()
        for path in entities.values()
    }


def messages_of_kio() -> list[type[Versioned]]:
    names = {name for name, _ in kio_paths()}
    return [message for message in all_messages() if message.__name__ in names]


def test_kio_has_most_messages() -> None:
    shared = [
        (message.__name__, version)
        for message in all_messages()
        for version in message.versions
        if (message.__name__, version) in kio_paths()
    ]
    assert len(shared) >= 600


@pytest.mark.parametrize("message", messages_of_kio(), ids=lambda message: message.__name__)
def test_kio_and_we_read_and_write_the_same_bytes(message: type[Versioned]) -> None:
    for version in message.versions:
        path = kio_paths().get((message.__name__, version))
        if path is None:
            continue
        entity: Any = resolve_name(path)
        assert_same_header(message, version, entity)
        random = Random(path)
        for _ in range(EXAMPLES):
            ours = Maker(random).message(message, version)
            fit(ours, entity, version, random)
            encoded = encode(ours, version)
            theirs, size = entity_reader(entity)(encoded, 0)
            assert size == len(encoded)
            assert_same(ours, theirs, version)
            written = io.BytesIO()
            entity_writer(entity)(written, theirs)
            assert written.getvalue() == encoded
            assert decode(message, version, written.getvalue()) == ours


def assert_same_header(message: type[Versioned], version: int, entity: Any) -> None:
    if issubclass(message, Request):
        ours = api(message.api_key).request_header_version(version)
    elif issubclass(message, Response):
        ours = api(message.api_key).response_header_version(version)
    else:
        return
    assert ours == entity.__header_schema__.__version__


def pairs(
    message: Message | type[Message], entity: Any, version: int
) -> Iterator[tuple[Field, KioField[Any]]]:
    """Fields side by side: kio has the same ones in the same order, some by another name."""
    ours = [field for field in message.fields if version in field.versions]
    return zip(ours, kio_fields(entity), strict=True)


def fit(message: Message, entity: Any, version: int, random: Random) -> None:
    """Replace numbers that kio, which reads them as codes, dates and durations, cannot hold."""
    for ours, theirs in pairs(message, entity, version):
        value = getattr(message, ours.name)
        match theirs.metadata.get("kafka_type"):
            case "error_code":
                setattr(message, ours.name, int(random.choice(ERROR_CODES)))
            case "datetime_i64":
                # kio reads a date to the second, and has none before 1970 but "none".
                setattr(message, ours.name, abs(value) % LATEST_MS // 1000 * 1000)
            case "timedelta_i64":
                setattr(message, ours.name, abs(value) % LATEST_MS)
        for struct in structs(ours, value):
            fit(struct, struct_type(theirs.type), version, random)


def structs(field: Field, value: Any) -> list[Message]:
    if isinstance(field.kind, Nested):
        return [] if value is None else [value]
    if isinstance(field.kind, Array) and isinstance(field.kind.of, Nested):
        return value or []
    return []


def struct_type(annotation: Any) -> Any:
    """The class in `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    while arguments := get_args(annotation):
        annotation = arguments[0]
    return annotation


def assert_same(message: Message, entity: Any, version: int) -> None:
    for ours, theirs in pairs(message, entity, version):
        our, their = getattr(message, ours.name), getattr(entity, theirs.name)
        where = f"{type(message).__name__}.{ours.name}"
        if isinstance(ours.kind, Nested):
            if our is None and ours.tag is not None:
                our = of_defaults(ours.kind.struct)  # how kio reads a struct that is absent
            if our is None or their is None:
                assert our is their, where
            else:
                assert_same(our, their, version)
        elif isinstance(ours.kind, Array) and our is not None:
            assert len(our) == len(their), where
            for one, other in zip(our, their, strict=True):
                if isinstance(one, Message):
                    assert_same(one, other, version)
                else:
                    assert one == plain(other), where
        else:
            assert our == plain(their, default=NO_ID if is_id(theirs) else None), where


def is_id(field: KioField[Any]) -> bool:
    return field.metadata.get("kafka_type") == "uuid"


def plain(value: Any, default: Any = None) -> Any:
    """What kio read, as the number or bytes that travelled."""
    match value:
        case None:
            return default
        case UUID():
            return value.bytes
        case datetime.datetime():
            return round(value.timestamp() * 1000)
        case datetime.timedelta():
            return value // datetime.timedelta(milliseconds=1)
        case _:
            return value
