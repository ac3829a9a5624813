"""Where a read ends that could go on: with a whole batch, and without a look behind it."""

import pytest

from tests.unit.storage.log_room import Room, values_in

INDEXED = {"index.interval.bytes": "400"}
BATCHES = 100
START = 10


@pytest.mark.parametrize("limit", range(300, 9000, 290))
def test_a_read_leaves_little_of_its_limit_unused(limit: int) -> None:
    room = Room(overrides=INDEXED)
    room.fill(BATCHES)
    batch_bytes = len(room.read(START, 1))
    data = room.read(START, limit)
    assert values_in(data)[0][0] == START
    assert limit - max(limit // 8, batch_bytes) <= len(data) <= limit


def test_a_read_does_not_look_at_what_is_behind_its_end() -> None:
    room = Room(overrides=INDEXED)
    room.fill(BATCHES)
    data = room.read(START, 8000)
    first = len(room.read(0, 1)) * START
    log_file = room.log.segments.active.batches.file
    log_file.pwrite(bytes(17), first + len(data))
    assert room.read(START, 8000) == data
