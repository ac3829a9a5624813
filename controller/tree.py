"""A tree of nodes with ZooKeeper's rules: versions, transaction ids, sequences, ephemerals.

Pure: no clock, disk, sessions' fate or event loop. `apply` does a list of operations as one
transaction or raises and changes nothing, and tells which nodes it touched, for the journal, and
which watchers' paths it stirred. `store_embedded` owns the only instance.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from odradek.controller.store import (
    ANY_VERSION,
    MAX_DATA_BYTES,
    BadVersion,
    Check,
    Create,
    DataTooLarge,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    Set,
    Stat,
    StoreError,
    WatchEvent,
    WatchKind,
    check_path,
    name_of,
    parent_of,
)

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `births` counts children ever created: it numbers sequential ones.

    Names of children are kept beside the nodes: a parent of ten thousand is not copied for each.
    """

    data: bytes
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int = 0
    births: int = 0
    owner: int = 0
    children: int = 0

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            version=self.version,
            # ZooKeeper counts births and deaths of children in one number.
            cversion=2 * self.births - self.children,
            ephemeral_owner=self.owner,
            data_length=len(self.data),
            children=self.children,
        )


@dataclass(slots=True)
class Transaction:
    """What one `apply` did: results in order, nodes after it (None: gone), events to deliver."""

    zxid: int
    results: list[Result] = field(default_factory=list)
    touched: dict[str, Node | None] = field(default_factory=dict)
    events: list[WatchEvent] = field(default_factory=list)


class Tree:
    def __init__(self, *, zxid: int = 0) -> None:
        self.zxid = zxid
        self._nodes: dict[str, Node] = {"/": Node(b"", 0, 0, 0, 0)}
        self._names: dict[str, set[str]] = {}
        self._owned: dict[int, set[str]] = {}

    def load(self, nodes: Iterable[tuple[str, Node]]) -> None:
        """Fill an empty tree with what a journal kept. Links to parents are made here."""
        self._nodes.update(nodes)
        for path in self._nodes:
            if path != "/":
                self._names.setdefault(parent_of(path), set()).add(name_of(path))
        for path, node in self._nodes.items():
            self._nodes[path] = replace(node, children=len(self._names.get(path, ())))

    def node(self, path: str) -> Node:
        check_path(path)
        found = self._nodes.get(path)
        if found is None:
            raise NoNode(path)
        return found

    def find(self, path: str) -> Node | None:
        check_path(path)
        return self._nodes.get(path)

    def names(self, path: str) -> list[str] | None:
        """The children of a node, sorted; None when there is no such node."""
        return None if self.find(path) is None else sorted(self._names.get(path, ()))

    def next_zxid(self) -> int:
        """Use up a transaction id for something that is no node: a session."""
        self.zxid += 1
        return self.zxid

    def owned_by(self, session: int) -> list[str]:
        """The ephemeral nodes of a session, sorted, so that their going is repeatable."""
        return sorted(self._owned.get(session, ()))

    def apply(self, operations: Sequence[Operation], *, session: int, now_ms: int) -> Transaction:
        """Do all operations in one transaction, or raise and leave the tree as it was."""
        draft = _Draft(self._nodes, self.zxid + 1, session, now_ms)
        for index, operation in enumerate(operations):
            try:
                draft.do(operation)
            except StoreError as error:
                error.index = index
                raise
        transaction = draft.transaction
        self.zxid = transaction.zxid
        for path, node in transaction.touched.items():
            self._keep(path, node)
        return transaction

    def _keep(self, path: str, node: Node | None) -> None:
        before = self._nodes.pop(path, None)
        if before is not None and before.owner:
            _discard(self._owned, before.owner, path)
        if node is None:
            _discard(self._names, parent_of(path), name_of(path))
            return
        self._nodes[path] = node
        if before is None:
            self._names.setdefault(parent_of(path), set()).add(name_of(path))
        if node.owner:
            self._owned.setdefault(node.owner, set()).add(path)


class _Draft:
    """A transaction in the making, seen over the nodes it does not change yet."""

    def __init__(self, nodes: dict[str, Node], zxid: int, session: int, now_ms: int) -> None:
        self._nodes = nodes
        self._session = session
        self._now_ms = now_ms
        self.transaction = Transaction(zxid)

    def do(self, operation: Operation) -> None:
        check_path(operation.path)
        match operation:
            case Create():
                result: Result = self._create(operation)
            case Set():
                result = self._set(operation)
            case Delete():
                self._delete(operation)
                result = None
            case Check():
                self._expect(operation.path, operation.version)
                result = None
        self.transaction.results.append(result)

    def _find(self, path: str) -> Node | None:
        touched = self.transaction.touched
        return touched[path] if path in touched else self._nodes.get(path)

    def _expect(self, path: str, version: int) -> Node:
        node = self._find(path)
        if node is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(f"{path} is at version {node.version}, not {version}")
        return node

    def _create(self, operation: Create) -> str:
        _check_size(operation.path, operation.data)
        parent_path = parent_of(operation.path)
        parent = self._find(parent_path)
        if parent is None:
            raise NoNode(parent_path)
        if parent.owner:
            raise NoChildrenForEphemerals(parent_path)
        suffix = f"{parent.births:010d}" if operation.sequential else ""
        path = operation.path + suffix
        if self._find(path) is not None:
            raise NodeExists(path)
        zxid = self.transaction.zxid
        self.transaction.touched[path] = Node(
            data=operation.data,
            czxid=zxid,
            mzxid=zxid,
            ctime_ms=self._now_ms,
            mtime_ms=self._now_ms,
            owner=self._session if operation.ephemeral else 0,
        )
        self.transaction.touched[parent_path] = replace(
            parent, births=parent.births + 1, children=parent.children + 1
        )
        self._stir(WatchKind.CREATED, path)
        self._stir(WatchKind.CHILDREN, parent_path)
        return path

    def _set(self, operation: Set) -> Stat:
        _check_size(operation.path, operation.data)
        node = self._expect(operation.path, operation.version)
        changed = replace(
            node,
            data=operation.data,
            version=node.version + 1,
            mzxid=self.transaction.zxid,
            mtime_ms=self._now_ms,
        )
        self.transaction.touched[operation.path] = changed
        self._stir(WatchKind.CHANGED, operation.path)
        return changed.stat()

    def _delete(self, operation: Delete) -> None:
        if operation.path == "/":
            raise ValueError("the root cannot be deleted")
        node = self._expect(operation.path, operation.version)
        if node.children:
            raise NotEmpty(operation.path)
        parent_path = parent_of(operation.path)
        parent = self._find(parent_path)
        assert parent is not None, "a node always has its parent"
        self.transaction.touched[operation.path] = None
        self.transaction.touched[parent_path] = replace(parent, children=parent.children - 1)
        self._stir(WatchKind.DELETED, operation.path)
        self._stir(WatchKind.CHILDREN, parent_path)

    def _stir(self, kind: WatchKind, path: str) -> None:
        self.transaction.events.append(WatchEvent(kind, path))


def _discard(sets: dict[Key, set[str]], key: Key, member: str) -> None:
    members = sets.get(key, set())
    members.discard(member)
    if not members:
        sets.pop(key, None)


def _check_size(path: str, data: bytes) -> None:
    if len(data) > MAX_DATA_BYTES:
        raise DataTooLarge(f"{len(data)} bytes for {path}, at most {MAX_DATA_BYTES}")
