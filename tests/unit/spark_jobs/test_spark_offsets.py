"""Where batches end, how ranges are cut for tasks, and what counts as lost."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.offsets import (
    OffsetRange,
    OptionError,
    from_document,
    limited,
    parse_assignment,
    parse_offsets,
    planned,
    split,
    to_document,
)

A, B, C = (TopicPartition("t", index) for index in range(3))
sizes = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 10_000), min_size=1)


def test_a_position_reads_as_the_official_connector_writes_it():
    assert to_document({B: 2, A: 1}) == {"t": {"0": 1, "1": 2}}
    assert from_document({"t": {"0": 1, "1": 2}}) == {A: 1, B: 2}


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"t": 1}', '{"t": {"x": 1}}', '{"t": {"0": "1"}}']
)
def test_offsets_that_are_none_are_named_in_a_sentence(text):
    with pytest.raises(OptionError, match="startingOffsets must look like"):
        parse_offsets("startingOffsets", text)


@pytest.mark.parametrize("text", ["", "[]", '{"t": 1}', '{"t": ["0"]}', "{}"])
def test_an_assignment_that_is_none_is_refused(text):
    with pytest.raises(OptionError, match="assign"):
        parse_assignment(text)


def test_an_assignment_names_partitions():
    assert parse_assignment('{"t": [0, 2]}') == {A, C}


@given(behind=sizes, most=st.integers(1, 20_000))
def test_a_limit_is_kept_and_always_leads_on(behind, most):
    start = dict.fromkeys(behind, 100)
    latest = {p: 100 + size for p, size in behind.items()}
    reached = limited(start, latest, most)
    assert all(start[p] <= reached[p] <= latest[p] for p in behind)
    moved = sum(reached.values()) - sum(start.values())
    assert moved <= most
    assert moved > 0 or not sum(behind.values())


def test_a_small_partition_is_not_starved_by_a_large_one():
    reached = limited({A: 0, B: 0}, {A: 1_000_000, B: 3}, 100)
    assert reached[B] >= 1
    assert reached[A] > 90


def test_a_limit_above_what_there_is_takes_all():
    assert limited({A: 0}, {A: 7}, 10) == {A: 7}


def test_a_partition_that_went_backwards_is_no_reason_to_go_back():
    assert limited({A: 9}, {A: 7}, 10) == {A: 9}


@given(
    found=sizes,
    min_partitions=st.none() | st.integers(1, 50),
    max_records=st.none() | st.integers(1, 5_000),
)
def test_the_pieces_are_the_ranges_without_gap_or_overlap(found, min_partitions, max_records):
    ranges = [OffsetRange(p, 5, 5 + size) for p, size in found.items() if size]
    pieces = split(ranges, min_partitions=min_partitions, max_records=max_records)
    for whole in ranges:
        mine = [piece for piece in pieces if piece.partition == whole.partition]
        assert mine[0].start == whole.start
        assert mine[-1].end == whole.end
        assert all(a.end == b.start for a, b in pairwise(mine))
        assert all(piece.size > 0 for piece in mine)
    if max_records is not None:
        assert all(piece.size <= max_records for piece in pieces)


def test_minimum_partitions_cut_the_largest_ranges_most():
    pieces = split(
        [OffsetRange(A, 0, 900), OffsetRange(B, 0, 100)], min_partitions=10, max_records=None
    )
    assert len([piece for piece in pieces if piece.partition == A]) == 9


def test_a_partition_that_is_gone_and_one_made_anew_are_losses():
    ranges, losses = planned({A: 5, B: 5}, {B: 2, C: 4})
    assert ranges == [OffsetRange(C, 0, 4)]
    assert [loss.split()[0] for loss in losses] == ["t-0", "t-1"]
