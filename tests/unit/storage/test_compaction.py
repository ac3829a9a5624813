"""Compaction of a log: what stays, what goes, and what survives a crash in between."""

import concurrent.futures
import errno

import pytest
from odradek.protocol.compression import Codec
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import Record, build_batch, check_crc, iter_headers
from odradek.storage.cleaning import swap_in
from odradek.storage.compaction import clean_segments
from odradek.storage.files import OsFiles, write_fully
from odradek.storage.key_offsets import KeyOffsets
from odradek.storage.producer_state import ProducerEntry

from tests.unit.storage.cleaning_room import CleaningRoom


@pytest.fixture
def room() -> CleaningRoom:
    return CleaningRoom()


def test_only_the_last_record_of_each_key_stays_at_its_offset(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    room.put((b"c", b"4"), (b"b", b"5"))
    room.roll_and_clean()
    assert room.records() == [(2, b"a", b"3"), (3, b"c", b"4"), (4, b"b", b"5")]
    assert room.cleaned_to == 5


def test_the_active_segment_is_left_alone_but_its_keys_do_not_count_either(
    room: CleaningRoom,
) -> None:
    room.put((b"a", b"1"))
    room.log.roll()
    room.put((b"a", b"2"), (b"a", b"3"))
    room.clean()
    assert room.records() == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"a", b"3")]
    assert room.cleaned_to == 1


def test_a_batch_keeps_its_offsets_producer_and_sequence(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), producer=7)
    room.put((b"b", b"4"))
    room.log.roll()
    before = room.headers()[0]
    room.clean()
    after = room.headers()[0]
    assert after.count == 1
    for name in ("base_offset", "last_offset", "producer_id", "base_sequence", "leader_epoch"):
        assert getattr(after, name) == getattr(before, name)


def test_a_batch_of_which_all_stays_is_copied_byte_for_byte(room: CleaningRoom) -> None:
    room.put((b"a", b"1"))
    room.put((b"b", b"2"), (b"c", b"3"), codec=Codec.ZSTD)
    room.put((b"a", b"4"))
    room.log.roll()
    kept = room.raw()[room.headers()[0].size_bytes :]
    room.clean()
    assert room.raw() == kept


def test_a_log_that_is_clean_is_not_written_again(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), (b"b", b"2"))
    room.log.roll()
    job = room.job()
    assert job is not None
    cleaned = clean_segments(job, room.files)
    assert cleaned.groups == ()
    assert not [name for name in room.names() if "cleaned" in name]


@pytest.mark.parametrize("codec", Codec)
def test_compressed_batches_are_rewritten_in_their_own_codec(
    room: CleaningRoom, codec: Codec
) -> None:
    room.put((b"a", b"1" * 50), (b"b", b"2" * 50), codec=codec)
    room.put((b"a", b"3"), codec=codec)
    room.roll_and_clean()
    assert room.records() == [(1, b"b", b"2" * 50), (2, b"a", b"3")]
    data = room.raw()
    for position, header in iter_headers(data):
        assert header.codec is codec
        check_crc(data, position, header)


def test_small_segments_are_joined_up_to_the_segment_size() -> None:
    room = CleaningRoom(overrides={"segment.bytes": "400"})
    for n in range(40):
        room.put((b"k%d" % (n % 4), b"v" * 20))
    room.roll_and_clean()  # makes them small
    room.put((b"k9", b"v"))
    room.roll_and_clean()
    sizes = [segment.size for segment in room.log.segments]
    assert len(sizes) <= 5  # of 11
    assert all(size <= 400 for size in sizes)
    assert [key for _, key, _ in room.records()] == [b"k0", b"k1", b"k2", b"k3", b"k9"]


def test_cleaned_segments_can_be_looked_up_by_offset_and_time() -> None:
    room = CleaningRoom(overrides={"segment.bytes": "2000", "index.interval.bytes": "50"})
    for n in range(60):
        room.put((b"k%d" % (n % 20), b"%d" % n))
        room.clock.advance(10)
    start = room.clock.now_ms()
    room.roll_and_clean()
    for offset in range(60):
        found = room.log.read(offset, 1)
        assert found.records is not None or offset >= 60
    hit = room.log.offset_for_timestamp(start - 100)
    assert hit is not None
    assert hit.offset == 50


# Tombstones ---------------------------------------------------------------------------------


def test_a_tombstone_stays_until_its_delete_horizon(room: CleaningRoom) -> None:
    """KIP-534."""
    room.put((b"a", b"1"))
    room.put((b"a", None))
    room.put((b"z", b"end"))
    room.roll_and_clean()
    assert room.records() == [(1, b"a", None), (2, b"z", b"end")]
    horizon = room.headers()[0].delete_horizon_ms
    assert horizon == room.clock.now_ms() + 1000
    room.clean()
    assert room.headers()[0].delete_horizon_ms == horizon
    room.wait_past_the_delete_horizon()
    room.put((b"y", b"more"))
    room.roll_and_clean()
    assert room.records() == [(2, b"z", b"end"), (3, b"y", b"more")]


def test_a_delete_horizon_leaves_the_timestamps_of_records_alone(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), (b"b", None))
    room.put((b"z", b"end"))
    before = room.log.latest_timestamp()
    room.roll_and_clean()
    assert room.headers()[0].delete_horizon_ms is not None
    assert room.headers()[0].max_timestamp == room.headers()[1].max_timestamp
    assert room.log.latest_timestamp() == before


def test_a_value_after_the_tombstone_wins(room: CleaningRoom) -> None:
    room.put((b"a", b"1"))
    room.put((b"a", None))
    room.put((b"a", b"2"))
    room.roll_and_clean()
    room.wait_past_the_delete_horizon()
    room.clean()
    assert room.records() == [(2, b"a", b"2")]


def test_a_tombstone_gets_its_horizon_only_once_its_key_is_cleaned(room: CleaningRoom) -> None:
    """When memory ends before it, older values are still there for it to hide."""
    room.put((b"a", b"1"))
    room.put((b"b", b"1"))
    room.put((b"a", None))
    room.log.roll()
    room.clean(map_bytes=1)
    assert room.cleaned_to == 1
    assert room.headers()[-1].delete_horizon_ms is None
    room.clean()
    assert room.headers()[-1].delete_horizon_ms is not None
    assert room.table() == {b"b": b"1"}


def test_records_without_a_key_go() -> None:
    """They were written before the topic became a compacted one."""
    room = CleaningRoom(overrides={"cleanup.policy": "delete"})
    keyless = bytearray(build_batch([Record(0, 5, None, b"no key")]))
    room.log.append_as_leader(keyless, leader_epoch=0)
    room.put((b"a", b"1"))
    room.roll_and_clean()
    assert room.records() == [(1, b"a", b"1")]


# Bounds -------------------------------------------------------------------------------------


def test_nothing_at_or_above_the_high_watermark_is_cleaned(room: CleaningRoom) -> None:
    """KAFKA-13194."""
    room.put((b"a", b"1"))
    room.log.roll()
    room.put((b"a", b"2"))
    room.log.roll()
    room.put((b"b", b"3"))
    room.log.update_high_watermark(1)
    room.clean()
    assert room.records()[0] == (0, b"a", b"1")
    room.replicate()
    room.clean()
    assert room.records() == [(1, b"a", b"2"), (2, b"b", b"3")]


def test_nothing_above_the_last_stable_offset_is_cleaned(room: CleaningRoom) -> None:
    """KAFKA-13194: the open transaction may yet be aborted."""
    room.put((b"a", b"1"))
    room.log.roll()
    room.put((b"a", b"2"), producer=7, in_transaction=True)
    room.log.roll()
    room.clean()
    assert room.records() == [(0, b"a", b"1"), (1, b"a", b"2")]
    room.end(7, commit=False)
    room.roll_and_clean()
    assert room.records() == [(0, b"a", b"1")]


def test_a_first_dirty_offset_within_a_batch_is_no_problem(room: CleaningRoom) -> None:
    """KAFKA-8764, KAFKA-9826."""
    room.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4"))
    room.put((b"b", b"5"))
    room.log.roll()
    room.cleaned_to = 2
    room.clean()
    assert room.records() == [(2, b"a", b"3"), (4, b"b", b"5")]


def test_gaps_left_by_earlier_cleanings_are_no_problem(room: CleaningRoom) -> None:
    """KAFKA-8764: the dirty offset may lie in a gap or beyond the last batch of a segment."""
    for n in range(6):
        room.put((b"a", b"%d" % n))
        room.log.roll()
    room.clean()
    room.cleaned_to = 3
    room.put((b"a", b"last"))
    room.roll_and_clean()
    assert room.records() == [(6, b"a", b"last")]
    assert room.log.log_end_offset == 7


def test_a_full_map_ends_the_cleaning_and_the_next_one_goes_on(room: CleaningRoom) -> None:
    for n in range(30):
        room.put((b"k%d" % (n % 10), b"%d" % n))
    room.log.roll()
    seen = []
    while room.cleaned_to != 30:
        room.clean(map_bytes=500)
        seen.append(room.cleaned_to)
    assert len(seen) > 3
    assert seen == sorted(set(seen))
    assert room.records() == [(n, b"k%d" % (n % 10), b"%d" % n) for n in range(20, 30)]


def test_a_batch_that_cannot_be_read_stops_the_cleaning_and_nothing_changes(
    room: CleaningRoom,
) -> None:
    room.put((b"a", b"1"))
    room.put((b"a", b"2"))
    room.log.roll()
    first = next(iter(room.log.segments))
    write_fully(room.files.open(first.batches.path), b"\xff", first.size - 1)
    damaged = room.raw()
    job = room.job()
    assert job is not None
    with pytest.raises(KafkaError) as caught:
        clean_segments(job, room.files)
    assert caught.value.error is Errors.CORRUPT_MESSAGE
    assert room.raw() == damaged


# Producers ----------------------------------------------------------------------------------


def test_the_last_batch_of_a_known_producer_stays_even_when_empty(room: CleaningRoom) -> None:
    """KAFKA-5490: its sequence must be found by a replica that rebuilds its state."""
    room.put((b"a", b"1"), (b"b", b"1"), producer=7)
    room.put((b"a", b"2"), (b"b", b"2"))
    room.roll_and_clean()
    emptied = room.headers()[0]
    assert (emptied.count, emptied.last_offset) == (0, 1)
    forget_snapshots(room)
    entry = known(room, 7)
    assert (entry.next_sequence, entry.batches[-1].last_offset) == (2, 1)


def test_a_producer_that_is_forgotten_leaves_nothing(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), producer=7)
    room.put((b"a", b"2"))
    room.log.producers.expire(room.clock.now_ms() + 10**9)
    room.roll_and_clean()
    assert [header.producer_id for header in room.headers()] == [-1]


def test_the_marker_with_a_producers_epoch_stays_when_it_has_no_data(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), producer=7, in_transaction=True)
    room.end_transaction(7, commit=False, epoch=1)
    room.put((b"a", b"2"))
    for _ in range(3):
        room.roll_and_clean()
        room.wait_past_the_delete_horizon()
        room.put((b"z", b"end"))
    forget_snapshots(room)
    assert known(room, 7).epoch == 1


def forget_snapshots(room: CleaningRoom) -> None:
    """Reopen so that producer state is rebuilt from the batches alone."""
    room.log.close()
    room.checkpoint()
    for name in room.names():
        if name.endswith(".snapshot"):
            room.files.remove(f"{room.directory}/{name}")
    room.open(is_clean=True)


def known(room: CleaningRoom, producer_id: int) -> ProducerEntry:
    entry = room.log.producers.get(producer_id)
    assert entry is not None
    return entry


def test_each_new_segment_still_ends_where_the_old_ones_did(room: CleaningRoom) -> None:
    """KAFKA-8335, KAFKA-17076: also when none of its records stays."""
    room.put((b"a", b"1"))
    room.put((b"a", b"2"))
    room.log.roll()
    room.put((b"a", b"3"))
    room.log.roll()
    room.clean()
    last = list(room.log.segments)[-2]
    assert last.next_offset() == 3
    room.put((b"a", b"4"))
    room.roll_and_clean()
    room.stop_and_open()
    assert room.log.log_end_offset == 4
    assert room.records() == [(3, b"a", b"4")]


# Transactions -------------------------------------------------------------------------------


def test_aborted_records_go_and_do_not_hide_earlier_values(room: CleaningRoom) -> None:
    room.put((b"a", b"1"))
    room.put((b"a", b"2"), producer=7, in_transaction=True)
    room.end(7, commit=False)
    room.put((b"z", b"end"))
    room.roll_and_clean()
    assert room.records() == [(0, b"a", b"1"), (3, b"z", b"end")]
    assert room.table() == {b"a": b"1", b"z": b"end"}


def test_committed_records_hide_earlier_values(room: CleaningRoom) -> None:
    room.put((b"a", b"1"))
    room.put((b"a", b"2"), producer=7, in_transaction=True)
    room.end(7, commit=True)
    room.roll_and_clean()
    assert room.records() == [(1, b"a", b"2")]


def test_a_marker_stays_while_its_transaction_has_data(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), producer=7, in_transaction=True)
    room.end(7, commit=True)
    for _ in range(3):
        room.roll_and_clean()
        room.wait_past_the_delete_horizon()
        room.put((b"z", b"end"))
    assert room.markers() == [1]
    assert room.headers()[1].delete_horizon_ms is None


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_goes_in_two_stages_after_its_data(room: CleaningRoom, commit: bool) -> None:
    """KIP-534: a pass drops the data, the next sets the horizon, one behind it drops the marker."""
    room.put((b"a", b"1"), producer=7, in_transaction=True)
    room.end(7, commit=commit)
    room.put((b"a", b"2"), producer=7)
    room.put((b"z", b"end"))
    room.roll_and_clean()
    assert (room.markers(), room.headers()[0].delete_horizon_ms) == ([1], None)
    room.clean()
    assert room.headers()[0].delete_horizon_ms == room.clock.now_ms() + 1000
    room.clean()
    assert room.markers() == [1]
    room.wait_past_the_delete_horizon()
    room.clean()
    assert room.markers() == []
    assert room.table() == {b"a": b"2", b"z": b"end"}


def test_markers_are_never_matched_by_key(room: CleaningRoom) -> None:
    """KAFKA-14055: a record may bear the very bytes of a marker's key."""
    commit_key = b"\0\0\0\1"
    room.put((commit_key, b"mine"))
    room.put((b"a", b"1"), producer=7, in_transaction=True)
    room.end(7, commit=True)
    room.put((commit_key, b"later"), producer=8, in_transaction=True)
    room.end(8, commit=True)
    room.put((b"z", b"end"))
    room.roll_and_clean()
    assert room.markers() == [2, 4]
    assert room.table() == {commit_key: b"later", b"a": b"1", b"z": b"end"}


def test_the_index_of_aborted_transactions_stays_complete(room: CleaningRoom) -> None:
    """KAFKA-13727: aborted data that memory did not reach is still there to be filtered."""
    room.put((b"a", b"1"), (b"a", b"2"))
    room.put((b"b", b"aborted"), producer=7, in_transaction=True)
    room.end(7, commit=False)
    room.put((b"z", b"end"))
    room.log.roll()
    room.clean(map_bytes=1)
    assert room.cleaned_to == 2
    assert (2, b"b", b"aborted") in room.records()
    assert room.committed() == [(1, b"a", b"2"), (4, b"z", b"end")]
    room.clean()
    assert room.committed() == room.records() == [(1, b"a", b"2"), (4, b"z", b"end")]


def test_an_abort_whose_marker_lies_in_a_later_segment_is_known(room: CleaningRoom) -> None:
    """KAFKA-13727: also when that segment is cleaned later, or is the active one."""
    room.put((b"a", b"1"), producer=7, in_transaction=True)
    room.log.roll()
    room.put((b"b", b"1"), producer=7, in_transaction=True)
    room.put((b"c", b"1"), producer=8, in_transaction=True)
    room.log.roll()
    room.end(7, commit=False)
    room.end(8, commit=True)
    expected = room.committed()
    for _ in range(4):
        room.clean(map_bytes=1)
        assert room.committed() == expected == [(2, b"c", b"1")]
    assert room.records() == expected


def test_a_producer_may_abort_and_commit_in_turn(room: CleaningRoom) -> None:
    for n, commit in enumerate((False, True, False, True, False)):
        room.put((b"a", b"%d" % n), (b"k%d" % n, b"x"), producer=7, in_transaction=True)
        room.end(7, commit=commit)
    room.put((b"z", b"end"))
    before = room.table()
    for _ in range(4):
        room.roll_and_clean()
        assert room.table() == before
        room.wait_past_the_delete_horizon()
        room.put((b"z", b"end"))
    assert before[b"a"] == b"3"
    assert set(before) == {b"a", b"k1", b"k3", b"z"}


# While the log lives on, and crashes ----------------------------------------------------------


def test_appends_during_a_cleaning_do_not_disturb_it(room: CleaningRoom) -> None:
    room.put((b"a", b"1"))
    room.put((b"a", b"2"))
    room.log.roll()
    job = room.job()
    assert job is not None
    cleaned = clean_segments(job, room.files)
    room.put((b"a", b"3"))
    room.log.roll()
    room.put((b"a", b"4"))
    assert swap_in(room.log, job, cleaned, files=room.files) == 2
    assert room.records() == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]


def test_segments_deleted_during_a_cleaning_stay_deleted(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), (b"a", b"2"))
    room.log.roll()
    room.put((b"b", b"3"))
    job = room.job()
    assert job is not None
    cleaned = clean_segments(job, room.files)
    room.log.advance_log_start(2)
    room.log.apply_retention()
    assert swap_in(room.log, job, cleaned, files=room.files) == 2
    assert room.records() == [(2, b"b", b"3")]
    assert not [name for name in room.names() if "cleaned" in name]


def test_a_part_that_lost_segments_meanwhile_is_cleaned_again_later(room: CleaningRoom) -> None:
    room.put((b"a", b"1"), (b"a", b"2"))
    room.log.roll()
    room.put((b"a", b"3"), (b"a", b"4"))
    room.log.roll()
    job = room.job()
    assert job is not None
    cleaned = clean_segments(job, room.files)
    room.log.advance_log_start(2)
    room.log.apply_retention()
    assert swap_in(room.log, job, cleaned, files=room.files) == 0
    assert room.records() == [(2, b"a", b"3"), (3, b"a", b"4")]


def filled_for_a_swap() -> CleaningRoom:
    room = CleaningRoom(overrides={"segment.bytes": "300"})
    for n in range(20):
        room.put((b"k%d" % (n % 3), b"%d" % n))
    room.put((b"k0", None), (b"gone", None))
    room.put((b"a", b"1"), producer=7, in_transaction=True)
    room.end(7, commit=False)
    room.log.roll()
    room.log.flush()
    room.checkpoint()
    return room


@pytest.mark.parametrize("operation", ["replace", "write", "sync", "sync_dir", "open", "truncate"])
@pytest.mark.parametrize("is_power_cut", [False, True])
def test_a_crash_at_any_point_of_a_cleaning_loses_nothing(
    operation: str, is_power_cut: bool
) -> None:
    """KAFKA-12520: the n-th call fails and the process dies there; the log means the same."""
    expected = filled_for_a_swap().table()
    end = filled_for_a_swap().log.log_end_offset
    for nth in range(1, 200):
        room = filled_for_a_swap()
        room.memory.fail(operation, on_call=nth, error=errno.EIO)
        try:
            room.clean()
            is_over = True
        except (OSError, KafkaError):
            is_over = False
        room.memory.heal()
        if is_power_cut:
            room.cut_power_and_open()
        else:
            room.kill_and_open()
        room.replicate()
        assert room.table() == expected, f"{operation} number {nth}"
        assert room.log.log_end_offset == end
        assert not [name for name in room.names() if name.endswith((".cleaned", ".swap"))]
        room.cleaned_to = None
        room.clean()
        assert room.table() == expected
        if is_over:
            return
    pytest.fail("the cleaning never came to its end")


def test_a_cleaning_runs_in_another_process(tmp_path: object) -> None:
    room = CleaningRoom(files=OsFiles(), directory=f"{tmp_path}/orders-0")
    for n in range(50):
        room.put((b"k%d" % (n % 5), b"%d" % n))
    room.log.roll()
    job = room.job()
    assert job is not None
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        cleaned = pool.submit(clean_segments, job).result(timeout=60)
    assert swap_in(room.log, job, cleaned, files=room.files) == 50
    assert [offset for offset, _, _ in room.records()] == [45, 46, 47, 48, 49]
    room.stop_and_open()
    assert [offset for offset, _, _ in room.records()] == [45, 46, 47, 48, 49]


# The map --------------------------------------------------------------------------------------


def test_keys_of_any_length_are_told_apart() -> None:
    keys = KeyOffsets(1 << 20)
    names = [b"x" * length for length in range(100)] + [b"x" * 99 + b"y", b""]
    for offset, name in enumerate(names):
        keys.put(name, offset)
    assert len(keys) == 101
    assert keys.last(b"x" * 99) == 99
    assert keys.last(b"x" * 99 + b"y") == 100
    assert keys.last(b"") == 101
    assert keys.last(b"unknown") == -1


def test_the_map_is_full_when_its_memory_is_used() -> None:
    keys = KeyOffsets(1000)
    for number in range(5):
        assert not keys.is_full
        keys.put(b"%040d" % number, number)
        keys.put(b"%040d" % number, number)
    keys.put(b"%040d" % 6, 6)
    assert keys.is_full
