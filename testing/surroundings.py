"""What brokers of tests are given: settings that fit a test, and a directory that goes away."""

import logging
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from odradek.broker.wanted_topics import WantedTopic

log: Final = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
# Memory for files, where the system has it; below this much room a disk is the better place.
MEMORY: Final = Path("/dev/shm")
LEAST_MEMORY_BYTES: Final = 1 << 30

# Small internal topics and no waiting: a test has few members, and they come at once.
TEST_SETTINGS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
}

Given: TypeAlias = str | int | float | bool
Topics: TypeAlias = Mapping[str, int] | Iterable[str]


def as_settings(settings: Mapping[str, Given] | None, more: Mapping[str, Given]) -> dict[str, str]:
    """Kafka's names and texts; keyword arguments have underscores for the dots."""
    given = {**(settings or {}), **{name.replace("_", "."): value for name, value in more.items()}}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }


def wanted_topics(topics: Topics) -> list[WantedTopic]:
    """`{"orders": 3}`, or names of topics with the broker's default of partitions."""
    if isinstance(topics, str):
        raise TypeError("topics are a list of names or a mapping to partitions, not one name")
    if isinstance(topics, Mapping):
        return [WantedTopic(name, partitions) for name, partitions in topics.items()]
    return [WantedTopic(name) for name in topics]


def temporary_directory() -> "tempfile.TemporaryDirectory[str]":
    """In memory where there is enough of it: a test's data need not outlive the machine."""
    return tempfile.TemporaryDirectory(
        prefix="odradek-", dir=MEMORY if _has_room(MEMORY) else None, ignore_cleanup_errors=True
    )


def _has_room(path: Path) -> bool:
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return os.access(path, os.W_OK) and disk.f_bavail * disk.f_frsize >= LEAST_MEMORY_BYTES


def note_failure(reason: str) -> None:
    """A broker that cannot go on must not take the test's process with it."""
    log.critical("The broker cannot go on: %s", reason)
