"""Fetch, as clients depend on it."""

import threading
import time

import pytest
from odradek.protocol.compression import Codec
from odradek.protocol.errors import Errors
from odradek.protocol.legacy_records import build_message_set, iter_legacy_records
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.topics import DeleteTopicsRequest
from odradek.protocol.records import Record, iter_headers
from odradek.protocol.types import random_id

from tests.behaviours.asking import NOW_MS, Asker, batch


def base_offsets(records: object) -> list[int]:
    return [header.base_offset for _, header in iter_headers(bytes(records or b""))]


@pytest.fixture
def three(asker: Asker, topic: str) -> str:
    """A topic with three batches of two records: offsets 0, 2 and 4."""
    for _ in range(3):
        asker.produce(topic, batch(b"x" * 50, b"y" * 50))
    return topic


def test_data_begins_with_the_batch_that_holds_the_offset(asker: Asker, three: str) -> None:
    assert base_offsets(asker.fetch(three, 3).records) == [2, 4]


def test_the_end_of_the_log_is_empty_and_no_error(asker: Asker, three: str) -> None:
    answer = asker.fetch(three, 6)
    assert (answer.error_code, bytes(answer.records or b"")) == (0, b"")
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (6, 6, 0)


@pytest.mark.parametrize("offset", [7, -1, 2**62])
def test_offsets_outside_the_log_are_out_of_range(asker: Asker, three: str, offset: int) -> None:
    answer = asker.fetch(three, offset)
    assert answer.error_code == Errors.OFFSET_OUT_OF_RANGE
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (
        -1,
        -1,
        -1,
    )


def test_at_least_one_batch_comes_whatever_the_limits(asker: Asker, three: str) -> None:
    assert base_offsets(asker.fetch(three, 0, max_bytes=1).records) == [0]
    assert base_offsets(asker.fetch(three, 0, max_bytes=0).records) == [0]


def test_the_limit_of_the_response_counts_for_all_partitions(asker: Asker, name: str) -> None:
    asker.create(name, partitions=2)
    for index in (0, 1):
        asker.produce(name, batch(b"x" * 500), index=index)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=100,
        topics=[
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=10_000)
                    for index in (1, 0)
                ],
            )
        ],
    )
    answers = asker.ask(request, 11).responses[0].partitions
    served = {answer.partition_index: base_offsets(answer.records) for answer in answers}
    assert served == {1: [0], 0: []}  # in the order of the request


def test_unknown_topics_and_partitions_are_unknown(asker: Asker, topic: str) -> None:
    answer = asker.fetch(topic + "-unknown", 0)
    assert answer.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_waits_for_bytes_until_its_time_is_over(asker: Asker, topic: str) -> None:
    began = time.monotonic()
    answer = asker.fetch(topic, 0, max_wait_ms=300, min_bytes=1)
    assert bytes(answer.records or b"") == b""
    assert time.monotonic() - began >= 0.29


def test_a_waiting_fetch_is_answered_when_records_come(port: int, asker: Asker, topic: str) -> None:
    other = Asker(port)
    producing = threading.Timer(0.2, lambda: other.produce(topic, batch(b"here")))
    producing.start()
    answer = asker.fetch(topic, 0, max_wait_ms=15_000, min_bytes=1)
    producing.join()
    other.close()
    assert base_offsets(answer.records) == [0]


def test_a_fetch_for_many_bytes_waits_for_all_of_them(port: int, asker: Asker, topic: str) -> None:
    other = Asker(port)

    def produce() -> None:
        for _ in range(3):
            other.produce(topic, batch(b"x" * 400))

    producing = threading.Timer(0.1, produce)
    producing.start()
    answer = asker.fetch(topic, 0, max_wait_ms=15_000, min_bytes=1200)
    producing.join()
    other.close()
    assert base_offsets(answer.records) == [0, 1, 2]


def test_a_fetch_waits_for_bytes_of_all_its_partitions_together(
    port: int, asker: Asker, name: str
) -> None:
    asker.create(name, partitions=3)
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=10_000)
        for index in range(3)
    ]
    topics = [FetchTopic(topic=name, partitions=wanted)]
    asker.client.request(FetchRequest(max_wait_ms=15_000, min_bytes=1200, topics=topics), 11)
    other = Asker(port)
    for index in (2, 0, 2):
        other.produce(name, batch(b"x" * 500), index=index)
    other.close()
    _, response = asker.client.read_response(FetchRequest, 11)
    answers = response.responses[0].partitions
    served = {answer.partition_index: base_offsets(answer.records) for answer in answers}
    assert served == {0: [0], 1: [], 2: [0, 1]}


def test_an_error_is_answered_without_waiting(asker: Asker, topic: str) -> None:
    began = time.monotonic()
    asker.fetch(topic, 99, max_wait_ms=10_000)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("epoch", "error"), [(1000, Errors.UNKNOWN_LEADER_EPOCH), (-1, Errors.NONE), (0, Errors.NONE)]
)
def test_the_leader_epoch_a_client_believes_in_is_checked(
    asker: Asker, three: str, epoch: int, error: Errors
) -> None:
    assert asker.fetch(three, 0, current_leader_epoch=epoch).error_code == error


def test_aborted_transactions_are_null_unless_committed_records_are_wanted(
    asker: Asker, three: str
) -> None:
    assert asker.fetch(three, 0).aborted_transactions is None
    assert asker.fetch(three, 0, isolation_level=1).aborted_transactions == []


# Topic ids ----------------------------------------------------------------------------------


def topic_id(asker: Asker, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    return asker.ask(request, 12).topics[0].topic_id


def by_id(id_: bytes, offset: int = 0, **fields: object) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(topic_id=id_, partitions=[partition])],
        **fields,
    )


def test_topics_are_fetched_by_id(asker: Asker, three: str) -> None:
    answer = asker.ask(by_id(topic_id(asker, three)), 13)
    assert base_offsets(answer.responses[0].partitions[0].records) == [0, 2, 4]


def test_an_unknown_topic_id_is_unknown(asker: Asker) -> None:
    answer = asker.ask(by_id(random_id()), 13)
    assert answer.responses[0].partitions[0].error_code == Errors.UNKNOWN_TOPIC_ID


# Sessions -----------------------------------------------------------------------------------


def test_a_session_tells_only_of_changes(asker: Asker, three: str) -> None:
    first = asker.fetch_response(three, 6, session_epoch=0)
    assert first.session_id > 0
    go_on = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=first.session_id, session_epoch=1, topics=[]
    )
    assert asker.ask(go_on, 11).responses == []
    asker.produce(three, batch(b"new"))
    go_on.session_epoch = 2
    answer = asker.ask(go_on, 11)
    assert base_offsets(answer.responses[0].partitions[0].records) == [6]


def test_a_session_hears_of_the_bounds_and_the_end_of_a_topic(asker: Asker, three: str) -> None:
    first = asker.fetch_response(three, 6, session_epoch=0)
    go_on = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=first.session_id, session_epoch=1, topics=[]
    )
    assert asker.ask(go_on, 11).responses == []
    cut = DeleteRecordsPartition(partition_index=0, offset=2)
    asker.ask(
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=three, partitions=[cut])], timeout_ms=5000
        ),
        1,
    )
    go_on.session_epoch = 2
    assert asker.ask(go_on, 11).responses[0].partitions[0].log_start_offset == 2
    asker.ask(DeleteTopicsRequest(topic_names=[three], timeout_ms=5000), 3)
    # Real Kafka deletes a moment after it has answered; then it tells the error in each answer.
    heard = []
    while len(heard) < 2:
        go_on.session_epoch += 1
        heard += [
            p.error_code for topic in asker.ask(go_on, 11).responses for p in topic.partitions
        ]
    assert set(heard) <= {Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.NOT_LEADER_OR_FOLLOWER}


def test_a_session_out_of_step_is_refused_at_the_top(asker: Asker, three: str) -> None:
    opened = asker.fetch_response(three, 6, session_epoch=0).session_id
    wrong_epoch = asker.fetch_response(three, 6, session_id=opened, session_epoch=9)
    assert (wrong_epoch.error_code, wrong_epoch.responses) == (
        Errors.INVALID_FETCH_SESSION_EPOCH,
        [],
    )
    unknown = asker.fetch_response(three, 6, session_id=opened ^ 0x55, session_epoch=1)
    assert unknown.error_code == Errors.FETCH_SESSION_ID_NOT_FOUND


# Old formats --------------------------------------------------------------------------------


def old_records(records: object) -> list[Record]:
    """What an old client reads: it stops at a message that is cut off."""
    return list(iter_legacy_records(bytes(records), may_be_cut_off=True))


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_consumers_get_the_old_format(
    asker: Asker, three: str, version: int, magic: int
) -> None:
    records = bytes(asker.fetch(three, 0, version=version).records)
    assert records[16] == magic
    assert [record.offset for record in old_records(records)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_old_format_of_old_producers_is_taken(
    asker: Asker, topic: str, version: int, magic: int, codec: Codec
) -> None:
    sent = [Record(n, NOW_MS, b"k%d" % n, b"v%d" % n, ()) for n in range(3)]
    message_set = build_message_set(sent, magic=magic, codec=codec)
    answer = asker.produce(topic, message_set, version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    stored = old_records(asker.fetch(topic, 0, version=3).records)
    assert [(r.key, r.value) for r in stored] == [(r.key, r.value) for r in sent]


def test_zstd_topics_are_not_for_consumers_before_fetch_10(asker: Asker, name: str) -> None:
    asker.create(name, configs={"compression.type": "zstd"})
    asker.produce(name, batch(b"x" * 100))
    old = asker.fetch(name, 0, version=9)
    assert old.error_code == Errors.UNSUPPORTED_COMPRESSION_TYPE
    assert base_offsets(asker.fetch(name, 0, version=10).records) == [0]
