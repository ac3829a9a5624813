"""Checkpoint files: their text, their atomic replacement, and what is read from damaged ones."""

import pytest
from odradek.protocol.types import TopicPartition
from odradek.storage.checkpoints import (
    read_offsets,
    read_rows,
    replace_file,
    write_offsets,
    write_rows,
)
from odradek.storage.files import Files, OsFiles, read_file, write_fully
from odradek.storage.memory_files import MemoryFiles

ORDERS = {TopicPartition("orders", 1): 998, TopicPartition("orders", 0): 1017}


@pytest.fixture
def files() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_dir("/data")
    disk.sync_dir("/")
    return disk


def put(files: Files, path: str, data: bytes) -> None:
    files.remove(path)
    write_fully(files.open(path, create=True), data, 0)


def test_the_text_is_version_count_and_one_sorted_row_a_line(files: MemoryFiles) -> None:
    write_offsets(files, "/data/hw", ORDERS)
    assert read_file(files, "/data/hw") == b"0\n2\norders 0 1017\norders 1 998\n"


def test_offsets_are_read_back(files: MemoryFiles) -> None:
    write_offsets(files, "/data/hw", ORDERS)
    assert read_offsets(files, "/data/hw") == (ORDERS, None)


def test_no_file_means_no_rows_and_no_damage(files: MemoryFiles) -> None:
    assert read_offsets(files, "/data/hw") == ({}, None)


def test_an_empty_checkpoint_is_not_damaged(files: MemoryFiles) -> None:
    write_offsets(files, "/data/hw", {})
    assert read_offsets(files, "/data/hw") == ({}, None)


def test_real_files_are_replaced_as_well(tmp_path: object) -> None:
    path = f"{tmp_path}/hw"
    write_offsets(OsFiles(), path, {TopicPartition("t", 0): 10**18})
    write_offsets(OsFiles(), path, {TopicPartition("t", 0): 7})
    assert read_offsets(OsFiles(), path).offsets == {TopicPartition("t", 0): 7}


@pytest.mark.parametrize(
    ("text", "kept", "said"),
    [
        (b"", {}, "ends before its row count"),
        (b"\0\0\0\0\0\0", {}, "ends before its row count"),
        (b"1\n1\norders 1 998\n", {TopicPartition("orders", 1): 998}, "unknown version"),
        (b"0\n2\norders 1 998\n", {TopicPartition("orders", 1): 998}, "1 rows where '2'"),
        (b"0\nx\norders 1 998\n", {TopicPartition("orders", 1): 998}, "'x'"),
        (b"0\n1\norders 1 99\xff8\n", {}, "line 3 makes no sense"),
        (b"0\n1\norders 1 -998\n", {}, "line 3 makes no sense"),
        (b"0\n1\norders 1\n", {}, "line 3 makes no sense"),
        (b"0\n1\n 1 998\n", {}, "line 3 makes no sense"),
        (b"0\n2\norders 1 998\norders 0 1_0\n", {TopicPartition("orders", 1): 998}, "line 4"),
    ],
)
def test_a_damaged_file_gives_its_sound_rows_and_says_what_is_wrong(
    files: MemoryFiles, text: bytes, kept: dict[TopicPartition, int], said: str
) -> None:
    put(files, "/data/hw", text)
    offsets, damage = read_offsets(files, "/data/hw")
    assert offsets == kept
    assert damage is not None
    assert said in damage


def test_a_written_checkpoint_survives_a_power_cut(files: MemoryFiles) -> None:
    write_offsets(files, "/data/hw", ORDERS)
    files.crash()
    assert read_offsets(files, "/data/hw") == (ORDERS, None)


@pytest.mark.parametrize("operation", ["open", "write", "sync", "replace", "sync_dir"])
def test_a_write_that_fails_anywhere_leaves_the_old_rows_or_the_new(
    files: MemoryFiles, operation: str
) -> None:
    write_offsets(files, "/data/hw", {TopicPartition("t", 0): 1})
    files.fail(operation)
    with pytest.raises(OSError, match="injected"):
        write_offsets(files, "/data/hw", {TopicPartition("t", 0): 2})
    files.crash()
    assert read_offsets(files, "/data/hw") == ({TopicPartition("t", 0): 1}, None)


def test_a_long_leftover_of_a_crashed_write_does_not_leak_into_the_next(
    files: MemoryFiles,
) -> None:
    put(files, "/data/hw.tmp", b"x" * 500)
    replace_file(files, "/data/hw", b"short")
    assert read_file(files, "/data/hw") == b"short"


def test_rows_are_parsed_by_the_owner_of_the_file(files: MemoryFiles) -> None:
    write_rows(files, "/data/numbers", ["1", "2", "three"])
    rows, damage = read_rows(files, "/data/numbers", int)
    assert rows == [1, 2]
    assert damage is not None
    assert "line 5" in damage
