"""Reading JSON that someone else wrote: every field checked, every failure one exception.

Nodes of the store are written by other brokers, by tools and by people. A node that is too large,
nested too deeply, or not what its path promises raises `BadNode`; readers log it and go on without
(`readable`), for one bad node must not stop a controller.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

# Twice what an unmodified ZooKeeper lets anyone write.
MAX_NODE_BYTES = 2 * 1024 * 1024

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Value = TypeVar("Value")

# The package's one log: readers care that the controller speaks, not which of its modules.
log = logging.getLogger("odradek.controller")


class BadNode(ValueError):
    """A node that does not hold what its path promises."""


def readable(path: str, data: bytes, decode: Callable[[bytes], Value]) -> Value | None:
    """The decoded node, or None and a line in the log."""
    try:
        return decode(data)
    except BadNode as error:
        log.error("skipping the node %s: %s", path, error)
        return None


def encode(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


class Fields:
    """A JSON object, read field by field."""

    def __init__(self, fields: object) -> None:
        if not isinstance(fields, dict):
            raise BadNode("not a JSON object")
        self._fields: dict[str, object] = fields

    @classmethod
    def parse(cls, data: bytes) -> "Fields":
        if len(data) > MAX_NODE_BYTES:
            raise BadNode(f"{len(data)} bytes are too many")
        try:
            return cls(json.loads(data))
        except RecursionError:
            raise BadNode("nested too deeply") from None
        except ValueError as error:
            raise BadNode(f"not JSON: {error}") from None

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def names(self) -> list[str]:
        return list(self._fields)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise BadNode(f"{name} is not text")
        return value

    def optional_text(self, name: str) -> str | None:
        return self.text(name) if name in self else None

    def integer(self, name: str, default: int | None = None, largest: int = INT32_MAX) -> int:
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        return _integer(name, value, largest)

    def long(self, name: str) -> int:
        """A 64-bit number, which Kafka writes as text in some nodes and as a number in others."""
        value = self._fields.get(name)
        if isinstance(value, str):
            try:
                value = int(value)
            except ValueError:
                raise BadNode(f"{name} is not a number") from None
        return _integer(name, value, INT64_MAX)

    def integers(self, name: str) -> tuple[int, ...]:
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise BadNode(f"{name} is not a list")
        return tuple(_integer(name, item, INT32_MAX) for item in value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BadNode(f"{name} is not a list of texts")
        return tuple(value)

    def object(self, name: str) -> "Fields":
        """The object under `name`; an absent one reads as empty."""
        value = self._fields.get(name)
        return Fields({} if value is None else value)

    def objects(self, name: str) -> "list[Fields]":
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise BadNode(f"{name} is not a list")
        return [Fields(item) for item in value]


def _integer(name: str, value: object, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadNode(f"{name} is not a number")
    if not -largest - 1 <= value <= largest:
        raise BadNode(f"{name} is out of range")
    return value


def parse_integer(name: str, text: str, largest: int = INT32_MAX) -> int:
    """A number written as text: a map's key, or a whole node such as the controller epoch."""
    try:
        return _integer(name, int(text), largest)
    except ValueError:
        raise BadNode(f"{name} is not a number: {text[:40]!r}") from None
