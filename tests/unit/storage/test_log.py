"""One log: appending, rolling, reading, cutting, retention, flushing."""

from pathlib import Path

import pytest
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import ProducerStamp, iter_headers
from odradek.storage.files import OsFiles
from odradek.storage.follower_batches import UnexpectedOffset
from odradek.storage.log_reading import Isolation

from tests.unit.storage.log_room import START_MS, Room, batch, replicated, values_in

SMALL = {"segment.bytes": "1000"}
HOUR_MS = 3_600_000


def error_of(caught: pytest.ExceptionInfo[KafkaError]) -> Errors:
    return caught.value.error


# Append -------------------------------------------------------------------------------------


def test_records_get_consecutive_offsets_and_are_read_back() -> None:
    room = Room()
    info = room.append(b"a", b"b")
    assert (info.first_offset, info.last_offset, info.log_start_offset) == (0, 1, 0)
    assert room.append(b"c").first_offset == 2
    assert room.read_all() == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert room.log.log_end_offset == 3


def test_the_leader_epoch_is_written_into_the_batch_and_the_history() -> None:
    room = Room()
    room.append(b"a", epoch=4)
    room.append(b"b", epoch=6)
    assert [h.leader_epoch for _, h in iter_headers(room.read(0))] == [4, 6]
    assert room.log.end_offset_for_epoch(4) == (4, 1)
    assert room.log.end_offset_for_epoch(5) == (4, 1)
    assert room.log.end_offset_for_epoch(6) == (6, 2)


def test_a_repeated_batch_of_a_producer_is_not_appended_again() -> None:
    room = Room()
    stamp = ProducerStamp(7, 0, 0)
    room.append(b"before")
    first = room.log.append_as_leader(batch(b"x", b"y", producer=stamp), leader_epoch=0)
    again = room.log.append_as_leader(batch(b"x", b"y", producer=stamp), leader_epoch=0)
    assert not first.is_duplicate
    assert again.is_duplicate
    assert (again.first_offset, again.last_offset) == (1, 2)
    assert room.log.log_end_offset == 3


def test_a_batch_out_of_sequence_is_refused() -> None:
    room = Room()
    room.log.append_as_leader(batch(b"x", producer=ProducerStamp(7, 0, 0)), leader_epoch=0)
    with pytest.raises(KafkaError) as caught:
        room.log.append_as_leader(batch(b"z", producer=ProducerStamp(7, 0, 5)), leader_epoch=0)
    assert error_of(caught) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert room.log.log_end_offset == 1


def test_a_snapshot_of_producers_reaches_the_log_end_though_others_wrote_last() -> None:
    room = Room()
    room.log.append_as_leader(batch(b"x", producer=ProducerStamp(7, 0, 0)), leader_epoch=0)
    for _ in range(4):  # the first of an epoch and of a segment take the long way
        room.append(b"by nobody")
    room.log.roll()
    assert room.log.producers.snapshots.offsets == [5]


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_producers_are_known_after_a_cut_among_the_batches_of_others(cut: int) -> None:
    room = Room()
    stamp = ProducerStamp(7, 0, 0)
    room.log.append_as_leader(batch(b"x", producer=stamp), leader_epoch=0)
    for _ in range(4):
        room.append(b"by nobody")
    room.log.truncate_to(cut)
    room.append(b"instead")
    again = room.log.append_as_leader(batch(b"x", producer=stamp), leader_epoch=0)
    assert (again.is_duplicate, again.first_offset) == (True, 0)
    assert room.log.log_end_offset == cut + 1


def test_append_time_is_the_brokers_and_is_returned() -> None:
    room = Room(overrides={"message.timestamp.type": "LogAppendTime"})
    room.clock.advance(5000)
    assert room.append(b"a").log_append_time_ms == START_MS + 5000
    assert Room().append(b"a").log_append_time_ms == -1


def test_a_follower_keeps_offsets_and_epochs_even_with_gaps() -> None:
    room = Room(overrides={"max.message.bytes": "10"})
    data = replicated(b"a", b"b", offset=0, epoch=2) + replicated(b"c", offset=9, epoch=3)
    info = room.log.append_as_follower(data)
    assert info is not None
    assert (info.first_offset, info.last_offset) == (0, 9)
    assert room.read_all() == [(0, b"a"), (1, b"b"), (9, b"c")]
    assert room.log.end_offset_for_epoch(2) == (2, 9)


def test_a_follower_ignores_a_cut_off_last_batch() -> None:
    room = Room()
    data = replicated(b"a", offset=0) + replicated(b"b", offset=1)
    room.log.append_as_follower(data[:-3])
    assert room.read_all() == [(0, b"a")]
    assert room.log.append_as_follower(b"") is None


def test_a_follower_refuses_what_does_not_continue_its_log() -> None:
    room = Room()
    room.log.append_as_follower(replicated(b"a", b"b", offset=0))
    with pytest.raises(UnexpectedOffset):
        room.log.append_as_follower(replicated(b"x", offset=1))
    broken = bytearray(replicated(b"c", offset=2))
    broken[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        room.log.append_as_follower(broken)
    assert error_of(caught) is Errors.CORRUPT_MESSAGE
    assert room.log.log_end_offset == 2


# Rolling ------------------------------------------------------------------------------------


def base_offsets(room: Room) -> list[int]:
    return [segment.base_offset for segment in room.log.segments]


def test_a_segment_is_rolled_before_it_grows_too_large() -> None:
    room = Room(overrides=SMALL)
    room.fill(20)
    assert all(segment.size <= 1000 for segment in room.log.segments)
    assert len(room.log.segments) > 2
    assert [offset for offset, _ in room.read_all()] == list(range(20))


def test_a_segment_is_rolled_when_its_records_are_too_old() -> None:
    room = Room(overrides={"segment.ms": "1000"})
    room.append(b"a", timestamp=START_MS)
    room.append(b"b", timestamp=START_MS + 1000)
    assert base_offsets(room) == [0]
    room.append(b"c", timestamp=START_MS + 1001)
    assert base_offsets(room) == [0, 2]


def test_jitter_shortens_the_time_to_the_next_roll() -> None:
    room = Room(overrides={"segment.ms": "1000", "segment.jitter.ms": "900"})
    jitter_ms = room.log.segments.active.roll_jitter_ms
    assert 0 < jitter_ms <= 900
    room.append(b"a", timestamp=START_MS)
    room.append(b"b", timestamp=START_MS + 1001 - jitter_ms)
    assert base_offsets(room) == [0, 1]


def test_a_segment_without_timestamps_ages_by_the_clock() -> None:
    room = Room(overrides={"segment.ms": "1000"})
    room.append(b"a", timestamp=-1)
    room.clock.advance(1001)
    room.append(b"b", timestamp=-1)
    assert base_offsets(room) == [0, 1]


def test_a_full_index_rolls_the_segment() -> None:
    room = Room(overrides={"segment.index.bytes": "24", "index.interval.bytes": "0"})
    for number in range(8):
        room.append(b"x", timestamp=START_MS + number)
    assert len(room.log.segments) > 2
    assert len(room.read_all()) == 8


def test_a_followers_append_may_hold_more_batches_than_its_index_has_room_for() -> None:
    room = Room(overrides={"segment.index.bytes": "24", "index.interval.bytes": "0"})
    room.log.append_as_follower(b"".join(replicated(b"x", offset=n) for n in range(20)))
    assert len(room.log.segments) == 1
    room.append(b"next")
    assert base_offsets(room) == [0, 20]
    assert [offset for offset, _ in room.read_all()] == list(range(21))
    assert [room.read(offset, 1)[7] for offset in range(21)] == list(range(21))


def test_an_offset_too_far_from_the_base_rolls_the_segment() -> None:
    room = Room()
    far = (1 << 31) + 10
    room.log.append_as_follower(replicated(b"a", offset=0))
    room.log.append_as_follower(replicated(b"b", offset=far))
    assert base_offsets(room) == [0, far]
    assert room.read_all() == [(0, b"a"), (far, b"b")]


def test_an_empty_segment_is_given_up_when_its_first_offset_is_too_far() -> None:
    room = Room()
    far = (1 << 31) + 10
    room.log.append_as_follower(replicated(b"b", offset=far))
    assert base_offsets(room) == [far]
    assert room.kill_and_open().log_end_offset == far + 1


def test_inactive_index_files_are_trimmed_and_the_active_ones_preallocated(tmp_path: Path) -> None:
    room = Room(OsFiles(), f"{tmp_path}/orders-0", SMALL | {"index.interval.bytes": "0"})
    room.fill(12)
    sizes = {e.name: e.size for e in room.files.scan(room.directory) if "index" in e.name}
    active = f"{room.log.segments.active.base_offset:020d}"
    for name, size in sizes.items():
        whole = 10485756 if name.endswith("timeindex") else 10485760
        assert (size == whole) == name.startswith(active)


def test_a_preallocated_segment_is_cut_to_what_was_written() -> None:
    room = Room(overrides=SMALL | {"preallocate": "true"})
    room.append(b"a")
    path = room.log.segments.active.batches.path
    assert room.files.open(path).size() == 1000
    room.stop_and_open()
    assert room.files.open(path).size() == room.log.segments.active.size
    assert room.read_all() == [(0, b"a")]


# Reading ------------------------------------------------------------------------------------


def test_a_read_starts_with_the_batch_that_contains_the_offset() -> None:
    room = Room()
    room.append(b"a", b"b", b"c")
    room.append(b"d")
    assert values_in(room.read(1))[0] == (0, b"a")
    assert values_in(room.read(3)) == [(3, b"d")]


def test_a_read_returns_whole_batches_within_its_limit() -> None:
    room = Room(overrides={"index.interval.bytes": "150"})
    room.fill(50)
    size = len(room.read(0, 1))
    for wanted in (1, 2, 5, 17):
        data = room.read(3, size * wanted + size // 2)
        assert [offset for offset, _ in values_in(data)] == list(range(3, 3 + wanted))


def test_the_first_batch_comes_whole_even_above_the_limit_unless_not_wanted() -> None:
    room = Room()
    room.fill(2, size=5000)
    assert len(values_in(room.read(0, 100))) == 1
    assert room.read(0, 100, min_one_batch=False) == b""


def test_a_read_at_the_end_is_empty_and_beyond_it_an_error() -> None:
    room = Room()
    room.fill(3)
    assert room.log.read(3, 1000).records is None
    with pytest.raises(KafkaError) as caught:
        room.log.read(4, 1000)
    assert error_of(caught) is Errors.OFFSET_OUT_OF_RANGE


def test_a_read_after_a_gap_finds_the_next_batch_in_a_later_segment() -> None:
    room = Room(overrides=SMALL)
    room.log.append_as_follower(replicated(b"a" * 900, offset=0))
    room.log.append_as_follower(replicated(b"b" * 900, offset=50))
    assert [offset for offset, _ in values_in(room.read(20))] == [50]


def test_read_committed_stops_at_open_transactions_and_lists_aborted_ones() -> None:
    room = Room(overrides=SMALL)
    log = room.log
    room.append(b"plain")
    stamp = ProducerStamp(9, 0, 0, is_transactional=True)
    log.append_as_leader(batch(b"aborted", producer=stamp), leader_epoch=0)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 1
    result = log.read(0, 1000, isolation=Isolation.LAST_STABLE)
    assert result.records is not None
    assert values_in(result.records.read()) == [(0, b"plain")]
    assert result.aborted == []
    room.end_transaction(9, commit=False)
    assert log.last_stable_offset == 1  # the marker is not below the high watermark yet
    log.update_high_watermark(3)
    assert log.last_stable_offset == 3
    result = log.read(1, 1000, isolation=Isolation.LAST_STABLE)
    assert [(t.producer_id, t.first_offset) for t in result.aborted or []] == [(9, 1)]
    assert log.read(0, 1000).aborted is None


def test_offsets_are_found_by_timestamp_across_segments() -> None:
    room = Room(overrides=SMALL | {"index.interval.bytes": "100"})
    for number in range(40):
        room.append(b"x" * 50, b"y" * 50, timestamp=START_MS + number * 10)
    for wanted, offset in [(0, 0), (10, 2), (11, 3), (12, 4), (385, 78), (391, 79)]:
        found = room.log.offset_for_timestamp(START_MS + wanted)
        assert found is not None
        assert found.offset == offset
    assert room.log.offset_for_timestamp(START_MS + 392) is None


def test_the_largest_timestamp_is_found_even_in_an_older_segment() -> None:
    room = Room(overrides=SMALL)
    room.append(b"x", b"y", timestamp=START_MS + 99_000)
    room.fill(20)
    found = room.log.latest_timestamp()
    assert found is not None
    assert (found.timestamp, found.offset) == (START_MS + 99_001, 1)
    assert Room().log.latest_timestamp() is None


def test_timestamp_lookup_respects_the_log_start() -> None:
    room = Room()
    room.append(b"a", b"b", b"c", timestamp=START_MS)
    room.log.update_high_watermark(3)
    room.log.advance_log_start(2)
    found = room.log.offset_for_timestamp(START_MS)
    assert found is not None
    assert found.offset == 2


# Cutting ------------------------------------------------------------------------------------


def test_truncating_drops_batches_segments_and_epochs() -> None:
    room = Room(overrides=SMALL)
    for number in range(20):
        room.append(b"%d" % number * 50, epoch=number // 5)
    room.log.update_high_watermark(20)
    before = room.read_all()
    room.log.truncate_to(7)
    assert room.log.log_end_offset == room.log.high_watermark == 7
    assert room.read_all() == before[:7]
    assert room.log.epochs.latest_epoch == 1
    room.append(b"new", epoch=9)
    assert room.read_all() == [*before[:7], (7, b"new")]


def test_truncating_inside_a_batch_drops_all_of_it() -> None:
    room = Room()
    room.append(b"a")
    room.append(b"b", b"c", b"d")
    room.log.truncate_to(2)
    assert room.log.log_end_offset == 1
    assert room.read_all() == [(0, b"a")]


def test_truncating_forgets_producers_that_wrote_above() -> None:
    room = Room()
    for sequence in range(4):
        stamp = ProducerStamp(7, 0, sequence)
        room.log.append_as_leader(batch(b"x", producer=stamp), leader_epoch=0)
    room.log.truncate_to(2)
    room.log.append_as_leader(batch(b"y", producer=ProducerStamp(7, 0, 2)), leader_epoch=0)
    assert room.read_all() == [(0, b"x"), (1, b"x"), (2, b"y")]


def test_discarded_segments_are_renamed_at_once_and_removed_after_their_delay() -> None:
    room = Room(overrides=SMALL)
    room.fill(20)
    piece = room.log.read(15, 1000).records
    assert piece is not None
    room.log.truncate_to(2)
    assert any(name.endswith(".log.deleted") for name in room.names())
    segments = room.log.segments
    assert segments.take_removals(room.clock.monotonic()) == []
    room.clock.advance(60_000)
    segments.remove_files(segments.take_removals(room.clock.monotonic()))
    assert not any(name.endswith(".deleted") for name in room.names())
    assert values_in(piece.read())[0][0] == 15


def test_records_below_the_log_start_are_gone_for_readers() -> None:
    room = Room(overrides=SMALL)
    room.fill(20)
    room.log.advance_log_start(13)
    with pytest.raises(KafkaError) as caught:
        room.log.read(12, 1000)
    assert error_of(caught) is Errors.OFFSET_OUT_OF_RANGE
    assert room.read_all()[0][0] == 13
    room.log.apply_retention()
    assert room.log.segments.first.base_offset <= 13 < base_offsets(room)[1]


def test_deleting_records_above_the_high_watermark_is_refused() -> None:
    room = Room()
    room.append(b"a", b"b")
    room.log.update_high_watermark(1)
    with pytest.raises(KafkaError) as caught:
        room.log.advance_log_start(2)
    assert error_of(caught) is Errors.OFFSET_OUT_OF_RANGE


def test_old_segments_are_deleted_by_time_and_the_last_one_is_rolled_first() -> None:
    room = Room(overrides=SMALL | {"retention.ms": str(HOUR_MS)})
    room.fill(12)
    room.clock.advance(HOUR_MS + 60_000)
    room.log.apply_retention()
    assert room.log.log_start_offset == 12
    assert room.read_all() == []
    assert base_offsets(room) == [12]
    room.append(b"next")
    assert room.read_all() == [(12, b"next")]


def test_the_log_is_kept_to_its_size() -> None:
    room = Room(overrides=SMALL | {"retention.bytes": "2500"})
    room.fill(40)
    room.log.apply_retention()
    assert 2500 <= room.log.size_bytes < 3500
    snapshots = [name for name in room.names() if name.endswith(".snapshot")]
    assert all(int(name[:20]) >= base_offsets(room)[0] for name in snapshots)


# Flushing and stopping ----------------------------------------------------------------------


def test_a_flush_publishes_what_was_there_when_it_began() -> None:
    room = Room(overrides=SMALL)
    room.fill(9)
    flush = room.log.begin_flush()
    room.fill(9)  # appended, and rolled, while the flush runs elsewhere
    flush.run()
    room.log.finish_flush(flush)
    assert room.log.recovery_point == 9
    room.checkpoint()
    room.cut_power_and_open()
    assert [offset for offset, _ in room.read_all()][:9] == list(range(9))


def test_a_flush_that_a_truncation_overtook_proves_nothing() -> None:
    room = Room()
    room.fill(9)
    flush = room.log.begin_flush()
    room.log.truncate_to(3)
    room.fill(9)
    flush.run()
    room.log.finish_flush(flush)
    assert room.log.recovery_point == 0


def test_a_flush_is_due_by_count_by_time_and_after_a_roll() -> None:
    room = Room(overrides={"flush.messages": "3", "flush.ms": "1000"})
    assert not room.log.is_flush_due(START_MS + 5000)
    room.fill(2)
    assert not room.log.is_flush_due(START_MS)
    assert room.log.is_flush_due(START_MS + 1000)
    room.fill(1)
    assert room.log.is_flush_due(START_MS)
    room.log.flush()
    assert not room.log.is_flush_due(START_MS)
    room = Room(overrides=SMALL)
    room.fill(12)
    assert room.log.is_flush_due(START_MS)


def test_a_clean_restart_changes_nothing() -> None:
    room = Room(overrides=SMALL | {"index.interval.bytes": "200"})
    room.fill(25)
    stamp = ProducerStamp(7, 0, 0)
    room.log.append_as_leader(batch(b"idempotent", producer=stamp), leader_epoch=3)
    before = room.read_all()
    log = room.stop_and_open()
    assert room.read_all() == before
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 26, 26)
    assert log.epochs.latest_epoch == 3
    again = log.append_as_leader(batch(b"idempotent", producer=stamp), leader_epoch=3)
    assert again.is_duplicate
    assert log.offset_for_timestamp(START_MS) is not None


def test_opening_after_a_clean_stop_opens_no_inactive_file(tmp_path: Path) -> None:
    room = Room(OsFiles(), f"{tmp_path}/orders-0", SMALL)
    room.fill(25)
    room.stop_and_open()
    open_files = [p.resolve().as_posix() for p in Path("/proc/self/fd").iterdir()]
    assert not [path for path in open_files if path.startswith(str(tmp_path))]
    room.fill(1)
    assert len(room.read_all()) == 26
