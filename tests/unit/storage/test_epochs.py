"""The leader-epoch history: lookups, truncation, and the file behind it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.storage.checkpoints import write_rows
from odradek.storage.epochs import NO_EPOCH, UNKNOWN_END, EpochEntry, LeaderEpochs
from odradek.storage.files import read_file
from odradek.storage.memory_files import MemoryFiles


@pytest.fixture
def files() -> MemoryFiles:
    return fresh_disk()


def fresh_disk() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_dir("/log")
    disk.sync_dir("/")
    return disk


def history(files: MemoryFiles, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs("/log", files=files)
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return epochs


def test_the_end_of_an_epoch_is_where_the_next_one_begins(files: MemoryFiles) -> None:
    epochs = history(files, (0, 0), (2, 10), (5, 30))
    assert epochs.end_offset_for(0, 50) == (0, 10)
    assert epochs.end_offset_for(2, 50) == (2, 30)


def test_the_latest_epoch_ends_at_the_log_end(files: MemoryFiles) -> None:
    assert history(files, (0, 0), (5, 30)).end_offset_for(5, 50) == (5, 50)


def test_an_epoch_between_entries_is_answered_by_the_largest_below_it(files: MemoryFiles) -> None:
    epochs = history(files, (0, 0), (2, 10), (5, 30))
    assert epochs.end_offset_for(4, 50) == (2, 30)
    assert epochs.end_offset_for(1, 50) == (0, 10)


def test_an_epoch_below_the_first_entry_ends_at_the_first_start_offset(files: MemoryFiles) -> None:
    assert history(files, (3, 20), (5, 30)).end_offset_for(1, 50) == (1, 20)


def test_unknown_epochs_have_no_end(files: MemoryFiles) -> None:
    assert history(files).end_offset_for(3, 50) == UNKNOWN_END
    assert history(files, (3, 20)).end_offset_for(4, 50) == UNKNOWN_END
    assert history(files, (3, 20)).end_offset_for(-1, 50) == UNKNOWN_END


def test_a_new_leader_without_data_can_answer_for_its_own_epoch(files: MemoryFiles) -> None:
    """KAFKA-7415."""
    epochs = history(files, (1, 0))
    epochs.assign(2, 40)
    assert epochs.end_offset_for(2, 40) == (2, 40)
    assert epochs.end_offset_for(1, 40) == (1, 40)
    assert epochs.latest_epoch == 2


def test_three_elections_without_data_leave_one_entry(files: MemoryFiles) -> None:
    epochs = history(files, (1, 0), (2, 40), (3, 40), (4, 40))
    assert epochs.entries == [(1, 0), (4, 40)]


def test_epoch_zero_is_an_epoch_like_any_other(files: MemoryFiles) -> None:
    """KAFKA-10432."""
    epochs = history(files, (0, 0))
    assert epochs.latest_epoch == 0
    assert epochs.end_offset_for(0, 7) == (0, 7)
    assert epochs.epoch_for_offset(3) == 0


def test_truncating_at_or_beyond_the_log_end_drops_an_entry_without_data(
    files: MemoryFiles,
) -> None:
    """KAFKA-10706: the log ends at 40, and so does the history afterwards."""
    epochs = history(files, (1, 0), (2, 40))
    epochs.truncate_from_end(40)
    assert epochs.entries == [(1, 0)]


def test_a_batch_of_a_known_epoch_changes_nothing(files: MemoryFiles) -> None:
    epochs = history(files, (1, 0), (2, 40))
    files.fail("replace")
    epochs.assign(2, 60)
    assert epochs.entries == [(1, 0), (2, 40)]


def test_an_epoch_that_contradicts_entries_replaces_them(files: MemoryFiles) -> None:
    epochs = history(files, (1, 0), (3, 40), (5, 60), (2, 50))
    assert epochs.entries == [(1, 0), (2, 50)]
    epochs.assign(2, 30)
    assert epochs.entries == [(1, 0), (2, 30)]


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1)])
def test_negative_epochs_and_offsets_are_refused(
    files: MemoryFiles, epoch: int, offset: int
) -> None:
    with pytest.raises(ValueError, match="cannot begin"):
        history(files).assign(epoch, offset)


def test_offsets_are_mapped_to_their_epoch(files: MemoryFiles) -> None:
    epochs = history(files, (1, 5), (2, 40))
    assert [epochs.epoch_for_offset(o) for o in (4, 5, 39, 40, 99)] == [NO_EPOCH, 1, 1, 2, 2]
    assert (epochs.start_offset_of(2), epochs.start_offset_of(3)) == (40, -1)


def test_a_raised_log_start_moves_the_first_entry(files: MemoryFiles) -> None:
    epochs = history(files, (1, 0), (2, 40), (4, 60))
    epochs.truncate_from_start(45)
    assert epochs.entries == [(2, 45), (4, 60)]
    epochs.truncate_from_start(60)
    assert epochs.entries == [(4, 60)]
    epochs.truncate_from_start(90)
    assert epochs.entries == [(4, 90)]
    epochs.truncate_from_start(10)
    assert epochs.entries == [(4, 90)]


def test_the_history_is_kept_in_kafkas_file(files: MemoryFiles) -> None:
    history(files, (1, 0), (2, 40))
    assert read_file(files, "/log/leader-epoch-checkpoint") == b"0\n2\n1 0\n2 40\n"
    assert LeaderEpochs("/log", files=files).entries == [EpochEntry(1, 0), EpochEntry(2, 40)]


def test_truncations_and_clear_reach_the_file(files: MemoryFiles) -> None:
    epochs = history(files, (1, 0), (2, 40))
    epochs.truncate_from_end(10)
    assert LeaderEpochs("/log", files=files).entries == [(1, 0)]
    epochs.clear()
    assert LeaderEpochs("/log", files=files).entries == []


def test_a_change_does_not_wait_for_the_disk(files: MemoryFiles) -> None:
    files.fail("sync", sticky=True)
    epochs = history(files, (1, 0), (2, 40))
    epochs.truncate_from_end(10)
    assert LeaderEpochs("/log", files=files).entries == [(1, 0)]


@pytest.mark.parametrize(
    "rows", [["1 0", "x"], ["2 0", "1 40"], ["1 40", "2 40"], ["1 0", "2"], ["1 0", "2 -4"]]
)
def test_a_damaged_history_is_reported_not_raised(files: MemoryFiles, rows: list[str]) -> None:
    """KAFKA-16541: the owner rebuilds it from the batches."""
    write_rows(files, "/log/leader-epoch-checkpoint", rows)
    epochs = LeaderEpochs("/log", files=files)
    assert epochs.damage is not None
    epochs.clear()
    epochs.assign(3, 7)
    reopened = LeaderEpochs("/log", files=files)
    assert (reopened.entries, reopened.damage) == ([(3, 7)], None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assign", "end", "start"]), st.integers(0, 8), st.integers(0, 40)
        )
    )
)
def test_entries_grow_strictly_and_equal_their_file_whatever_happens(
    steps: list[tuple[str, int, int]],
) -> None:
    files = fresh_disk()
    epochs = LeaderEpochs("/log", files=files)
    for verb, epoch, offset in steps:
        match verb:
            case "assign":
                epochs.assign(epoch, offset)
                assert epochs.epoch_for_offset(offset) == epochs.latest_epoch == epoch
            case "end":
                epochs.truncate_from_end(offset)
                assert all(entry.start_offset < offset for entry in epochs.entries)
            case _:
                before = epochs.epoch_for_offset(offset)
                epochs.truncate_from_start(offset)
                assert epochs.epoch_for_offset(offset) == before
        entries = epochs.entries
        assert all(
            a.epoch < b.epoch and a.start_offset < b.start_offset
            for a, b in itertools.pairwise(entries)
        )
        assert LeaderEpochs("/log", files=files).entries == entries
