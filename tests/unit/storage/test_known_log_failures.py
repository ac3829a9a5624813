"""Bugs that logs of this kind have had elsewhere, one test each, so that ours never has them."""

import errno
from random import Random

import pytest
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import ProducerStamp
from odradek.storage.files import write_fully
from odradek.storage.log_reading import Isolation

from tests.unit.storage.log_room import Room, batch, replicated, values_in

SMALL = {"segment.bytes": "1000"}


# Reads above a bound that was read twice (KAFKA-9807, 9835, 9196) ---------------------------


def test_a_read_never_passes_the_high_watermark_it_was_answered_with() -> None:
    room = Room(overrides=SMALL | {"index.interval.bytes": "200"})
    for number in range(30):
        room.append(b"%d" % number * 50)
        room.log.update_high_watermark(number // 2)
        for isolation in (Isolation.HIGH_WATERMARK, Isolation.LAST_STABLE):
            for offset in range(room.log.high_watermark + 1):
                result = room.log.read(offset, 400, isolation=isolation)
                data = result.records.read() if result.records else b""
                assert all(o < result.bounds.high_watermark for o, _ in values_in(data))


def test_the_bounds_of_a_read_stay_its_own_while_the_log_goes_on() -> None:
    room = Room(overrides=SMALL)
    room.fill(6)
    result = room.log.read(0, 1 << 20, isolation=Isolation.HIGH_WATERMARK)
    assert result.records is not None
    size = len(result.records)
    room.fill(10)  # also rolls
    assert len(result.records.read()) == size
    assert (result.bounds.high_watermark, result.bounds.log_end) == (6, 6)


def test_the_high_watermark_is_found_again_after_a_roll() -> None:
    room = Room(overrides=SMALL)
    room.fill(4)
    room.append(b"above the high watermark" * 30)  # begins a new segment
    assert len(room.log.segments) == 2
    assert [o for o, _ in room.read_all(Isolation.HIGH_WATERMARK)] == [0, 1, 2, 3]


# Log start and full truncation (KAFKA-12996, 9491, 6975) ------------------------------------


def test_an_offset_below_the_log_start_is_out_of_range_before_anything_else() -> None:
    room = Room()
    room.fill(5)
    room.log.advance_log_start(3)
    with pytest.raises(KafkaError) as caught:
        room.log.read(1, 100)
    assert caught.value.error is Errors.OFFSET_OUT_OF_RANGE


def test_full_truncation_sets_log_start_and_high_watermark() -> None:
    room = Room(overrides=SMALL)
    room.fill(20)
    room.log.truncate_fully_and_start_at(100)
    bounds = room.log.bounds()
    assert bounds == (100, 100, 100, 100)
    assert room.log.epochs.entries == []
    room.log.append_as_follower(replicated(b"x", offset=100, epoch=5))
    assert room.read_all() == [(100, b"x")]
    assert room.kill_and_open().log_start_offset == 100


def test_truncation_below_the_first_segment_empties_the_log() -> None:
    room = Room()
    room.log.truncate_fully_and_start_at(100)
    room.log.append_as_follower(replicated(b"x", offset=100))
    room.log.truncate_to(40)
    assert room.log.bounds() == (40, 40, 40, 40)


def test_a_batch_may_straddle_the_log_start() -> None:
    room = Room()
    room.append_committed(b"a", b"b", b"c")
    room.log.advance_log_start(2)
    assert room.read_all() == [(2, b"c")]
    assert values_in(room.read(2))[0] == (0, b"a")  # the whole batch; the client drops the rest


def test_an_empty_follower_takes_the_batch_that_straddles_its_leaders_log_start() -> None:
    room = Room()
    room.log.truncate_fully_and_start_at(12)
    room.log.append_as_follower(replicated(b"a", b"b", b"c", offset=10, epoch=1))
    assert (room.log.log_start_offset, room.log.log_end_offset) == (12, 13)
    assert room.read_all() == [(12, b"c")]


# Retention past the high watermark (KAFKA-5634) ---------------------------------------------


def test_retention_never_deletes_past_the_high_watermark() -> None:
    room = Room(overrides=SMALL | {"retention.bytes": "0", "retention.ms": "1"})
    for _ in range(20):
        room.append(b"x" * 100)
    room.log.update_high_watermark(7)
    room.clock.advance(10_000_000)
    room.log.apply_retention()
    assert 0 < room.log.log_start_offset <= 7
    assert room.read_all()[-1][0] == 19


# Names and snapshots torn by a power cut (KAFKA-3968, 16541, 9892) --------------------------


def test_a_flushed_segment_keeps_its_name_through_a_power_cut() -> None:
    room = Room(overrides=SMALL)
    room.fill(20)
    before = room.read_all()
    room.log.flush()
    room.checkpoint()
    room.cut_power_and_open()
    assert room.read_all() == before
    assert room.log.log_end_offset == 20


def test_an_unflushed_tail_is_lost_cleanly_whatever_the_disk_kept_of_it() -> None:
    for seed in range(30):
        room = Room(overrides=SMALL)
        room.fill(8)
        room.log.flush()
        room.checkpoint()
        before = room.read_all()
        room.fill(15)
        everything = room.read_all()
        room.cut_power_and_open(Random(seed))
        now = room.read_all()
        assert now[:8] == before
        assert now == everything[: len(now)]
        room.fill(3)
        assert len(room.read_all()) == len(now) + 3


def test_a_damaged_producer_snapshot_is_replaced_by_a_longer_replay() -> None:
    room = Room(overrides=SMALL)
    stamp = ProducerStamp(7, 0, 0)
    room.log.append_as_leader(batch(b"x", producer=stamp), leader_epoch=0)
    room.fill(20)
    room.log.close()
    for name in room.names():
        if name.endswith(".snapshot"):
            file = room.files.open(f"{room.directory}/{name}")
            write_fully(file, b"\xff", file.size() - 1)
    log = room.open(is_clean=True)
    assert log.append_as_leader(batch(b"x", producer=stamp), leader_epoch=0).is_duplicate


def test_a_damaged_epoch_file_is_made_again_from_the_batches() -> None:
    for damage in (b"", b"0\n1\n\xff\xff", b"0\n9\n4 0\n"):
        room = Room(overrides=SMALL)
        for number in range(20):
            room.append(b"x" * 50, epoch=4 + number // 8)
        before = room.log.epochs.entries
        room.log.close()
        path = f"{room.directory}/leader-epoch-checkpoint"
        room.files.remove(path)
        if damage:
            write_fully(room.files.open(path, create=True), damage, 0)
        assert room.open(is_clean=True).epochs.entries == before


# A recovery point ahead of the data (KAFKA-10101) -------------------------------------------


def test_a_recovery_point_beyond_the_log_is_clamped_to_its_end() -> None:
    room = Room(overrides=SMALL)
    room.fill(10)
    room.recovery_point = 999
    log = room.kill_and_open()
    assert log.recovery_point == log.log_end_offset == 10
    room.fill(2)
    assert len(room.read_all()) == 12


def test_recovery_cuts_at_the_first_bad_batch_and_rebuilds_what_follows_from_it() -> None:
    room = Room(overrides=SMALL | {"index.interval.bytes": "0"})
    for sequence in range(15):
        data = batch(b"x" * 100, producer=ProducerStamp(7, 0, sequence))
        room.log.append_as_leader(data, leader_epoch=sequence // 4)
    victim = room.log.segments.floor(8)
    assert victim is not None
    found = victim.locate(8)
    assert found is not None
    victim.batches.file.pwrite(b"\xff", found.position + 70)
    log = room.kill_and_open()
    assert [offset for offset, _ in room.read_all()] == list(range(8))
    assert log.epochs.entries == [(0, 0), (1, 4)]
    next_one = batch(b"y", producer=ProducerStamp(7, 0, 8))
    assert log.append_as_leader(next_one, leader_epoch=9).first_offset == 8


# Appending after a failed write or sync (KAFKA-10778) ---------------------------------------


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_the_first_failed_write_fences_the_log(error: int) -> None:
    room = Room()
    room.append(b"good")
    room.memory.fail("write", error=error, path_contains=".log")
    with pytest.raises(KafkaError) as caught:
        room.append(b"bad")
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
    assert [failure.errno for failure in room.failures] == [error]
    for use in (lambda: room.append(b"again"), lambda: room.read(0), room.log.flush):
        with pytest.raises(KafkaError, match="offline"):
            use()
    assert len(room.failures) == 1
    room.memory.heal()
    room.kill_and_open()
    assert room.read_all() == [(0, b"good")]


def test_a_short_write_fences_the_log_and_its_rest_is_cut_at_the_next_start() -> None:
    room = Room()
    room.append(b"good")
    room.memory.fail("write", path_contains=".log", short_by=5)
    with pytest.raises(KafkaError) as caught:
        room.append(b"bad")
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
    room.kill_and_open()
    assert room.read_all() == [(0, b"good")]
    assert room.append(b"next").first_offset == 1


def test_a_failed_sync_is_never_tried_again() -> None:
    room = Room()
    room.append(b"a")
    room.memory.fail("sync", path_contains=".log")
    flush = room.log.begin_flush()
    with pytest.raises(OSError, match="sync") as caught:
        flush.run()
    room.log.fail(caught.value)
    assert room.failures == [caught.value]
    with pytest.raises(KafkaError):
        room.log.begin_flush()
    room.log.finish_flush(flush)
    assert room.log.recovery_point == 0


def test_a_full_disk_met_by_an_index_fences_the_log_too() -> None:
    room = Room(overrides={"index.interval.bytes": "0"})
    room.memory.fail("reserve", error=errno.ENOSPC)
    room.append(b"a")
    with pytest.raises(KafkaError) as caught:
        room.append(b"b")
    assert caught.value.error is Errors.KAFKA_STORAGE_ERROR
