"""`Files` in memory: for tests and simulation, with power cuts and failing calls.

The disk is a tree of nodes. A file node holds its live bytes and the bytes of its last sync; a
directory node holds its live names and the names of its last `sync_dir`. `crash()` throws the
live side away, as a power cut does, and every object opened before it is dead from then on.
Nothing is durable by accident: syncing a file does not make its name durable.

`fail()` arms a fault: the nth matching call raises, or a write goes in only in part.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from odradek.storage.files import Buffer, Entry, Room


@dataclass(slots=True)
class _Fault:
    operation: str
    on_call: int
    error: int
    path_contains: str
    short_by: int
    sticky: bool
    calls: int = 0

    def strikes(self, operation: str, path: str) -> bool:
        if operation != self.operation or self.path_contains not in path:
            return False
        self.calls += 1
        return self.calls >= self.on_call if self.sticky else self.calls == self.on_call


@dataclass(slots=True, eq=False)
class _FileNode:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    modified_ms: int = 0

    def lose_power(self, random: Random | None) -> None:
        self.data = bytearray(self.synced if random is None else self._torn(random))

    def _torn(self, random: Random) -> bytes:
        """What a real disk may hold: a prefix of the new tail, perhaps zeros after it."""
        if len(self.data) <= len(self.synced) or not self.data.startswith(self.synced):
            return self.synced
        kept = random.randint(len(self.synced), len(self.data))
        zeros = random.choice((0, random.randint(0, len(self.data) - kept)))
        return bytes(self.data[:kept]) + bytes(zeros)


@dataclass(slots=True, eq=False)
class _DirNode:
    names: "dict[str, _FileNode | _DirNode]" = field(default_factory=dict)
    synced: "dict[str, _FileNode | _DirNode]" = field(default_factory=dict)

    def lose_power(self, random: Random | None) -> None:
        self.names = dict(self.synced)
        for node in self.names.values():
            node.lose_power(random)


class MemoryFile:
    def __init__(self, disk: "MemoryFiles", node: _FileNode, path: str) -> None:
        self._disk = disk
        self._node = node
        self._life = disk.life
        self.path = path

    def fileno(self) -> int:
        return -1

    def size(self) -> int:
        return len(self._live("size").data)

    def pread(self, length: int, position: int, /) -> bytes:
        return bytes(self._live("read").data[position : position + length])

    def pwrite(self, data: Buffer, position: int, /) -> int:
        self._disk.check_alive(self._life, self.path)
        wanted = memoryview(data).cast("B")
        count = self._disk.writable_bytes(len(wanted), self.path)
        node = self._node
        if len(node.data) < position:
            node.data.extend(bytes(position - len(node.data)))
        node.data[position : position + count] = wanted[:count]
        node.modified_ms = self._disk.now_ms()
        return count

    def truncate(self, size: int) -> None:
        data = self._live("truncate").data
        if size <= len(data):
            del data[size:]
        else:
            data.extend(bytes(size - len(data)))

    def allocate(self, length: int) -> None:
        data = self._live("allocate").data
        data.extend(bytes(max(0, length - len(data))))

    def sync(self) -> None:
        node = self._live("sync")
        node.synced = bytes(node.data)

    def is_cached(self, position: int) -> bool:
        return True

    def pread_cached(self, length: int, position: int, /) -> bytes | None:
        return self.pread(length, position)

    def read_ahead(self, position: int, length: int) -> None:
        return None

    def _live(self, operation: str) -> _FileNode:
        self._disk.check_alive(self._life, self.path)
        self._disk.touch(operation, self.path)
        return self._node


class MemoryMapping:
    """The node's own bytes; like a real mapping they must not be resized while mapped."""

    def __init__(self, disk: "MemoryFiles", node: _FileNode, path: str) -> None:
        self._disk = disk
        self._path = path
        self.buffer = node.data

    def reserve(self, end: int) -> int:
        self._disk.touch("reserve", self._path)
        return end

    def close(self) -> None:
        return None


class MemoryLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


class MemoryFiles:
    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self.life = 0
        self._root = _DirNode()
        self._locked: set[str] = set()
        self._faults: list[_Fault] = []

    # Faults ---------------------------------------------------------------------------------

    def fail(
        self,
        operation: str,
        *,
        on_call: int = 1,
        error: int = errno.EIO,
        path_contains: str = "",
        short_by: int = 0,
        sticky: bool = False,
    ) -> None:
        """Let the `on_call`-th call of an operation fail from now on counted.

        Operations: open map scan make_dir replace remove sync_dir lock read size write truncate
        allocate sync reserve. With `short_by` a write succeeds but leaves that many bytes out.
        A sticky fault strikes at every later call too.
        """
        self._faults.append(_Fault(operation, on_call, error, path_contains, short_by, sticky))

    def heal(self) -> None:
        """Forget all faults."""
        self._faults.clear()

    def kill(self) -> None:
        """End the process that uses the files: what it wrote stays, what it had open is dead."""
        self.life += 1
        self._locked.clear()

    def crash(self, random: Random | None = None) -> None:
        """Cut the power: what was not synced is gone, or torn at random when `random` is given."""
        self.kill()
        self._faults.clear()
        self._root.lose_power(random)

    def touch(self, operation: str, path: str) -> None:
        """Count a call; raise when a fault is due."""
        for fault in self._faults:
            if fault.strikes(operation, path):
                raise OSError(fault.error, f"injected failure of {operation}", path)

    def writable_bytes(self, length: int, path: str) -> int:
        for fault in self._faults:
            if fault.strikes("write", path):
                if fault.short_by:
                    return max(0, length - fault.short_by)
                raise OSError(fault.error, "injected failure of write", path)
        return length

    def check_alive(self, life: int, path: str) -> None:
        if life != self.life:
            raise OSError(errno.EBADF, "opened before the power cut", path)

    # Files ----------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.touch("open", path)
        return MemoryFile(self, self._file(path, create=create), path)

    def map(self, path: str, size: int) -> MemoryMapping:
        self.touch("map", path)
        node = self._file(path, create=True)
        if len(node.data) < size:
            node.data.extend(bytes(size - len(node.data)))
        return MemoryMapping(self, node, path)

    def scan(self, path: str) -> list[Entry]:
        self.touch("scan", path)
        return [_entry(name, node) for name, node in sorted(self._dir(path).names.items())]

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def make_dir(self, path: str) -> None:
        self.touch("make_dir", path)
        node = self._root
        for name in _parts(path):
            child = node.names.setdefault(name, _DirNode())
            if isinstance(child, _FileNode):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            node = child

    def replace(self, source: str, target: str) -> None:
        self.touch("replace", source)
        source_dir, source_name = self._parent(source)
        if source_name not in source_dir.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        target_dir, target_name = self._parent(target)
        target_dir.names[target_name] = source_dir.names.pop(source_name)

    def remove(self, path: str) -> None:
        self.touch("remove", path)
        if isinstance(self._find(path), _FileNode):
            directory, name = self._parent(path)
            del directory.names[name]

    def remove_tree(self, path: str) -> None:
        self.touch("remove", path)
        if self._find(path) is not None:
            directory, name = self._parent(path)
            del directory.names[name]

    def sync_dir(self, path: str) -> None:
        self.touch("sync_dir", path)
        node = self._dir(path)
        node.synced = dict(node.names)

    def room(self, path: str) -> Room:
        return Room(1 << 40, 1 << 40)

    def lock(self, path: str) -> MemoryLock | None:
        self.touch("lock", path)
        self._file(path, create=True)
        if path in self._locked:
            return None
        self._locked.add(path)
        return MemoryLock(self._locked, path)

    # The tree -------------------------------------------------------------------------------

    def _find(self, path: str) -> _FileNode | _DirNode | None:
        node: _FileNode | _DirNode | None = self._root
        for name in _parts(path):
            node = node.names.get(name) if isinstance(node, _DirNode) else None
        return node

    def _dir(self, path: str) -> _DirNode:
        node = self._find(path)
        if isinstance(node, _DirNode):
            return node
        raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def _parent(self, path: str) -> tuple[_DirNode, str]:
        directory, _, name = path.rstrip("/").rpartition("/")
        return self._dir(directory), name

    def _file(self, path: str, *, create: bool) -> _FileNode:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if isinstance(node, _DirNode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            node = directory.names[name] = _FileNode(modified_ms=self.now_ms())
        return node


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _entry(name: str, node: _FileNode | _DirNode) -> Entry:
    if isinstance(node, _DirNode):
        return Entry(name, 0, True, 0)
    return Entry(name, len(node.data), False, node.modified_ms)
