"""What consumer groups need to know of topics: ids and numbers of partitions.

The cluster's view changes with every election; the shapes of topics seldom do. As long as no shape
has changed, the same mapping is given out, so that a group can see at a glance whether it has to
look again.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias


class TopicShape(NamedTuple):
    id: bytes
    partitions: int


Topics: TypeAlias = Mapping[str, TopicShape]
"""By name."""


class TopicShapes:
    """The shapes of the topics of a view, which `view` gives; it may well be the same again."""

    def __init__(self, view: Callable[[], Mapping[str, Any]]) -> None:
        self._view = view
        self._seen: Mapping[str, Any] | None = None
        self._shapes: Topics = {}

    def __call__(self) -> Topics:
        topics = self._view()
        if topics is not self._seen:
            self._seen = topics
            shapes = {
                name: TopicShape(topic.id, len(topic.partitions)) for name, topic in topics.items()
            }
            if shapes != self._shapes:
                self._shapes = shapes
        return self._shapes


def hash_of(topics: Topics, names: Iterable[str]) -> int:
    """A number that changes when one of the named topics comes, goes or grows; 0 for none."""
    known = sorted(name for name in names if name in topics)
    if not known:
        return 0
    summary = blake2b(digest_size=8)
    for name in known:
        shape = topics[name]
        summary.update(b"%s\0%s%d\0" % (name.encode(), shape.id, shape.partitions))
    return int.from_bytes(summary.digest(), "big", signed=True)
