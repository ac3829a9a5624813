"""The only door to the operating system's files.

Everything else in storage speaks to the small `Files` and `File` protocols below; `OsFiles` is
the real thing and `memory_files.MemoryFiles` its in-memory twin that can lose power and fail.
Paths are plain strings joined with "/". Failures are `OSError` and nothing else; the owner of
the path (a log, a log directory) decides what a failure means.

Lifetime: a `File` has no close(). Its descriptor is closed when the last reference goes, so a
`FileSlice` on its way to a socket, or a flush running in a thread, keeps the descriptor valid
even when the segment it belongs to has been rolled, renamed or removed meanwhile.

Threads: every call may be made from any thread. Positions are always explicit (no seek), so
readers and the one writer of a file never disturb each other.

Durability: written bytes survive a crash of the process at once and a power cut after
`File.sync()`. A created, renamed or removed name survives a power cut after `sync_dir` of its
parent directory.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import resource
import shutil
import sys
from typing import Final, NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    size: int
    is_dir: bool
    modified_ms: int


class Room(NamedTuple):
    """How large a disk is, and how much of it can still be used."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """An open file; closed by losing its last reference."""

    @property
    def path(self) -> str: ...

    def fileno(self) -> int:
        """The descriptor for os.sendfile, or -1 when there is none (then use pread)."""
        ...

    def size(self) -> int: ...

    def pread(self, length: int, position: int, /) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int, /) -> int:
        """One write call; returns how many bytes went in, which may be fewer than given."""
        ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, length: int) -> None:
        """Reserve disk blocks for the first `length` bytes, growing the file to that size."""
        ...

    def sync(self) -> None:
        """Make the bytes and the size durable. Never call it again after it failed once."""
        ...

    def is_cached(self, position: int) -> bool:
        """Whether the page at `position` can be read without waiting for the disk."""
        ...

    def pread_cached(self, length: int, position: int, /) -> bytes | None:
        """Like pread; None when not all of it can be had without waiting for the disk."""
        ...

    def read_ahead(self, position: int, length: int) -> None:
        """Bring a range and the byte behind it into the page cache, and ask for what follows to be
        brought there too; blocks, so call it in a thread."""
        ...


class Mapping(Protocol):
    """A file mapped into memory, shared with readers of the same file."""

    @property
    def buffer(self) -> "mmap.mmap | bytearray": ...

    def reserve(self, end: int) -> int:
        """Make sure that storing below `end` finds disk blocks; returns up to where it does.

        A store into a hole of a full disk would kill the process with SIGBUS; this raises
        ENOSPC in time instead.
        """
        ...

    def close(self) -> None:
        """Unmap. All views taken of `buffer` must be gone."""
        ...


class Lock(Protocol):
    def release(self) -> None: ...


class Files(Protocol):
    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes the file when it is missing."""
        ...

    def map(self, path: str, size: int) -> Mapping:
        """Map the first `size` (> 0) bytes, creating and growing the file as needed."""
        ...

    def scan(self, path: str) -> list[Entry]:
        """What a directory holds, sorted by name."""
        ...

    def exists(self, path: str) -> bool: ...

    def make_dir(self, path: str) -> None:
        """Create a directory and its missing parents; fine when it exists."""
        ...

    def replace(self, source: str, target: str) -> None:
        """Rename a file over whatever bears the target name, atomically; or a directory."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; fine when it is gone already."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; fine when it is gone already."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make names created, renamed or removed in this directory durable."""
        ...

    def lock(self, path: str) -> Lock | None:
        """Take an exclusive lock on a file, or None when another process holds it."""
        ...

    def room(self, path: str) -> Room:
        """The disk that holds this path."""
        ...


class FileSlice:
    """A range of a file, to be sent by os.sendfile or read. Keeps the file open."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path!r}, {self.position}, {self.length})"

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        """All bytes of the slice. Fewer mean that the file was cut below it meanwhile."""
        return self.file.pread(self.length, self.position)

    def read_cached(self) -> bytes | None:
        """All bytes of the slice; None when they cannot be had without waiting for the disk."""
        return self.file.pread_cached(self.length, self.position)

    def is_cached(self) -> bool:
        return self.length == 0 or self.file.is_cached(self.position)

    def read_ahead(self) -> None:
        self.file.read_ahead(self.position, self.length)


def read_file(files: Files, path: str) -> bytes:
    """The whole of a small file."""
    file = files.open(path)
    return file.pread(file.size(), 0)


def write_fully(file: File, data: Buffer, position: int) -> None:
    """Write all of `data` or raise: a short write means a full or failing disk."""
    if file.pwrite(data, position) != len(data):
        raise OSError(errno.EIO, "short write", file.path)


_READ_FURTHER_BYTES: Final = 256 * 1024
_READ_AT_ONCE_BYTES: Final = 256 * 1024


class OsFile:
    """A descriptor with a name."""

    __slots__ = ("_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    def __del__(self) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pwrite(self, data: Buffer, position: int, /) -> int:
        return os.pwrite(self._fd, data, position)

    def pread(self, length: int, position: int, /) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        return self._pread_rest(data, length, position)

    def _pread_rest(self, data: bytes, length: int, position: int) -> bytes:
        # One read call returns at most 2 GiB, or less when a signal comes in between.
        parts = [data]
        have = len(data)
        while have < length and (data := os.pread(self._fd, length - have, position + have)):
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def allocate(self, length: int) -> None:
        os.posix_fallocate(self._fd, 0, length)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def is_cached(self, position: int) -> bool:
        try:
            os.preadv(self._fd, [bytearray(1)], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            # Some file systems cannot tell; claiming "cached" then costs one slow send at most.
            return error.errno == errno.EOPNOTSUPP
        return True

    def pread_cached(self, length: int, position: int, /) -> bytes | None:
        data = bytearray(length)
        try:
            count = os.preadv(self._fd, [data], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return self.pread(length, position)
            raise
        return bytes(data) if count == length else None

    def read_ahead(self, position: int, length: int) -> None:
        # Whoever reads this will go on behind it, and look at the batches there before that.
        os.posix_fadvise(
            self._fd, position, 2 * length + _READ_FURTHER_BYTES, os.POSIX_FADV_WILLNEED
        )
        end = position + length + 1  # with the beginning of what is behind it
        while data := os.pread(self._fd, min(end - position, _READ_AT_ONCE_BYTES), position):
            position += len(data)


class OsMapping:
    """An mmap. The interpreter keeps one duplicate descriptor for it until 3.13."""

    __slots__ = ("_path", "_reserved", "buffer")

    # Disk blocks are reserved in steps: one call per 8,192 (or 5,461) index entries.
    RESERVE_BYTES = 64 * 1024

    def __init__(self, path: str, buffer: mmap.mmap, reserved: int) -> None:
        self._path = path
        self._reserved = reserved
        self.buffer = buffer

    def reserve(self, end: int) -> int:
        if end <= self._reserved:
            return self._reserved
        target = min(self._reserved + self.RESERVE_BYTES, len(self.buffer))
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(fd, 0, max(target, end))
        finally:
            os.close(fd)
        self._reserved = max(target, end)
        return self._reserved

    def close(self) -> None:
        self.buffer.close()


class OsLock:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)


class OsFiles:
    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, 0o644), path)

    def map(self, path: str, size: int) -> OsMapping:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            present = os.fstat(fd).st_size
            if present < size:
                os.ftruncate(fd, size)
            if sys.version_info >= (3, 13):
                buffer = mmap.mmap(fd, size, trackfd=False)
            else:
                buffer = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        # One touch of a page shall not bring megabytes around it into memory: an index is searched
        # by halves, and what is not yet written of it is a hole, whose zeros cost memory as well.
        buffer.madvise(mmap.MADV_RANDOM)
        return OsMapping(path, buffer, min(present, size))

    def scan(self, path: str) -> list[Entry]:
        found = []
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    stat = entry.stat()
                    is_dir = entry.is_dir()
                except FileNotFoundError:
                    continue  # removed between listing and looking
                modified_ms = stat.st_mtime_ns // 1_000_000
                found.append(Entry(entry.name, stat.st_size, is_dir, modified_ms))
        found.sort()
        return found

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def room(self, path: str) -> Room:
        disk = os.statvfs(path)
        return Room(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)

    def lock(self, path: str) -> OsLock | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        return OsLock(fd)


def raise_open_file_limit() -> int:
    """Lift the soft limit of open files to the hard one; returns the limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard
