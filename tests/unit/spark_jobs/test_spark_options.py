"""What options mean, and that a wrong one is refused with a sentence that names it."""

import pytest
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.offsets import EARLIEST, LATEST, OptionError
from odradek.spark_jobs.options import (
    AtOffsets,
    AtTimes,
    Names,
    NamesLike,
    Partitions,
    sink_options,
    source_options,
)

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
SOURCE = {**SERVERS, "subscribe": "orders"}


def streaming(**more: str):
    return source_options({**SOURCE, **more}, is_streaming=True)


def batch(**more: str):
    return source_options({**SOURCE, **more}, is_streaming=False)


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning():
    assert streaming().starting == AtOffsets(LATEST)
    assert batch().starting == AtOffsets(EARLIEST)
    assert batch().ending == AtOffsets(LATEST)


def test_names_of_options_are_compared_without_regard_to_case():
    found = source_options({"KAFKA.bootstrap.Servers": "a:1", "Subscribe": "t"}, is_streaming=True)
    assert found.kafka == {"bootstrap.servers": "a:1"}
    assert found.subscription == Names(("t",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribe": "b, a"}, Names(("a", "b"))),
        ({"subscribePattern": "t.*"}, NamesLike("t.*")),
        ({"assign": '{"t": [1]}'}, Partitions(frozenset({TopicPartition("t", 1)}))),
    ],
)
def test_three_ways_to_say_what_to_read(given, expected):
    assert source_options({**SERVERS, **given}, is_streaming=True).subscription == expected


def test_times_win_over_offsets_and_one_time_over_many():
    both = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders": {"0": 5}}'}
    assert batch(**both).starting == AtTimes(None, {TopicPartition("orders", 0): 5}, False)
    assert batch(**both, startingTimestamp="7").starting == AtTimes(7, None, False)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500", 500), ("30s", 30_000), ("2 min", 120_000), ("1H", 3_600_000)]
)
def test_a_time_is_written_as_spark_writes_it(text, milliseconds):
    assert streaming(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds
    assert streaming().max_trigger_delay_ms == 15 * 60_000


def test_what_only_the_official_connector_can_tune_is_not_in_the_way():
    official = {"fetchOffset.numRetries": "5", "groupIdPrefix": "mine"}
    assert source_options({**SOURCE, **official}, is_streaming=True) == streaming()


def test_the_group_is_for_progress_and_never_for_the_tasks():
    found = source_options({**SOURCE, "kafka.group.id": "g"}, is_streaming=True)
    assert found.group_id == "g"
    assert "group.id" not in found.kafka


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"maxOffsetPerTrigger": "5"}, "maxoffsetpertrigger"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger, 9"),
        ({"maxTriggerDelay": "a while"}, "maxTriggerDelay"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss"),
        ({"subscribePattern": "x"}, "exactly one of"),
        ({"startingTimestamp": "noon"}, "startingTimestamp"),
        ({"startingOffsets": "middle"}, "startingOffsets"),
        ({"endingOffsets": '{"orders": {"0": 1}}'}, "A stream has no end"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset"),
        ({"kafka.fetch.max.byte": "1"}, "fetch.max.byte"),
        ({"kafka.fetch.max.bytes": "much"}, "fetch.max.bytes"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "startingOffsetsByTimestampStrategy"),
    ],
)
def test_a_wrong_option_is_named(given, named):
    with pytest.raises(OptionError, match=named):
        streaming(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"t":{"0":-2}}'},
    ],
)
def test_a_batch_query_has_a_beginning_and_an_end(given):
    with pytest.raises(OptionError, match="ingOffsets"):
        batch(**given)


def test_without_servers_or_topics_nothing_can_be_read():
    with pytest.raises(OptionError, match="servers is missing"):
        source_options({"subscribe": "t"}, is_streaming=True)
    with pytest.raises(OptionError, match="exactly one of"):
        source_options(SERVERS, is_streaming=True)
    with pytest.raises(OptionError, match="no regular expression"):
        source_options({**SERVERS, "subscribePattern": "("}, is_streaming=True)


def test_the_sink_is_exactly_once_unless_told_otherwise():
    assert sink_options(SERVERS).is_exactly_once
    assert not sink_options({**SERVERS, "exactlyOnce": "FALSE"}).is_exactly_once


def test_the_sinks_transactional_id_is_not_the_users_to_choose():
    with pytest.raises(OptionError, match=r"kafka\.transactional\.id"):
        sink_options({**SERVERS, "kafka.transactional.id": "mine"})
