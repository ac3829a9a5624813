"""Where a read ends that could go on: with a whole batch, and without a look behind it."""

import pytest
from odradek.storage.log_reading import Isolation

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


@pytest.mark.parametrize("isolation", Isolation)
def test_a_read_does_not_look_at_what_is_behind_its_end(isolation: Isolation) -> None:
    room = Room(overrides=INDEXED)
    room.fill(BATCHES)
    records = room.log.read(START, 8000, isolation=isolation).records
    assert records is not None
    records.file.pwrite(bytes(17), records.position + records.length)
    again = room.log.read(START, 8000, isolation=isolation).records
    assert again is not None
    assert again.read() == records.read()
