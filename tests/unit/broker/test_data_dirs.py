"""A directory that holds somebody else's files is not taken for a broker's."""

import pytest
from odradek.broker.data_dirs import refuse_foreign
from odradek.broker.failures import CannotStart
from odradek.storage.files import Files, write_fully
from odradek.storage.memory_files import MemoryFiles


def with_file(files: Files, path: str, content: bytes = b"") -> None:
    directory, _, _ = path.rpartition("/")
    files.make_dir(directory)
    write_fully(files.open(path, create=True), content, 0)


@pytest.mark.parametrize(
    "name",
    [
        "orders-0/00000000000000000000.log",
        "my-topic-12/leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        ".kafka_cleanshutdown",
        "metadata.db",
        "lost+found/x",
        "orders-0.5b3f5cf8d2-delete/x",
    ],
)
def test_what_brokers_leave_behind_is_no_hindrance(name: str) -> None:
    files = MemoryFiles()
    with_file(files, f"/data/{name}")
    refuse_foreign(["/data"], files)


def test_an_empty_directory_is_fine() -> None:
    files = MemoryFiles()
    files.make_dir("/data")
    refuse_foreign(["/data"], files)


def test_a_directory_with_other_things_in_it_is_refused() -> None:
    files = MemoryFiles()
    with_file(files, "/pictures/holiday.jpg")
    with pytest.raises(CannotStart, match=r"holds 'holiday\.jpg', which is no broker's"):
        refuse_foreign(["/pictures"], files)


def test_a_directory_that_says_it_is_a_brokers_may_hold_more() -> None:
    files = MemoryFiles()
    with_file(files, "/data/meta.properties", b"version=0\nbroker.id=1\n")
    with_file(files, "/data/notes.txt")
    refuse_foreign(["/data"], files)
