"""Kafka's own message definitions, read out of its jars, in a form that ours can be compared with.

Each jar carries the JSON files that Kafka generates its serializers from. `catalogue(kafka)` gives
what they say for every message in every version; a `Member` is a field as it travels in one
version, and `declared(message, version)` gives the same of a declaration of ours.

Kafka 4 numbers the keys of a coordinator's records by type and calls their version 0, where
Kafka 3.9 (and we) let the type be the version, and has names of their own for the oldest two.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from zipfile import ZipFile

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
    versions_of,
)
from odradek.protocol.types import NO_ID

from scripts.parts import kafka_libs
from tests.support.parts import require

# Where the definitions of requests and responses are, and those of what coordinators write.
_JARS = ("clients", "group-coordinator", "transaction-coordinator")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """One field as it travels in one version. The type of a struct is its own members."""

    name: str
    type: "str | tuple[Member, ...]"
    is_array: bool
    nullable: bool
    tag: int | None
    compact: bool
    default: Any


@dataclass(frozen=True, slots=True)
class KafkaMessage:
    """One message in one version, and where Kafka's serializer for it is."""

    flexible: bool
    members: tuple[Member, ...]
    java_class: str
    java_version: int


Catalogue = dict[tuple[str, int], KafkaMessage]


@cache
def catalogue(kafka: str) -> Catalogue:
    """Every (message, version) that one version of Kafka defines."""
    require(f"kafka-{kafka}")
    found: Catalogue = {}
    for jar in _JARS:
        with ZipFile(kafka_libs(kafka) / f"kafka-{jar}-{kafka}.jar") as archive:
            for path in archive.namelist():
                if path.startswith("common/message/") and path.endswith(".json"):
                    found.update(_messages(_parse(archive.read(path).decode())))
    return found


def _parse(text: str) -> Json:
    parsed: Json = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return parsed


def _messages(definition: Json) -> Iterator[tuple[tuple[str, int], KafkaMessage]]:
    name = definition["name"].removeprefix("Legacy")
    is_api = definition["type"] in ("request", "response", "header")
    for java_version in versions_of(definition["validVersions"]):
        is_key = definition["type"] == "coordinator-key"
        version = definition["apiKey"] if is_key else java_version
        flexible = java_version in versions_of(definition.get("flexibleVersions", "none"))
        yield (
            (name, version),
            KafkaMessage(
                flexible=flexible,
                members=_Reader(definition, java_version, flexible).members(definition["fields"]),
                java_class=definition["name"] + ("Data" if is_api else ""),
                java_version=java_version,
            ),
        )


class _Reader:
    def __init__(self, definition: Json, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._structs = {
            struct["name"]: struct["fields"] for struct in definition.get("commonStructs", ())
        }

    def members(self, fields: list[Json]) -> tuple[Member, ...]:
        return tuple(self._member(field) for field in fields if self._in(_versions(field)))

    def _in(self, versions: str) -> bool:
        return self._version in versions_of(versions)

    def _member(self, field: Json) -> Member:
        type_ = field["type"].removeprefix("[]")
        inner = field.get("fields") or self._structs.get(type_)
        is_array = field["type"].startswith("[]")
        return Member(
            name=snake_case(field["name"]),
            type=self.members(inner) if inner else type_,
            is_array=is_array,
            nullable=self._in(field.get("nullableVersions", "none")),
            tag=int(field["tag"]) if self._in(field.get("taggedVersions", "none")) else None,
            compact=self._flexible and self._in(field.get("flexibleVersions", "0+")),
            default=[] if is_array else _default(type_, field.get("default")),
        )


def _versions(field: Json) -> str:
    """A field that is only ever tagged need not say its versions twice."""
    versions: str = field.get("versions") or field["taggedVersions"]
    return versions


def _default(type_: str, text: Any) -> Any:
    if text == "null":
        return None
    match type_:
        case "string":
            return text or ""
        case "bytes":
            return b""
        case "uuid":
            return NO_ID
        case "bool":
            return text in ("true", True)
        case "float64":
            return float(text or 0)
        case _ if "int" in type_:
            return int(str(text or 0), base=0)
        case _:
            return None  # records, and structs: absent


def declared(message: type[Versioned], version: int) -> tuple[Member, ...]:
    return _declared(message, version, flexible=version in message.flexible)


def _declared(cls: type[Message], version: int, *, flexible: bool) -> tuple[Member, ...]:
    return tuple(
        Member(
            name=field.name,
            type=_declared_type(field.kind, version, flexible=flexible),
            is_array=isinstance(field.kind, Array),
            nullable=version in field.nullable,
            tag=field.tag,
            compact=flexible and field.compact,
            default=field.absent,
        )
        for field in cls.fields
        if version in field.versions
    )


def _declared_type(kind: Kind, version: int, *, flexible: bool) -> str | tuple[Member, ...]:
    match kind:
        case Fixed(name=name):
            return name
        case Text():
            return "string"
        case Blob():
            return "bytes"
        case Records():
            return "records"
        case Array(of=element):
            return _declared_type(element, version, flexible=flexible)
        case Nested(struct=struct):
            return _declared(struct, version, flexible=flexible)


def snake_case(name: str) -> str:
    """ThrottleTimeMs -> throttle_time_ms"""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


def camel_case(field: Field) -> str:
    """How Kafka's JSON calls a field of ours: throttle_time_ms -> throttleTimeMs"""
    first, *rest = field.name.replace("kraft", "k_raft").split("_")
    return first + "".join(word.capitalize() for word in rest)
