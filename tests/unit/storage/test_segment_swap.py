"""Replacing segments by rewritten ones: a crash after any step leaves one or the other, whole."""

import pytest
from odradek.protocol.records import iter_headers
from odradek.storage.memory_files import MemoryFiles
from odradek.storage.segment import Segment
from odradek.storage.segment_swap import CLEANED

from tests.unit.storage.log_room import Room

SETTINGS = {"segment.bytes": "1000", "index.interval.bytes": "200", "file.delete.delay.ms": "0"}


class Halt(Exception):
    """The process dies here."""


class Dying(MemoryFiles):
    """Dies instead of making the nth rename from now on."""

    renames_left: int | None = None

    def replace(self, source: str, target: str) -> None:
        if self.renames_left == 0:
            raise Halt
        if self.renames_left is not None:
            self.renames_left -= 1
        super().replace(source, target)


def cleaned_copy(room: Room, segments: list[Segment]) -> Segment:
    """One new segment with every second batch of the given ones, written as .cleaned."""
    new = Segment(
        room.files,
        room.directory,
        segments[0].base_offset,
        index_bytes=1000,
        index_interval_bytes=200,
        suffix=CLEANED,
    )
    new.create()
    last = segments[-1]
    for segment in segments:
        data = segment.batches.read(0, segment.size)
        for position, header in iter_headers(data):
            is_last = segment is last and position + header.size_bytes == len(data)
            if header.base_offset % 2 == 0 or is_last:
                new.append(data[position : position + header.size_bytes], [header])
    new.become_inactive()
    new.batches.file.sync()
    for path in new.side_files():
        if room.files.exists(path):
            room.files.open(path).sync()
    room.files.sync_dir(room.directory)
    return new


def prepared(files: MemoryFiles) -> tuple[Room, list[Segment], list[Segment]]:
    room = Room(files, overrides=SETTINGS)
    room.fill(24)
    room.log.flush()
    room.checkpoint()
    old = list(room.log.segments)[:4]
    return room, old, [cleaned_copy(room, old[:2]), cleaned_copy(room, old[2:])]


def test_new_segments_take_the_place_of_the_old_ones() -> None:
    room, old, new = prepared(MemoryFiles())
    before = room.read_all()
    room.log.replace_segments(new, old)
    after = room.read_all()
    assert set(after) < set(before)
    assert after[-4:] == before[-4:]
    assert len(room.log.segments) == 3
    assert room.stop_and_open().log_end_offset == 24
    assert room.read_all() == after


@pytest.mark.parametrize("power", ["stays", "cut"])
def test_a_crash_at_any_rename_leaves_old_or_new_segments(power: str) -> None:
    outcomes = set()
    for renames in range(100):
        files = Dying()
        room, old, new = prepared(files)
        before = room.read_all()
        files.renames_left = renames
        try:
            room.log.replace_segments(new, old)
            finished = True
        except Halt:
            finished = False
        files.renames_left = None
        if power == "cut":
            room.cut_power_and_open()
        else:
            room.kill_and_open()
        now = room.read_all()
        assert set(now) <= set(before)
        assert {row for row in before if row[0] % 2 == 0} <= set(now)
        assert [offset for offset, _ in now] == sorted(offset for offset, _ in now)
        assert room.log.log_end_offset == 24
        leftovers = (".cleaned", ".swap", ".deleted")
        assert not [name for name in room.names() if name.endswith(leftovers)]
        outcomes.add(len(now))
        if finished:
            break
    assert finished
    assert 24 in outcomes
    if power == "stays":
        assert len(outcomes) >= 2
