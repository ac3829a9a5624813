"""The metadata store as the cluster sees it: ZooKeeper's tree, in about eight verbs.

A store handle belongs to one broker and holds one *session* at a time. Ephemeral nodes live as
long as the session that made them; when a session is lost, the handle tells its listeners, forgets
its watches, and opens a new session with a new id.

Invariants every implementation keeps (tests/unit/controller/store_contract.py runs on each):

- every change gets the next transaction id (zxid); `czxid` and `mzxid` never repeat and never go
  back, not even after a restart, so the czxid of a registration is a broker epoch;
- a write that returned is durable; a read never shows what is not durable;
- `multi` happens as a whole or not at all;
- a watch is set by the read that looked, fires once, is called on the event loop, and is called
  before any later read of the same handle returns the newer state.

Failures are the exceptions below and nothing else; `ConnectionLost` alone leaves the outcome of a
write unknown, and whoever gets it reads again before going on.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1

# ZooKeeper's own limit for a request (jute.maxbuffer), less the room its envelope takes.
MAX_DATA_BYTES: Final = 1_048_575 - 1024


class StoreError(Exception):
    """A store call that did not do what it was asked to; `index` is the place in a multi."""

    def __init__(self, message: str, *, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class NoNode(StoreError):
    """The node, or the parent of a node to create, is not there."""


class NodeExists(StoreError):
    """The node to create is there already."""


class BadVersion(StoreError):
    """The node has moved on from the version the caller expected."""


class NotEmpty(StoreError):
    """The node to delete has children."""


class NoChildrenForEphemerals(StoreError):
    """The parent of a node to create is ephemeral."""


class DataTooLarge(StoreError):
    """More bytes than one node may hold."""


class ConnectionLost(StoreError):
    """The store did not answer: a write may or may not have happened."""


class SessionLost(StoreError):
    """The session the call belonged to has ended, and its ephemeral nodes with it."""


class StoreFailed(StoreError):
    """The store cannot go on, for instance because its disk refused a write."""


class Stat(NamedTuple):
    """What ZooKeeper knows about a node. `ephemeral_owner` is 0 for a persistent node."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    ephemeral_owner: int
    data_length: int
    children: int


class WatchKind(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    kind: WatchKind
    path: str


class SessionState(Enum):
    CONNECTED = "connected"
    # No answer from the store; the session may still be alive. Nothing can be changed.
    SUSPENDED = "suspended"
    # The session is over: its ephemeral nodes and watches are gone.
    LOST = "lost"
    CLOSED = "closed"


Watch = Callable[[WatchEvent], None]
SessionListener = Callable[[SessionState], None]


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Operation = Create | Set | Delete | Check

# What an operation of a multi gives back: the path created, the new Stat of a set, else nothing.
Result = str | Stat | None


class MetadataStore(Protocol):
    """A handle with one session. All calls come from the event loop's thread."""

    @property
    def session_id(self) -> int: ...

    @property
    def state(self) -> SessionState: ...

    def listen(self, listener: SessionListener) -> None:
        """Call `listener` on the loop with each later state of the session."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> tuple[str, Stat]:
        """Create a node. A sequential one gets ten digits, counted by its parent, after `path`."""
        ...

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Read a node; `watch` fires when it changes or goes. No watch is set on NoNode."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat: ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        """Names of the children, sorted; `watch` fires when one comes or goes, or the node goes."""
        ...

    async def exists(self, path: str, *, watch: Watch | None = None) -> Stat | None:
        """The node's Stat, or None; `watch` fires when it comes, changes or goes."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Do all of it or nothing. The exception is that of the first operation that failed."""
        ...

    async def close(self) -> None:
        """End the session: ephemeral nodes go now, watches never fire, later calls fail."""
        ...


def check_path(path: str) -> None:
    """ValueError for what no ZooKeeper would take: such a path is a bug in its caller."""
    if path == "/":
        return
    if not path.startswith("/") or path.endswith("/"):
        raise ValueError(f"not an absolute path: {path!r}")
    for name in path[1:].split("/"):
        if name in ("", ".", "..") or "\0" in name:
            raise ValueError(f"not a path: {path!r}")


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


async def ensure_path(store: MetadataStore, path: str) -> None:
    """Create `path` and whatever is missing above it, as empty persistent nodes."""
    if path == "/" or await store.exists(path) is not None:
        return
    await ensure_path(store, parent_of(path))
    # Another broker may be quicker, which is just as good.
    with contextlib.suppress(NodeExists):
        await store.create(path)
