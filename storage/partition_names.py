"""How a partition's directory is named: `<topic>-<partition>`, with a suffix when it is going away.

Topics may contain "-" and digits, so names are read from the right: "t-1-0" is partition 0 of the
topic "t-1". Deleted partitions become `<topic>-<partition>.<32 hex digits>-delete`, shortened to
the 255 bytes a name may have. A copy that is to take the place of a log in another directory is
called `<topic>-<partition>.<32 hex digits>-future` until it does.
"""

import re
from random import Random

from odradek.protocol.types import TopicPartition

MAX_PARTITION = (1 << 31) - 1
_MAX_NAME_BYTES = 255
_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_DELETED = re.compile(r".*\.[0-9a-f]{32}-delete")
_FUTURE = re.compile(r"(.*)\.[0-9a-f]{32}-future")


def directory_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition that a directory is for, or None for any other name."""
    match = _PARTITION.fullmatch(name)
    if match is None or match[1] in (".", "..") or int(match[2]) > MAX_PARTITION:
        return None
    return TopicPartition(match[1], int(match[2]))


def deleted_name(partition: TopicPartition, random: Random) -> str:
    """A new name for the directory of a partition that is being deleted."""
    suffix = f"-{partition.partition}.{random.getrandbits(128):032x}-delete"
    return partition.topic[: _MAX_NAME_BYTES - len(suffix)] + suffix


def is_deleted_name(name: str) -> bool:
    return _DELETED.fullmatch(name) is not None


def future_name(partition: TopicPartition, random: Random) -> str | None:
    """A name for a copy of the partition; None when it would be too long for a file system."""
    name = f"{directory_name(partition)}.{random.getrandbits(128):032x}-future"
    return name if len(name) <= _MAX_NAME_BYTES else None


def parse_future_name(name: str) -> TopicPartition | None:
    match = _FUTURE.fullmatch(name)
    return None if match is None else parse_directory_name(match[1])
