"""What lies in the log directories at a start, and what is to become of it: a pure decision.

Beside logs there may be copies on their way to another directory (`-future`), what was deleted and
not yet removed (`-delete`), and what a crash in the middle of a move left behind.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.protocol.types import TopicPartition
from odradek.storage.partition_names import (
    is_deleted_name,
    parse_directory_name,
    parse_future_name,
)
from odradek.storage.properties_files import LogDirectoryError

_log = logging.getLogger(__name__)


class FoundLog(NamedTuple):
    """A partition's directory, by its name in a log directory."""

    partition: TopicPartition
    home: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.home}/{self.name}"


@dataclass(slots=True)
class Survey:
    logs: dict[TopicPartition, FoundLog] = field(default_factory=dict)
    futures: dict[TopicPartition, FoundLog] = field(default_factory=dict)
    left_behind: list[FoundLog] = field(default_factory=list)  # to be deleted
    deleted: list[tuple[str, str]] = field(default_factory=list)  # (home, path)


def survey(names: Mapping[str, Sequence[str]], is_sealed: Callable[[str], bool]) -> Survey:
    """`names` are those of the directories in each log directory. Raises LogDirectoryError when
    two directories of one partition cannot be told apart."""
    found = Survey()
    for home, inside in names.items():
        for name in inside:
            _sort_in(found, home, name, is_sealed)
    for tp, future in list(found.futures.items()):
        log = found.logs.get(tp)
        if log is not None and log.home == future.home:
            found.left_behind.append(found.futures.pop(tp))
    return found


def _sort_in(found: Survey, home: str, name: str, is_sealed: Callable[[str], bool]) -> None:
    if is_deleted_name(name):
        found.deleted.append((home, f"{home}/{name}"))
    elif (tp := parse_future_name(name)) is not None:
        one = FoundLog(tp, home, name)
        if found.futures.setdefault(tp, one) is not one:
            found.left_behind.append(one)
    elif (tp := parse_directory_name(name)) is not None:
        one = FoundLog(tp, home, name)
        twin = found.logs.get(tp)
        found.logs[tp] = one if twin is None else _moved(found, twin, one, is_sealed)
    else:
        _log.warning("Ignoring %s/%s: not a partition's name", home, name)


def _moved(
    found: Survey, first: FoundLog, second: FoundLog, is_sealed: Callable[[str], bool]
) -> FoundLog:
    """Which of two is the log: the one that was moved here, if that can be said."""
    sealed = [log for log in (first, second) if is_sealed(log.path)]
    if len(sealed) != 1:
        raise LogDirectoryError(f"{first.partition} is in both {first.home} and {second.home}")
    (moved,) = sealed
    found.left_behind.append(second if moved is first else first)
    _log.info("%s had just moved to %s", moved.partition, moved.home)
    return moved
