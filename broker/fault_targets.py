"""What a request is about, and how to let it fail for some of its topics only.

Messages differ in how they name things; the tables below know all their words. Pure functions on
declared messages: nothing that is given is changed.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from odradek.protocol.schema import Message, Request, Response
from odradek.protocol.types import NO_ID

# Lists of topics in a message, and in parts of it that stand for groups or transactions.
TOPIC_LISTS: Final = (
    "topics",
    "topic_data",
    "topic_names",
    "topic_partitions",
    "v3_and_below_topics",
    "resources",
    "responses",
    "results",
    "results_by_topic_v3_and_below",
    "replica_election_results",
)
_PARTS: Final = ("groups", "transactions")
_TOPIC_WORDS: Final = ("name", "topic", "resource_name")
_PARTITION_LISTS: Final = (
    "partitions",
    "partition_data",
    "partition_indexes",
    "partition_responses",
    "results_by_partition",
    "partition_result",
)
_PARTITION_WORDS: Final = ("partition_index", "partition", "index", "partition_id")
_GROUP_LISTS: Final = ("groups", "groups_names", "coordinator_keys")
_GROUP_WORDS: Final = ("group_id", "key")
_TOPIC_RESOURCE: Final = 2

NameOf = Callable[[bytes], str | None]
IsHit = Callable[[str, int | None], bool]
M = TypeVar("M", bound=Message)


class Parted(NamedTuple):
    """A request in two: what goes wrong of it and what does not; None where that is nothing."""

    hit: Request | None
    rest: Request | None


def named_partitions(message: Message, name_of: NameOf) -> Iterator[tuple[str, int | None]]:
    """Every topic the message names, with its partitions where it names those too."""
    for field in _present(message, TOPIC_LISTS):
        for topic in getattr(message, field) or ():
            name = _topic_name(topic, name_of)
            if name is None:
                continue
            partitions = _partitions_of(topic)
            yield from ((name, _index(partition)) for partition in partitions or ())
            if partitions is None:
                yield name, None
    for field in _present(message, _PARTS):
        for part in getattr(message, field):
            if isinstance(part, Message):
                yield from named_partitions(part, name_of)


def named_groups(message: Message) -> Iterator[str]:
    for field in _present(message, _GROUP_WORDS):
        yield getattr(message, field)
    for field in _present(message, _GROUP_LISTS):
        for entry in getattr(message, field) or ():
            if isinstance(entry, str):
                yield entry
            else:
                yield from named_groups(entry)


def parted(request: Request, is_hit: IsHit, name_of: NameOf) -> Parted:
    """Part the request's own lists of topics; it must name at least one that is hit."""
    hit_lists: dict[str, list[Any]] = {}
    rest_lists: dict[str, list[Any]] = {}
    for field in _present(request, TOPIC_LISTS):
        entries = getattr(request, field) or ()
        pairs = [_part_topic(entry, is_hit, name_of) for entry in entries]
        hit_lists[field] = [hit for hit, _ in pairs if hit is not None]
        rest_lists[field] = [rest for _, rest in pairs if rest is not None]
    hit = changed(request, hit_lists) if any(hit_lists.values()) else None
    rest = changed(request, rest_lists) if any(rest_lists.values()) or hit is None else None
    return Parted(hit, rest)


def _part_topic(topic: Any, is_hit: IsHit, name_of: NameOf) -> tuple[Any, Any]:
    name = _topic_name(topic, name_of)
    if name is None:
        return None, topic
    partitions = _partitions_of(topic)
    if partitions is None:
        return (topic, None) if is_hit(name, None) else (None, topic)
    hit = [each for each in partitions if is_hit(name, _index(each))]
    rest = [each for each in partitions if not is_hit(name, _index(each))]
    if not hit or not rest:
        return (topic, None) if hit else (None, topic)
    (field,) = _present(topic, _PARTITION_LISTS)
    return changed(topic, {field: hit}), changed(topic, {field: rest})


def has_topics(response: Response) -> bool:
    """Whether an answer says something of topics, rather than of the request as a whole."""
    return any(getattr(response, field) for field in _present(response, TOPIC_LISTS))


def joined(served: Response, failed: Response) -> Response:
    """One answer of the two halves: everything but the topics is as it was served."""
    lists: dict[str, list[Any]] = {}
    for field in _present(served, TOPIC_LISTS):
        topics = {_key(topic): topic for topic in getattr(served, field) or ()}
        for topic in getattr(failed, field) or ():
            known = topics.get(_key(topic))
            topics[_key(topic)] = topic if known is None else _join_topic(known, topic)
        lists[field] = list(topics.values())
    return changed(served, lists)


def _join_topic(served: Message, failed: Message) -> Message:
    for field in _present(served, _PARTITION_LISTS):
        return changed(served, {field: [*getattr(served, field), *getattr(failed, field)]})
    return failed


def changed(message: M, values: dict[str, Any]) -> M:
    """A copy with other values for these fields."""
    copied = {field.name: getattr(message, field.name) for field in message.fields}
    return type(message)(**{**copied, **values})


def _present(message: Message, names: tuple[str, ...]) -> list[str]:
    declared = {field.name for field in message.fields}
    return [name for name in names if name in declared]


def _topic_name(topic: Any, name_of: NameOf) -> str | None:
    """None for what is no topic, and for an id that nobody knows."""
    if isinstance(topic, str):
        return topic
    if getattr(topic, "resource_type", _TOPIC_RESOURCE) != _TOPIC_RESOURCE:
        return None
    topic_id = getattr(topic, "topic_id", NO_ID)
    for word in _present(topic, _TOPIC_WORDS):
        if name := getattr(topic, word):
            return str(name)
    return None if topic_id == NO_ID else name_of(topic_id)


def _partitions_of(topic: Any) -> list[Any] | None:
    """None where the message speaks of the topic as a whole."""
    if not isinstance(topic, Message):
        return None
    for field in _present(topic, _PARTITION_LISTS):
        found: list[Any] | None = getattr(topic, field)
        return found
    return None


def _index(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    (word, *_) = _present(partition, _PARTITION_WORDS)
    index: int = getattr(partition, word)
    return index


def _key(topic: Any) -> object:
    words = [getattr(topic, word) for word in _present(topic, (*_TOPIC_WORDS, "topic_id"))]
    return tuple(words)
