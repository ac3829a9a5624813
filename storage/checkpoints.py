"""Checkpoint files: a few lines of text that survive a crash whole or not at all.

Format: the version `0`, the number of rows, then one row a line, fields separated by one space:

    0
    2
    orders 0 1017
    orders 1 998

A write goes to `<path>.tmp`, is synced, renamed over the old file, and the directory is synced,
so a reader meets the old rows or the new ones. Reading never raises for what a file holds: rows
that make sense are kept and `damage` says what did not, because each owner knows a safe answer
for a row that is missing (recover from zero, take the log start). `OSError` passes through.

Whoever owns the state behind a file is the only writer of it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from odradek.protocol.types import TopicPartition
from odradek.storage.files import Files, read_file, write_fully

VERSION = "0"

HIGH_WATERMARKS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

Row = TypeVar("Row")


class Reading(NamedTuple, Generic[Row]):
    """The rows of a checkpoint file, and what was wrong with it (None when nothing was)."""

    rows: list[Row]
    damage: str | None


class OffsetsReading(NamedTuple):
    offsets: dict[TopicPartition, int]
    damage: str | None


def replace_file(files: Files, path: str, data: bytes, *, sync: bool = True) -> None:
    """Put `data` in the place of the file at `path`, atomically.

    Without `sync` the new content may be lost, or the file damaged, by a power cut: only for
    content that is checked when read and can be made again.
    """
    temporary = path + ".tmp"
    files.remove(temporary)  # a longer one left behind by a crash would keep its tail
    file = files.open(temporary, create=True)
    write_fully(file, data, 0)
    if sync:
        file.sync()
    files.replace(temporary, path)
    if sync:
        files.sync_dir(path.rpartition("/")[0] or ".")


def write_rows(files: Files, path: str, rows: Iterable[str], *, sync: bool = True) -> None:
    lines = list(rows)
    text = "\n".join([VERSION, str(len(lines)), *lines]) + "\n"
    replace_file(files, path, text.encode(), sync=sync)


def read_rows(files: Files, path: str, parse: Callable[[str], Row]) -> Reading[Row]:
    """All rows that `parse` accepts (it raises ValueError otherwise). No file means no rows."""
    try:
        data = read_file(files, path)
    except FileNotFoundError:
        return Reading([], None)
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
    problems = _problems_of_the_head(lines)
    rows = []
    for number, line in enumerate(lines[2:], 3):
        try:
            rows.append(parse(line))
        except ValueError:
            problems.append(f"line {number} makes no sense: {line[:80]!r}")
    damage = f"{path}: {'; '.join(problems[:5])}" if problems else None
    return Reading(rows, damage)


def _problems_of_the_head(lines: list[str]) -> list[str]:
    if len(lines) < 2:
        return ["the file ends before its row count"]
    problems = []
    if lines[0] != VERSION:
        problems.append(f"unknown version {lines[0][:20]!r}")
    if lines[1] != str(len(lines) - 2):
        problems.append(f"{len(lines) - 2} rows where {lines[1][:20]!r} were promised")
    return problems


def write_offsets(
    files: Files, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True
) -> None:
    rows = (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))
    write_rows(files, path, rows, sync=sync)


def read_offsets(files: Files, path: str) -> OffsetsReading:
    rows, damage = read_rows(files, path, _parse_offset)
    return OffsetsReading(dict(rows), damage)


def _parse_offset(line: str) -> tuple[TopicPartition, int]:
    topic, partition, offset = line.split(" ")
    if not topic:
        raise ValueError("no topic")
    return TopicPartition(topic, natural(partition)), natural(offset)


def natural(text: str) -> int:
    """A number written as Kafka writes it: int() alone would take "+1", "1_0" and " 1"."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not a number: {text[:20]!r}")
    return int(text)
