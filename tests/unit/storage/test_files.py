"""Files: the real ones and the in-memory twin keep one contract; the twin also loses power."""

import errno
from pathlib import Path
from random import Random

import pytest
from odradek.storage.files import (
    Files,
    FileSlice,
    OsFiles,
    raise_open_file_limit,
    read_file,
    write_fully,
)
from odradek.storage.memory_files import MemoryFiles


class Place:
    """A directory to work in, on either kind of files."""

    def __init__(self, files: Files, root: str) -> None:
        self.files = files
        self.root = root
        files.make_dir(root)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def write(self, name: str, data: bytes) -> None:
        write_fully(self.files.open(self.path(name), create=True), data, 0)

    def read(self, name: str) -> bytes:
        return read_file(self.files, self.path(name))

    def names(self) -> list[str]:
        return [entry.name for entry in self.files.scan(self.root)]


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "os":
        return Place(OsFiles(), str(tmp_path / "room"))
    return Place(MemoryFiles(), "/disk/room")


def test_bytes_are_written_and_read_at_positions(place: Place) -> None:
    file = place.files.open(place.path("a"), create=True)
    assert file.pwrite(b"world", 6) == 5
    assert file.pwrite(memoryview(b"hello "), 0) == 6
    assert file.pread(100, 0) == b"hello world"
    assert file.pread(3, 6) == b"wor"
    assert file.pread(3, 50) == b""
    assert file.size() == 11


def test_opening_a_missing_file_needs_create(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.files.open(place.path("missing"))
    assert not place.files.exists(place.path("missing"))


def test_truncate_cuts_and_allocate_grows(place: Place) -> None:
    place.write("a", b"0123456789")
    file = place.files.open(place.path("a"))
    file.truncate(4)
    assert place.read("a") == b"0123"
    file.allocate(6)
    assert place.read("a") == b"0123\0\0"


def test_scan_tells_names_sizes_and_kinds_in_order(place: Place) -> None:
    place.write("b", b"12")
    place.files.make_dir(place.path("c/d"))
    place.write("a", b"")
    found = [(e.name, e.is_dir) for e in place.files.scan(place.root)]
    assert found == [("a", False), ("b", False), ("c", True)]
    assert place.files.scan(place.root)[1].size == 2


def test_replace_puts_a_file_over_another(place: Place) -> None:
    place.write("new", b"new")
    place.write("old", b"old")
    place.files.replace(place.path("new"), place.path("old"))
    assert place.names() == ["old"]
    assert place.read("old") == b"new"


def test_a_renamed_directory_takes_its_files_along(place: Place) -> None:
    place.files.make_dir(place.path("before"))
    place.write("before/a", b"x")
    place.files.replace(place.path("before"), place.path("after"))
    assert place.read("after/a") == b"x"
    assert not place.files.exists(place.path("before"))


def test_removing_what_is_gone_is_fine(place: Place) -> None:
    place.files.remove(place.path("gone"))
    place.files.remove_tree(place.path("gone"))
    place.files.make_dir(place.path("tree/deep"))
    place.write("tree/deep/a", b"x")
    place.files.remove_tree(place.path("tree"))
    assert place.names() == []


def test_a_slice_stays_readable_after_its_file_is_removed(place: Place) -> None:
    place.write("a", b"0123456789")
    piece = FileSlice(place.files.open(place.path("a")), 2, 3)
    place.files.remove(place.path("a"))
    assert piece.read() == b"234"
    assert len(piece) == 3
    assert piece.is_cached()


def test_a_mapping_shares_its_bytes_with_the_file(place: Place) -> None:
    mapping = place.files.map(place.path("m"), 4096)
    assert mapping.reserve(8) >= 8
    mapping.buffer[0:4] = b"abcd"
    assert place.files.open(place.path("m")).pread(4, 0) == b"abcd"
    assert place.files.open(place.path("m")).size() == 4096
    mapping.close()


def test_a_lock_is_held_by_one_and_free_after_release(place: Place) -> None:
    lock = place.files.lock(place.path(".lock"))
    assert lock is not None
    assert place.files.lock(place.path(".lock")) is None
    lock.release()
    assert place.files.lock(place.path(".lock")) is not None


def test_descriptors_are_closed_with_the_last_reference(tmp_path: Path) -> None:
    files = OsFiles()
    file = files.open(str(tmp_path / "a"), create=True)
    fd = file.fileno()
    piece = FileSlice(file, 0, 0)
    del file
    assert Path(f"/proc/self/fd/{fd}").exists()
    del piece
    assert not Path(f"/proc/self/fd/{fd}").exists()


def test_the_soft_limit_of_open_files_is_lifted_to_the_hard_one() -> None:
    assert raise_open_file_limit() >= 256


# The twin's own powers ----------------------------------------------------------------------


@pytest.fixture
def disk() -> Place:
    place = Place(MemoryFiles(), "/disk")
    place.files.sync_dir("/")
    return place


def twin(place: Place) -> MemoryFiles:
    assert isinstance(place.files, MemoryFiles)
    return place.files


def test_a_power_cut_takes_unsynced_bytes(disk: Place) -> None:
    disk.write("a", b"safe")
    disk.files.open(disk.path("a")).sync()
    disk.files.sync_dir(disk.root)
    disk.files.open(disk.path("a")).pwrite(b" lost", 4)
    twin(disk).crash()
    assert disk.read("a") == b"safe"


def test_a_power_cut_takes_names_whose_directory_was_not_synced(disk: Place) -> None:
    disk.write("a", b"synced bytes")
    disk.files.open(disk.path("a")).sync()
    twin(disk).crash()
    assert disk.names() == []


def test_a_power_cut_takes_an_unsynced_rename_back(disk: Place) -> None:
    for name in ("old", "new"):
        disk.write(name, name.encode())
        disk.files.open(disk.path(name)).sync()
    disk.files.sync_dir(disk.root)
    disk.files.replace(disk.path("new"), disk.path("old"))
    twin(disk).crash()
    assert (disk.read("old"), disk.read("new")) == (b"old", b"new")


def test_a_torn_tail_keeps_a_prefix_perhaps_with_zeros(disk: Place) -> None:
    seen = set()
    for seed in range(50):
        disk.write("a", b"safe")
        disk.files.open(disk.path("a")).sync()
        disk.files.sync_dir(disk.root)
        disk.files.open(disk.path("a")).pwrite(b"ABCDEF", 4)
        twin(disk).crash(Random(seed))
        data = disk.read("a")
        assert data.startswith(b"safe")
        assert b"safeABCDEF".startswith(data.rstrip(b"\0"))
        seen.add(data)
        disk.files.remove(disk.path("a"))
    assert len(seen) > 5


def test_files_opened_before_a_power_cut_are_dead(disk: Place) -> None:
    file = disk.files.open(disk.path("a"), create=True)
    twin(disk).crash()
    with pytest.raises(OSError, match="power cut"):
        file.pwrite(b"x", 0)


def test_faults_strike_the_nth_call_on_a_matching_path(disk: Place) -> None:
    twin(disk).fail("write", on_call=2, error=errno.ENOSPC, path_contains="unlucky")
    disk.write("lucky", b"1")
    disk.write("unlucky", b"1")
    with pytest.raises(OSError, match="injected") as caught:
        disk.write("unlucky", b"2")
    assert caught.value.errno == errno.ENOSPC
    disk.write("unlucky", b"3")
    assert disk.read("unlucky") == b"3"


def test_a_short_write_leaves_bytes_out_and_is_told(disk: Place) -> None:
    twin(disk).fail("write", short_by=2)
    with pytest.raises(OSError, match="short write"):
        disk.write("a", b"12345")
    assert disk.read("a") == b"123"
