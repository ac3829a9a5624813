"""Opening logs whose directories are in a bad state."""

from random import Random

import pytest
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import ProducerStamp
from odradek.storage.files import read_file, write_fully
from odradek.storage.log_reading import Isolation
from odradek.storage.segment import Segment

from tests.unit.storage.cleaning_room import CleaningRoom
from tests.unit.storage.log_room import START_MS, Room, batch

SMALL = {"segment.bytes": "2000", "index.interval.bytes": "150"}


def damage(room: Room, name: str, data: bytes, position: int = 0) -> None:
    write_fully(room.files.open(f"{room.directory}/{name}"), data, position)


def segment_of(room: Room, offset: int) -> Segment:
    segment = room.log.segments.floor(offset)
    assert segment is not None
    return segment


def break_batch(room: Room, offset: int, *, header: bool = False) -> None:
    segment = segment_of(room, offset)
    found = segment.locate(offset)
    assert found is not None
    if header:
        segment.batches.file.pwrite(b"\xee" * 30, found.position)
    else:
        segment.batches.file.pwrite(b"\xee\xee", found.position + 64)


def index_names(room: Room) -> list[str]:
    return [name for name in room.names() if name.endswith((".index", ".timeindex"))]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("how", ["missing", "short", "garbage", "zeros", "long", "empty"])
def test_bad_indexes_never_change_what_is_read(how: str, is_clean: bool) -> None:
    room = Room(overrides=SMALL)
    for number in range(60):
        room.append(b"%d" % number, b"x" * 80, timestamp=START_MS + number * 10)
    before = room.read_all()
    room.log.close()
    room.checkpoint()
    random = Random(how)
    for name in index_names(room):
        file = room.files.open(f"{room.directory}/{name}")
        size = file.size()
        if how == "missing":
            room.files.remove(f"{room.directory}/{name}")
        elif how == "short":
            file.truncate(max(0, size - 5))
        elif how == "garbage":
            file.pwrite(random.randbytes(size), 0)
        elif how == "zeros":
            file.pwrite(bytes(size), 0)
        elif how == "long":
            file.pwrite(random.randbytes(4 * size + 240), size)
        else:
            file.truncate(0)
    room.open(is_clean=is_clean)
    assert room.read_all() == before
    for number in range(60):
        assert room.log.read(number * 2, 100).records is not None
        found = room.log.offset_for_timestamp(START_MS + number * 10)
        assert found is not None
        assert found.offset == number * 2
    latest = room.log.latest_timestamp()
    assert latest is not None
    assert latest.offset == 119
    room.log.truncate_to(31)
    assert room.read_all() == before[:30]


@pytest.mark.parametrize("cut", [1, 7, 60, 61, 130, 200])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_tail_that_was_cut_off_is_dropped_to_the_last_whole_batch(
    cut: int, is_clean: bool
) -> None:
    room = Room(overrides=SMALL)
    room.fill(40)
    before = room.read_all()
    room.log.close()
    room.checkpoint()
    active = room.log.segments.active
    file = room.files.open(active.batches.path)
    file.truncate(max(0, file.size() - cut))
    room.open(is_clean=is_clean)
    now = room.read_all()
    assert now == before[: len(now)]
    assert len(now) in (38, 39)
    room.fill(3)
    assert [offset for offset, _ in room.read_all()] == list(range(len(now) + 3))


def test_a_tail_of_zeros_is_cut() -> None:
    room = Room(overrides=SMALL)
    room.fill(10)
    active = room.log.segments.active
    active.batches.file.pwrite(bytes(500), active.size)
    room.kill_and_open()
    assert room.log.log_end_offset == 10
    assert len(room.read_all()) == 10


@pytest.mark.parametrize("header", [False, True])
def test_damage_below_the_recovery_point_is_told_and_not_dropped(header: bool) -> None:
    room = Room(overrides={"index.interval.bytes": "150"})
    room.fill(30)
    before = room.read_all()
    room.log.flush()
    room.checkpoint()
    break_batch(room, 12, header=header)
    log = room.kill_and_open()
    assert log.damage == [range(12, 13)]
    assert log.log_end_offset == 30
    with pytest.raises(KafkaError) as caught:
        log.read(12, 1000)
    assert caught.value.error is Errors.CORRUPT_MESSAGE
    for offset in range(12):
        data = room.read(offset)
        assert data.count(b"..:") == 0
        assert len(data) == len(room.read(offset, 1)) * (12 - offset)
    assert [o for o in range(13, 30) if room.log.read(o, 10).records is None] == []
    assert before[13][1] in room.read(13, 10)
    log.truncate_to(5)
    assert log.damage == []
    room.fill(2)
    assert [o for o, _ in room.read_all()] == list(range(7))


def test_damage_that_reaches_the_end_of_an_older_segment_is_told_too() -> None:
    room = Room(overrides=SMALL)
    room.fill(40)
    room.log.flush()
    room.checkpoint()
    room.recovery_point = room.log.segments.active.base_offset - 1
    second = list(room.log.segments)[-2]
    found = second.locate(second.base_offset + 2)
    assert found is not None
    second.batches.file.pwrite(b"\xee" * (second.size - found.position), found.position)
    room.recovery_point = second.base_offset + 3
    log = room.kill_and_open()
    active_base = log.segments.active.base_offset
    assert log.damage == [range(second.base_offset + 2, active_base)]
    with pytest.raises(KafkaError):
        log.read(active_base - 1, 100)
    assert log.read(active_base, 100).records is not None
    assert log.log_end_offset == 40


def test_a_bad_batch_above_the_recovery_point_takes_later_segments_with_it() -> None:
    room = Room(overrides=SMALL)
    room.fill(60)
    room.recovery_point = 20
    break_batch(room, 25)
    room.kill_and_open()
    assert [o for o, _ in room.read_all()] == list(range(25))
    room.fill(30)
    assert [o for o, _ in room.read_all()] == list(range(55))


def test_batches_whose_offsets_go_back_are_not_believed() -> None:
    room = Room()
    room.fill(3)
    active = room.log.segments.active
    first = active.batches.read(0, active.size // 3)
    active.batches.append(first)
    room.kill_and_open()
    assert room.log.log_end_offset == 3


def test_aborted_transactions_are_known_again_after_a_kill() -> None:
    room = Room(overrides=SMALL)
    for round_ in range(6):
        stamp = ProducerStamp(9, 0, round_, is_transactional=True)
        room.log.append_as_leader(batch(b"t" * 200, producer=stamp), leader_epoch=0)
        room.end_transaction(9, commit=round_ % 2 == 0)
        room.fill(3)
    end = room.log.log_end_offset

    def aborted() -> list[int]:
        room.log.update_high_watermark(end)
        found = set()
        for offset in range(end):
            result = room.log.read(offset, 500, isolation=Isolation.LAST_STABLE)
            found |= {txn.first_offset for txn in result.aborted or []}
        return sorted(found)

    before = aborted()
    assert len(before) == 3
    for name in room.names():
        if name.endswith(".txnindex"):
            damage(room, name, b"\xff" * 20, 3)
    room.kill_and_open()
    assert aborted() == before
    room.log.close()
    room.checkpoint()
    for name in room.names():
        if name.endswith(".txnindex"):
            damage(room, name, b"\xff" * 20, 3)
    room.open(is_clean=True)
    assert aborted() == before


def test_an_open_transaction_is_open_again_after_a_kill() -> None:
    room = Room(overrides=SMALL)
    room.fill(5)
    stamp = ProducerStamp(9, 0, 0, is_transactional=True)
    room.log.append_as_leader(batch(b"t", producer=stamp), leader_epoch=0)
    room.fill(30)
    room.kill_and_open()
    room.log.update_high_watermark(36)
    assert room.log.last_stable_offset == 5


def test_leftovers_are_cleared_and_strange_names_left_alone() -> None:
    room = Room(overrides=SMALL)
    room.fill(10)
    before = room.read_all()
    room.log.close()
    leftovers = [
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000000.index.swap",
        "00000000000000000077.index",
        "leader-epoch-checkpoint.tmp",
    ]
    strange = ["notes.txt", "0001.log", "00000000000000000000.zip"]
    for name in leftovers + strange:
        room.files.open(f"{room.directory}/{name}", create=True)
    room.files.make_dir(f"{room.directory}/folder")
    room.open(is_clean=True)
    assert room.read_all() == before
    assert not set(leftovers) & set(room.names())
    assert set(strange) <= set(room.names())


def test_a_log_that_lost_its_tail_below_its_log_start_goes_on_from_there() -> None:
    room = Room()
    room.fill(5)
    room.log.close()
    room.log_start = 40
    room.open(is_clean=True)
    assert (room.log.log_start_offset, room.log.log_end_offset) == (40, 40)
    room.fill(1)
    assert [offset for offset, _ in room.read_all()] == [40]


def test_a_checkpointed_log_start_holds_after_a_restart() -> None:
    room = Room(overrides=SMALL)
    room.fill(30)
    room.log.advance_log_start(17)
    room.checkpoint()
    assert room.kill_and_open().log_start_offset == 17
    assert room.stop_and_open().log_start_offset == 17
    assert room.log.epochs.entries == [(0, 17)]


def test_an_index_is_mended_while_the_log_is_in_use() -> None:
    room = Room(overrides=SMALL)
    room.fill(40)
    room.log.close()
    room.checkpoint()
    first = f"{0:020d}.index"
    size = len(read_file(room.files, f"{room.directory}/{first}"))
    damage(room, first, b"\x00\x00\x00\x03\x00\x00\x00\x09" * (size // 8))
    room.open(is_clean=True)
    for offset in range(10):
        assert room.read(offset, 10)[7] == offset


def test_epochs_whose_records_were_compacted_away_keep_their_beginnings() -> None:
    room = CleaningRoom()
    for epoch, key in enumerate([b"a", b"a", b"b", b"a"]):
        room.log.append_as_leader(batch(b"value", key=key), leader_epoch=epoch)
    room.replicate()
    room.roll_and_clean()
    assert [offset for offset, _, _ in room.records()] == [2, 3]
    room.kill_and_open()
    assert room.log.epochs.entries == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert room.log.end_offset_for_epoch(0) == (0, 1)


def test_an_epoch_history_that_contradicts_the_batches_is_not_believed() -> None:
    room = Room()
    for epoch in (0, 0, 2, 2):
        room.append(b"value", epoch=epoch)
    damage(room, "leader-epoch-checkpoint", b"0\n3\n0 0\n1 1\n2 3\n")
    room.kill_and_open()
    assert room.log.epochs.entries == [(0, 0), (2, 2)]


def test_snapshots_made_in_a_recovery_belong_to_segments_even_after_gaps() -> None:
    room = CleaningRoom()
    room.put((b"a", b"1"), producer=7)
    room.put((b"b", b"1"), (b"b", b"2"))
    room.log.roll()
    room.put((b"c", b"1"))
    segment = segment_of(room, 0)
    *_, (position, _) = segment.batches.headers()
    segment.batches.cut(position)
    for offset in room.log.producers.snapshots.offsets:
        room.files.remove(room.log.producers.snapshots.path(offset))
    room.kill_and_open()
    assert room.log.producers.snapshots.offsets == [3]
    assert [row[0] for row in room.records()] == [0, 3]
