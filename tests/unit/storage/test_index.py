"""The sparse indexes against plain lists."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.storage.files import OsFiles
from odradek.storage.index import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from odradek.storage.memory_files import MemoryFiles

BASE = 1000


def offset_index(files: MemoryFiles | OsFiles, path: str = "/i", *, size: int = 0) -> OffsetIndex:
    return OffsetIndex(files, path, base_offset=BASE, max_bytes=8 * 500, size=size)


def time_index(files: MemoryFiles | OsFiles, path: str = "/t", *, size: int = 0) -> TimeIndex:
    return TimeIndex(files, path, base_offset=BASE, max_bytes=12 * 500, size=size)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200), st.data())
def test_lookup_finds_the_last_entry_at_or_before(steps: list[int], data: st.DataObject) -> None:
    index = offset_index(MemoryFiles())
    entries = []
    offset, position = BASE, 0
    for step in steps:
        offset, position = offset + step, position + step * 100
        index.append(offset, position)
        entries.append(OffsetPosition(offset, position))
    wanted = data.draw(st.integers(BASE, offset + 10))
    below = [entry for entry in entries if entry.offset <= wanted]
    assert index.lookup(wanted) == (below[-1] if below else (BASE, 0))
    place = data.draw(st.integers(0, position + 10))
    before = [entry for entry in entries if entry.position <= place]
    assert index.lookup_position(place) == (before[-1] if before else (BASE, 0))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200), st.data())
def test_truncated_indexes_keep_exactly_what_lies_below(
    steps: list[int], data: st.DataObject
) -> None:
    files = MemoryFiles()
    offsets, times = offset_index(files), time_index(files)
    offset, kept, timestamps = BASE, [], []
    for number, step in enumerate(steps):
        offset += step
        offsets.append(offset, number)
        times.append_if_later(number, offset)
        kept.append(OffsetPosition(offset, number))
        timestamps.append(TimestampOffset(number, offset))
    cut = data.draw(st.integers(BASE, offset + 10))
    offsets.truncate_to(cut)
    times.truncate_to(cut)
    assert offsets.entries() == [entry for entry in kept if entry.offset < cut]
    assert times.entries() == [entry for entry in timestamps if entry.offset < cut]
    offsets.append(offset + 100, 7777)
    assert offsets.lookup(offset + 100) == (offset + 100, 7777)


def test_time_index_keeps_only_growing_timestamps() -> None:
    index = time_index(MemoryFiles())
    for timestamp, offset in [(-1, 1001), (5, 1002), (5, 1003), (3, 1004), (9, 1005)]:
        index.append_if_later(timestamp, offset)
    assert index.entries() == [(5, 1002), (9, 1005)]
    assert index.lookup(4) is None
    assert index.lookup(8) == (5, 1002)
    assert index.last() == (9, 1005)


def test_a_trimmed_index_reads_the_same_when_opened_again(tmp_path: Path) -> None:
    files, path = OsFiles(), str(tmp_path / "00.index")
    index = offset_index(files, path)
    for number in range(100):
        index.append(BASE + number * 3, number * 4096)
    before = index.entries()
    assert files.open(path).size() == 8 * 500  # preallocated
    index.trim()
    assert files.open(path).size() == 800
    again = offset_index(files, path, size=800)
    assert again.entries() == before
    assert again.lookup(BASE + 4) == (BASE + 3, 4096)
    again.append(BASE + 1000, 5)
    assert again.last() == (BASE + 1000, 5)


def test_layout_on_disk_is_big_endian_and_relative(tmp_path: Path) -> None:
    files = OsFiles()
    offsets, times = offset_index(files, f"{tmp_path}/o"), time_index(files, f"{tmp_path}/t")
    offsets.append(BASE + 0x01020304, 0x0A0B0C0D)
    times.append_if_later(0x1122334455667788, BASE + 2)
    offsets.trim()
    times.trim()
    assert Path(f"{tmp_path}/o").read_bytes() == bytes.fromhex("01020304 0a0b0c0d")
    assert Path(f"{tmp_path}/t").read_bytes() == bytes.fromhex("1122334455667788 00000002")


def test_an_index_says_when_it_is_full() -> None:
    index = OffsetIndex(MemoryFiles(), "/i", base_offset=0, max_bytes=8 * 2 + 7)
    assert not index.is_full
    index.append(1, 1)
    index.append(2, 2)
    assert index.is_full
    with pytest.raises(OverflowError):
        index.append(3, 3)
    index.truncate_to(2)
    assert not index.is_full


def test_an_unused_index_opens_no_file(tmp_path: Path) -> None:
    index = offset_index(OsFiles(), str(tmp_path / "none"))
    assert index.lookup(BASE + 5) == (BASE, 0)
    assert index.last() is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_and_not_a_crash() -> None:
    files = MemoryFiles()
    files.fail("reserve", on_call=3)
    index = offset_index(files)
    index.append(BASE + 1, 1)
    index.append(BASE + 2, 2)
    with pytest.raises(OSError, match="reserve"):
        index.append(BASE + 3, 3)
    assert index.count == 2
