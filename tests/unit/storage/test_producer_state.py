"""Producer state: sequences, epochs, transactions, expiry and snapshots."""

import pytest
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    EndTxnMarker,
    Record,
    build_batch,
    end_txn_marker,
    read_header,
)
from odradek.storage.aborted import AbortedTxn
from odradek.storage.files import write_fully
from odradek.storage.memory_files import MemoryFiles
from odradek.storage.producer_snapshots import SnapshotEntry, decode, encode
from odradek.storage.producer_state import BatchMetadata, ProducerStates

DAY = 86_400_000
COMMIT = EndTxnMarker(True, coordinator_epoch=3)
ABORT = EndTxnMarker(False, coordinator_epoch=3)
LAST_SEQUENCE = 2**31 - 1


def batch(
    offset: int,
    sequence: int,
    count: int = 1,
    *,
    producer: int = 7,
    epoch: int = 0,
    attributes: int = 0,
    timestamp: int = 1000,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        count=count,
    )


def in_txn(offset: int, sequence: int, count: int = 1, *, producer: int = 7) -> BatchHeader:
    return batch(offset, sequence, count, producer=producer, attributes=TRANSACTIONAL_BIT)


def marker(offset: int, *, producer: int = 7, epoch: int = 0, timestamp: int = 1000) -> BatchHeader:
    bits = TRANSACTIONAL_BIT | CONTROL_BIT
    return batch(offset, -1, producer=producer, epoch=epoch, attributes=bits, timestamp=timestamp)


@pytest.fixture
def files() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_dir("/log")
    disk.sync_dir("/")
    return disk


def fresh(files: MemoryFiles) -> ProducerStates:
    return ProducerStates("/log", files=files, expiration_ms=DAY)


@pytest.fixture
def states(files: MemoryFiles) -> ProducerStates:
    return fresh(files)


def refusal(states: ProducerStates, header: BatchHeader) -> Errors:
    with pytest.raises(KafkaError) as caught:
        states.check(header)
    return caught.value.error


def write(states: ProducerStates, *headers: BatchHeader) -> None:
    for header in headers:
        assert states.check(header) is None
        states.update(header)


# Sequences ----------------------------------------------------------------------------------


def test_batches_in_sequence_are_accepted(states: ProducerStates) -> None:
    write(states, batch(0, 0, 5), batch(5, 5, 3), batch(8, 8))
    assert states.map_end_offset == 9


def test_a_gap_in_the_sequence_is_refused(states: ProducerStates) -> None:
    write(states, batch(0, 0, 5))
    assert refusal(states, batch(5, 6)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_without_producer_id_need_no_sequence(states: ProducerStates) -> None:
    write(states, batch(0, -1, producer=-1), batch(1, -1, producer=-1))
    assert (len(states), states.map_end_offset) == (0, 2)


@pytest.mark.parametrize("number", range(5))
def test_a_repeat_of_any_of_the_last_five_batches_gets_its_first_place(
    states: ProducerStates, number: int
) -> None:
    write(states, *[batch(100 + 2 * n, 2 * n, 2, timestamp=50 + n) for n in range(5)])
    repeated = states.check(batch(999, 2 * number, 2))
    assert repeated is not None
    assert (repeated.base_offset, repeated.last_offset) == (100 + 2 * number, 101 + 2 * number)
    assert repeated.timestamp == 50 + number


def test_a_repeat_of_an_older_batch_is_out_of_order(states: ProducerStates) -> None:
    write(states, *[batch(n, n) for n in range(6)])
    assert refusal(states, batch(99, 0)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeat_within_its_transaction_gets_its_first_place(states: ProducerStates) -> None:
    write(states, in_txn(0, 0, 2))
    states.update_marker(marker(2), COMMIT)
    write(states, in_txn(3, 2, 2), in_txn(5, 4))
    for offset, sequence, count in ((3, 2, 2), (5, 4, 1)):
        repeated = states.check(in_txn(999, sequence, count))
        assert repeated is not None
        assert repeated.base_offset == offset


@pytest.mark.parametrize("end", [COMMIT, ABORT])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_sequence_of_an_ended_transaction_is_no_repeat(
    states: ProducerStates, end: EndTxnMarker, goes_on: bool
) -> None:
    """A client that gave a batch up when it aborted may use its sequence again."""
    write(states, in_txn(0, 0, 2))
    states.update_marker(marker(2), end)
    if goes_on:
        write(states, in_txn(3, 2, 2))
    assert refusal(states, in_txn(999, 0, 2)) is Errors.UNKNOWN_PRODUCER_ID


def test_a_repeat_must_have_the_same_first_and_last_sequence(states: ProducerStates) -> None:
    write(states, batch(0, 0, 4))
    assert refusal(states, batch(4, 0, 3)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(states, batch(4, 1, 3)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_sequence_wraps_to_zero_after_its_largest_value(states: ProducerStates) -> None:
    write(states, batch(0, LAST_SEQUENCE), batch(1, 0), batch(2, 1))


def test_a_batch_may_straddle_the_wrap_and_be_repeated(states: ProducerStates) -> None:
    straddling = batch(0, LAST_SEQUENCE - 1, 4)
    write(states, straddling, batch(4, 2))
    assert states.check(straddling) == BatchMetadata(1, 3, 3, 1000)


def test_an_unknown_producer_may_start_anywhere(states: ProducerStates) -> None:
    write(states, batch(0, 4711), batch(1, 4712))


# Epochs -------------------------------------------------------------------------------------


def test_a_new_epoch_starts_at_sequence_zero(states: ProducerStates) -> None:
    write(states, batch(0, 0, 5))
    assert refusal(states, batch(5, 5, epoch=1)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(states, batch(5, 0, 2, epoch=1), batch(7, 2, epoch=1))


def test_an_older_epoch_is_fenced(states: ProducerStates) -> None:
    write(states, batch(0, 0, epoch=2))
    assert refusal(states, batch(1, 1, epoch=1)) is Errors.INVALID_PRODUCER_EPOCH
    assert refusal(states, batch(1, 0, epoch=1)) is Errors.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_forgets_the_batches_of_the_old_one(states: ProducerStates) -> None:
    write(states, batch(0, 0), batch(1, 0, epoch=1))
    assert states.check(batch(2, 0, epoch=1)) == BatchMetadata(0, 1, 0, 1000)


def test_a_marker_of_a_new_epoch_fences_the_old_one(states: ProducerStates) -> None:
    write(states, in_txn(0, 0))
    states.update_marker(marker(1, epoch=1), ABORT)
    assert refusal(states, in_txn(2, 1)) is Errors.INVALID_PRODUCER_EPOCH
    assert refusal(states, batch(2, 1, epoch=1)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(states, batch(2, 0, epoch=1))


def test_a_follower_takes_whatever_its_leader_wrote(states: ProducerStates) -> None:
    for header in (batch(0, 0, epoch=2), batch(1, 9, epoch=1), batch(2, 50, epoch=1)):
        states.update(header)
    assert states.check(batch(3, 51, epoch=1)) is None


def test_coordinator_data_has_no_sequence_but_is_fenced(states: ProducerStates) -> None:
    header = batch(0, -1, epoch=1, attributes=TRANSACTIONAL_BIT)
    states.check_internal(header)
    states.update(header)
    states.check_internal(batch(1, -1, epoch=1, attributes=TRANSACTIONAL_BIT))
    with pytest.raises(KafkaError) as caught:
        states.check_internal(batch(1, -1, epoch=0, attributes=TRANSACTIONAL_BIT))
    assert caught.value.error is Errors.INVALID_PRODUCER_EPOCH


# Transactions -------------------------------------------------------------------------------


def test_a_plain_batch_inside_a_transaction_is_refused(states: ProducerStates) -> None:
    write(states, in_txn(0, 0))
    assert refusal(states, batch(1, 1)) is Errors.INVALID_TXN_STATE


def test_the_verification_hook_tells_whether_a_transaction_is_open(states: ProducerStates) -> None:
    assert not states.has_open_transaction(7, 0)
    write(states, in_txn(0, 0))
    assert states.has_open_transaction(7, 0)
    assert not states.has_open_transaction(7, 1)
    states.update_marker(marker(1), COMMIT)
    assert not states.has_open_transaction(7, 0)


def test_an_open_transaction_holds_the_last_stable_offset_back(states: ProducerStates) -> None:
    write(states, batch(0, -1, producer=-1), in_txn(1, 0), in_txn(2, 1))
    assert states.last_stable_offset(3) == 1
    assert states.last_stable_offset(1) == 1
    assert states.last_stable_offset(0) == 0


def test_the_last_stable_offset_moves_when_the_marker_is_replicated(
    states: ProducerStates,
) -> None:
    write(states, in_txn(0, 0))
    states.update_marker(marker(1), COMMIT)
    assert states.first_undecided_offset is None
    assert states.last_stable_offset(1) == 0
    assert states.first_unstable_offset == 0
    assert states.last_stable_offset(2) == 2
    assert states.first_unstable_offset is None


def test_the_earliest_of_several_transactions_counts(states: ProducerStates) -> None:
    write(states, in_txn(0, 0, producer=1), in_txn(1, 0, producer=2), in_txn(2, 0, producer=3))
    states.update_marker(marker(3, producer=2), COMMIT)
    assert states.last_stable_offset(4) == 0
    states.update_marker(marker(4, producer=1), COMMIT)
    assert states.last_stable_offset(4) == 0
    assert states.last_stable_offset(5) == 2
    states.update_marker(marker(5, producer=3), COMMIT)
    assert states.last_stable_offset(6) == 6


def test_an_abort_is_noted_with_the_offset_that_is_stable_after_it(states: ProducerStates) -> None:
    write(states, in_txn(0, 0, producer=1), in_txn(1, 0, producer=2))
    assert states.update_marker(marker(2, producer=2), ABORT) == AbortedTxn(2, 1, 2, 0)
    assert states.update_marker(marker(3, producer=1), ABORT) == AbortedTxn(1, 0, 3, 4)


def test_commits_and_markers_of_empty_transactions_are_not_noted(states: ProducerStates) -> None:
    write(states, in_txn(0, 0))
    assert states.update_marker(marker(1), COMMIT) is None
    assert states.update_marker(marker(2), ABORT) is None
    assert states.map_end_offset == 3


def test_a_coordinator_of_an_older_epoch_cannot_end_a_transaction(states: ProducerStates) -> None:
    write(states, in_txn(0, 0))
    states.update_marker(marker(1), EndTxnMarker(True, coordinator_epoch=5))
    with pytest.raises(KafkaError) as caught:
        states.check_marker(marker(2), EndTxnMarker(False, coordinator_epoch=4))
    assert caught.value.error is Errors.TRANSACTION_COORDINATOR_FENCED
    states.check_marker(marker(2), EndTxnMarker(False, coordinator_epoch=5))


def test_the_coordinator_epoch_never_goes_back(states: ProducerStates) -> None:
    """KAFKA-9144: not even when an old marker is replicated."""
    for offset, epoch in enumerate((5, 4)):
        states.update_marker(marker(offset), EndTxnMarker(True, coordinator_epoch=epoch))
    entry = states.get(7)
    assert entry is not None
    assert entry.coordinator_epoch == 5


def test_a_marker_of_an_older_producer_epoch_is_refused(states: ProducerStates) -> None:
    write(states, batch(0, 0, epoch=2, attributes=TRANSACTIONAL_BIT))
    with pytest.raises(KafkaError) as caught:
        states.check_marker(marker(1, epoch=1), COMMIT)
    assert caught.value.error is Errors.INVALID_PRODUCER_EPOCH


def test_a_marker_emptied_by_compaction_only_moves_the_end(states: ProducerStates) -> None:
    states.update(marker(4))
    assert (len(states), states.map_end_offset) == (0, 5)


def test_a_follower_reads_markers_from_the_batches_it_copies(states: ProducerStates) -> None:
    write(states, in_txn(0, 0))
    copied = end_txn_marker(ABORT, producer_id=7, producer_epoch=0, timestamp=1000, base_offset=1)
    assert states.apply(read_header(copied), copied) == AbortedTxn(7, 0, 1, 2)
    plain = build_batch([Record(2, 1000, None, b"x")])
    assert states.apply(read_header(plain), plain) is None
    assert states.map_end_offset == 3


# Expiry -------------------------------------------------------------------------------------


def test_a_silent_producer_is_forgotten(states: ProducerStates) -> None:
    write(states, batch(0, 0, timestamp=1000))
    assert states.expire(1000 + DAY - 1) == 0
    assert states.expire(1000 + DAY) == 1
    write(states, batch(1, 77))


def test_a_producer_with_an_open_transaction_is_never_forgotten(states: ProducerStates) -> None:
    write(states, in_txn(0, 0))
    assert states.expire(100 * DAY) == 0


def test_the_time_of_a_marker_counts_as_a_sign_of_life(states: ProducerStates) -> None:
    """KAFKA-9144, KIP-360."""
    write(states, in_txn(0, 0))
    states.update_marker(marker(1, timestamp=1000 + DAY), COMMIT)
    assert states.expire(1000 + DAY) == 0
    assert states.expire(1000 + 2 * DAY) == 1


# Snapshots ----------------------------------------------------------------------------------


def reloaded(files: MemoryFiles, log_end: int, log_start: int = 0) -> ProducerStates:
    states = fresh(files)
    states.truncate_and_reload(log_start, log_end, now_ms=2000)
    return states


def test_a_snapshot_has_kafkas_bytes() -> None:
    row = SnapshotEntry(7, 1, 12, 345, 3, 1000, 9, -1)
    data = encode([row])
    assert len(data) == 10 + 46
    assert data[:2] == b"\0\1"
    assert data[6:10] == b"\0\0\0\1"
    assert data[10:20] == (7).to_bytes(8, "big") + (1).to_bytes(2, "big")
    assert data[-8:] == b"\xff" * 8
    assert decode(data) == [row]


def test_state_survives_a_restart_through_its_snapshot(
    states: ProducerStates, files: MemoryFiles
) -> None:
    write(states, batch(0, 0, 5), in_txn(5, 0, 2, producer=8), in_txn(7, 0, producer=9))
    states.update_marker(marker(8, producer=9), ABORT)
    states.take_snapshot(sync=True)
    files.crash()
    again = reloaded(files, log_end=9)
    assert again.map_end_offset == 9
    assert again.check(batch(9, 0, 5)) == BatchMetadata(4, 4, 4, 1000)
    assert again.check(batch(9, 5)) is None
    assert again.has_open_transaction(8, 0)
    assert again.first_undecided_offset == 5
    assert refusal(again, in_txn(9, 3, producer=9)) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_replay_after_the_snapshot_continues_it(states: ProducerStates, files: MemoryFiles) -> None:
    write(states, batch(0, 0))
    states.take_snapshot()
    write(states, batch(1, 1), batch(2, 2))
    again = reloaded(files, log_end=3)
    assert again.map_end_offset == 1
    write(again, batch(1, 1), batch(2, 2))
    assert again.check(batch(3, 3)) is None


def test_a_damaged_snapshot_is_discarded_for_an_older_one(
    states: ProducerStates, files: MemoryFiles
) -> None:
    """KAFKA-9892."""
    for offset in range(3):
        write(states, batch(offset, offset))
        states.take_snapshot()
    write_fully(files.open(states.snapshots.path(3)), b"\xff", 20)
    files.open(states.snapshots.path(2)).truncate(30)
    again = reloaded(files, log_end=3)
    assert again.map_end_offset == 1
    assert again.snapshots.offsets == [1]
    assert not files.exists(states.snapshots.path(3))


@pytest.mark.parametrize("data", [b"", b"\0\1", bytes(10), encode([])[:-1], encode([]) + b"x"])
def test_garbage_is_no_snapshot(data: bytes) -> None:
    with pytest.raises(ValueError, match="snapshot"):
        decode(data)


def test_without_any_snapshot_the_replay_begins_at_the_log_start(files: MemoryFiles) -> None:
    assert reloaded(files, log_start=40, log_end=50).map_end_offset == 40


def test_an_unchanged_state_is_not_written_again(
    states: ProducerStates, files: MemoryFiles
) -> None:
    write(states, batch(0, 0))
    states.take_snapshot()
    files.fail("open")
    states.take_snapshot()


def test_expired_producers_are_not_loaded(states: ProducerStates, files: MemoryFiles) -> None:
    write(states, batch(0, 0, timestamp=1000 - DAY), batch(1, 0, producer=8))
    states.take_snapshot()
    again = reloaded(files, log_end=2)
    assert again.get(7) is None
    assert again.get(8) is not None


def test_truncation_returns_to_the_snapshot_below_it(
    states: ProducerStates, files: MemoryFiles
) -> None:
    for offset in range(4):
        write(states, batch(offset, offset))
        states.take_snapshot()
    states.truncate_and_reload(0, 2, now_ms=2000)
    assert states.map_end_offset == 2
    assert states.snapshots.offsets == [1, 2]
    assert states.check(batch(2, 2)) is None


def test_truncation_to_the_known_end_keeps_the_state(states: ProducerStates) -> None:
    write(states, batch(0, 0), batch(1, 1))
    states.truncate_and_reload(0, 2, now_ms=2000)
    assert states.check(batch(2, 0)) is not None


def test_a_raised_log_start_drops_older_snapshots_and_ended_transactions(
    states: ProducerStates,
) -> None:
    write(states, in_txn(0, 0))
    states.update_marker(marker(1), COMMIT)
    states.take_snapshot()
    write(states, batch(2, 1), batch(3, 2))
    states.take_snapshot()
    states.truncate_and_reload(3, 4, now_ms=2000)
    assert states.snapshots.offsets == [4]
    assert states.first_unstable_offset is None


def test_stray_snapshots_go_and_those_of_segments_and_a_clean_stop_stay(
    states: ProducerStates, files: MemoryFiles
) -> None:
    for offset in range(6):
        write(states, batch(offset, offset))
        states.take_snapshot()
    states.snapshots.remove_stray([0, 2, 4])
    assert states.snapshots.offsets == [2, 4, 6]
    states.snapshots.remove_stray([0, 2, 7])
    assert states.snapshots.offsets == [2]


def test_an_emptied_log_has_no_producers_and_no_snapshots(states: ProducerStates) -> None:
    write(states, in_txn(0, 0))
    states.take_snapshot()
    states.start_at(100)
    assert (len(states), states.map_end_offset, states.snapshots.offsets) == (0, 100, [])
    assert states.last_stable_offset(100) == 100


def test_names_that_are_no_snapshots_are_left_alone(files: MemoryFiles) -> None:
    for name in ("1.snapshot", "0000000000000000000x.snapshot", "00000000000000000007.snapshot"):
        files.open(f"/log/{name}", create=True)
    assert fresh(files).snapshots.offsets == [7]


def test_compaction_learns_what_to_keep_of_each_producer(states: ProducerStates) -> None:
    write(states, batch(0, 0), batch(1, 1, 3))
    states.update_marker(marker(4, producer=8, epoch=6), COMMIT)
    assert states.last_records() == {7: (3, 0), 8: (None, 6)}
