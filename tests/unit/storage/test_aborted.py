"""The index of aborted transactions of a segment."""

import pytest
from odradek.storage.aborted import ENTRY_BYTES, AbortedTxn, TransactionIndex
from odradek.storage.files import read_file, write_fully
from odradek.storage.memory_files import MemoryFiles

PATH = "/log/00000000000000000000.txnindex"
FIRST = AbortedTxn(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=15)
SECOND = AbortedTxn(producer_id=8, first_offset=15, last_offset=30, last_stable_offset=31)
THIRD = AbortedTxn(producer_id=7, first_offset=40, last_offset=50, last_stable_offset=51)


@pytest.fixture
def files() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_dir("/log")
    return disk


def index(files: MemoryFiles, *transactions: AbortedTxn) -> TransactionIndex:
    made = TransactionIndex(PATH, files=files)
    for transaction in transactions:
        made.append(transaction)
    return made


def test_without_aborted_transactions_there_is_no_file(files: MemoryFiles) -> None:
    made = index(files)
    assert made.collect(0, 100) == ([], False)
    made.truncate_to(5)
    made.flush()
    assert not files.exists(PATH)


def test_an_entry_is_34_bytes_in_kafkas_order(files: MemoryFiles) -> None:
    index(files, FIRST)
    fields = [(0).to_bytes(2, "big")] + [value.to_bytes(8, "big") for value in FIRST]
    assert read_file(files, PATH) == b"".join(fields)
    assert len(read_file(files, PATH)) == ENTRY_BYTES


def test_entries_are_read_back(files: MemoryFiles) -> None:
    index(files, FIRST, SECOND)
    assert list(TransactionIndex(PATH, files=files)) == [FIRST, SECOND]


def test_transactions_overlapping_the_range_are_collected(files: MemoryFiles) -> None:
    made = index(files, FIRST, SECOND, THIRD)
    assert made.collect(0, 100) == ([FIRST, SECOND, THIRD], False)
    assert made.collect(21, 100) == ([SECOND, THIRD], False)
    assert made.collect(20, 12) == ([FIRST], True)
    assert made.collect(51, 100) == ([], False)


def test_the_search_ends_where_the_lso_covers_the_range(files: MemoryFiles) -> None:
    made = index(files, FIRST, SECOND, THIRD)
    assert made.collect(0, 16) == ([FIRST, SECOND], True)
    assert made.collect(0, 31) == ([FIRST, SECOND], True)
    assert made.collect(0, 32) == ([FIRST, SECOND], True)
    assert made.collect(0, 51) == ([FIRST, SECOND, THIRD], True)


def test_markers_at_or_after_the_truncation_point_are_forgotten(files: MemoryFiles) -> None:
    made = index(files, FIRST, SECOND, THIRD)
    made.truncate_to(30)
    assert list(made) == [FIRST]
    made.append(SECOND)
    assert list(TransactionIndex(PATH, files=files)) == [FIRST, SECOND]


def test_entries_must_come_in_the_order_of_their_markers(files: MemoryFiles) -> None:
    with pytest.raises(ValueError, match="does not follow"):
        index(files, SECOND, FIRST)


def test_a_sound_index_passes_the_check(files: MemoryFiles) -> None:
    assert index(files, FIRST, SECOND).sanity_check(base_offset=12) is None


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [(1, 1, "version 1"), (10, 0xFF, "out of place"), (18 + 34 + 7, 19, "out of place")],
)
def test_a_damaged_index_is_reported(files: MemoryFiles, at: int, value: int, said: str) -> None:
    index(files, FIRST, SECOND)
    write_fully(files.open(PATH), bytes([value]), at)
    damage = TransactionIndex(PATH, files=files).sanity_check(base_offset=0)
    assert damage is not None
    assert said in damage


def test_a_torn_entry_is_reported(files: MemoryFiles) -> None:
    index(files, FIRST, SECOND)
    files.open(PATH).truncate(50)
    assert "not whole" in (TransactionIndex(PATH, files=files).sanity_check(0) or "")


def test_entries_before_the_segment_are_reported(files: MemoryFiles) -> None:
    index(files, FIRST)
    assert "out of place" in (TransactionIndex(PATH, files=files).sanity_check(21) or "")


def test_reset_removes_the_file(files: MemoryFiles) -> None:
    made = index(files, FIRST)
    made.reset()
    assert (len(made), files.exists(PATH)) == (0, False)
    made.append(FIRST)
    assert list(TransactionIndex(PATH, files=files)) == [FIRST]
