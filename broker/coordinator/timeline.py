"""A dictionary that knows which of its values are committed.

A value is put at the offset of the record that carries it. Writers look at the latest value;
readers at the newest one whose record is committed, that is, lies below the end they name. Older
values are kept only while a reader may still need them.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Version(Generic[V]):
    __slots__ = ("offset", "previous", "value")

    def __init__(self, offset: int, value: V | None, previous: "_Version[V] | None") -> None:
        self.offset = offset
        self.value = value
        self.previous = previous


class Timeline(Generic[K, V]):
    __slots__ = ("_versions",)

    def __init__(self) -> None:
        self._versions: dict[K, _Version[V]] = {}

    def put(self, key: K, value: V | None, offset: int, committed_end: int) -> None:
        """Set the latest value, None to remove it."""
        known = self._versions.get(key)
        if known is not None and known.offset < committed_end:
            known.previous = None
        if value is None and offset < committed_end:
            self._versions.pop(key, None)
            return
        if value is None and known is None:
            return
        keeps_known = known is not None and offset >= committed_end
        self._versions[key] = _Version(offset, value, known if keeps_known else None)

    def latest(self, key: K) -> V | None:
        version = self._versions.get(key)
        return None if version is None else version.value

    def committed(self, key: K, committed_end: int) -> V | None:
        version = self._versions.get(key)
        return None if version is None else self._committed(key, version, committed_end)

    def all_latest(self) -> Iterator[tuple[K, V]]:
        for key, version in self._versions.items():
            if version.value is not None:
                yield key, version.value

    def all_committed(self, committed_end: int) -> Iterator[tuple[K, V]]:
        for key, version in list(self._versions.items()):
            value = self._committed(key, version, committed_end)
            if value is not None:
                yield key, value

    def _committed(self, key: K, version: _Version[V], committed_end: int) -> V | None:
        if version.offset < committed_end:
            version.previous = None
            if version.value is None:
                del self._versions[key]
            return version.value
        older = version.previous
        while older is not None and older.offset >= committed_end:
            older = older.previous
        return None if older is None else older.value
