"""Transactions, as producers and readers depend on them."""

import struct
import time
from collections.abc import Iterator

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.groups import FindCoordinatorRequest
from odradek.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.messages.transactions import InitProducerIdRequest
from odradek.protocol.records import ProducerStamp, iter_headers, iter_records
from odradek.protocol.types import TopicPartition

from tests.behaviours.asking import Asker, batch, produce_request
from tests.behaviours.txn_asking import PATIENCE, Producer

READ_COMMITTED = 1


@pytest.fixture
def producer(port: int, name: str) -> Iterator[Producer]:
    with Producer(port, name) as made:
        yield made.init()


@pytest.fixture
def where(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def fetched(asker: Asker, topic: str, offset: int = 0):
    return asker.fetch(topic, offset, isolation_level=READ_COMMITTED)


def committed_values(asker: Asker, topic: str) -> list[bytes]:
    """What a client that reads committed records alone is left with."""
    data = fetched(asker, topic)
    aborted = sorted((a.first_offset, a.producer_id) for a in data.aborted_transactions)
    open_aborts: set[int] = set()
    values = []
    records = bytes(data.records)
    for position, header in iter_headers(records):
        while aborted and aborted[0][0] <= header.base_offset:
            open_aborts.add(aborted.pop(0)[1])
        if header.is_control:
            open_aborts.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborts):
            values += [record.value for record in iter_records(records, position, header)]
    return values


def wait_until_stable(asker: Asker, topic: str, offset: int) -> None:
    """Markers follow the answer to EndTxn in their own time."""
    deadline = time.monotonic() + PATIENCE
    while (data := fetched(asker, topic)).last_stable_offset < offset:
        assert time.monotonic() < deadline, data
        time.sleep(0.01)


# Readers ------------------------------------------------------------------------------------


def test_records_of_an_open_transaction_are_not_shown_to_readers_of_committed_ones(
    asker, producer, topic
):
    producer.write(topic, b"a", b"b")
    data = fetched(asker, topic)
    assert (data.last_stable_offset, data.high_watermark, bytes(data.records)) == (0, 2, b"")
    assert asker.list_offset(topic, -1).offset == 2
    plain = asker.fetch(topic, 0)
    assert len(bytes(plain.records)) > 0
    assert plain.aborted_transactions is None


def test_a_commit_shows_the_records(asker, producer, topic):
    producer.write(topic, b"a", b"b")
    assert producer.end(commit=True) is Errors.NONE
    wait_until_stable(asker, topic, 3)
    assert committed_values(asker, topic) == [b"a", b"b"]
    assert fetched(asker, topic).aborted_transactions == []


def test_an_abort_is_told_with_the_records(asker, producer, topic):
    asker.produce(topic, batch(b"before"))
    producer.write(topic, b"a", b"b")
    assert producer.end(commit=False) is Errors.NONE
    wait_until_stable(asker, topic, 4)
    (aborted,) = fetched(asker, topic).aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (producer.id, 1)
    assert committed_values(asker, topic) == [b"before"]


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(asker, port, name, topic):
    with Producer(port, name + "-1") as first, Producer(port, name + "-2") as second:
        first.init().write(topic, b"old")
        second.init().write(topic, b"new")
        second.end(commit=True)
        second.wait_for_state("CompleteCommit")
        assert fetched(asker, topic).last_stable_offset == 0
        first.end(commit=False)
        wait_until_stable(asker, topic, 4)
    assert committed_values(asker, topic) == [b"new"]


def test_the_marker_is_a_control_batch_of_the_producer(asker, producer, topic):
    producer.write(topic, b"a")
    producer.end(commit=True)
    wait_until_stable(asker, topic, 2)
    records = bytes(asker.fetch(topic, 1).records)
    ((position, header),) = iter_headers(records)
    (record,) = iter_records(records, position, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch) == (producer.id, producer.epoch)
    assert record.key == struct.pack(">hh", 0, 1)
    assert struct.unpack(">hi", record.value)[0] == 0


def test_all_partitions_of_a_transaction_end_together(asker, producer, name):
    asker.create(name, partitions=3)
    for partition in range(3):
        producer.write(name, b"%d" % partition, partition=partition)
    found = producer.describe()
    assert found.transaction_state == "Ongoing"
    assert [(t.topic, sorted(t.partitions)) for t in found.topics] == [(name, [0, 1, 2])]
    producer.end(commit=True)
    ended = producer.wait_for_state("CompleteCommit")
    assert ended.topics == []


# InitProducerId -----------------------------------------------------------------------------


def test_every_init_gets_the_next_epoch_of_the_same_id(port, name):
    with Producer(port, name) as producer:
        first = producer.init()
        assert (first.id >= 0, first.epoch) == (True, 0)
        known = first.id
        assert (producer.init().id, producer.epoch) == (known, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_transaction_timeout_outside_of_the_bounds_is_refused(port, name, timeout_ms):
    with Producer(port, name, timeout_ms=timeout_ms) as producer:
        producer.find_coordinator()
        assert producer.ask_init().error_code == Errors.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("holder", [{"producer_id": 5}, {"epoch": 5}])
def test_an_id_without_an_epoch_is_refused(port, name, holder):
    with Producer(port, name) as producer:
        producer.find_coordinator()
        assert producer.ask_init(**holder).error_code == Errors.INVALID_REQUEST


def test_an_empty_transactional_id_is_refused(port):
    with Producer(port, "") as producer:
        assert producer.ask_init().error_code == Errors.INVALID_REQUEST


def test_an_init_aborts_the_open_transaction_of_the_former_holder(asker, port, producer, topic):
    producer.write(topic, b"a")
    with Producer(port, producer.transactional_id) as other:
        answer = other.ask_init()
        assert answer.error_code == Errors.CONCURRENT_TRANSACTIONS
        other.init()
        assert (other.id, other.epoch) == (producer.id, producer.epoch + 2)
    wait_until_stable(asker, topic, 2)
    assert committed_values(asker, topic) == []


def test_a_former_holder_is_fenced(port, producer, topic, where):
    producer.write(topic, b"a")
    with Producer(port, producer.transactional_id) as other:
        other.init()
    assert producer.add(where) is Errors.PRODUCER_FENCED
    assert producer.add(where, version=1) is Errors.INVALID_PRODUCER_EPOCH
    assert producer.end(commit=True) is Errors.PRODUCER_FENCED
    assert producer.ask_end(commit=True, version=1) is Errors.INVALID_PRODUCER_EPOCH
    assert producer.ask_add_offsets("g") is Errors.PRODUCER_FENCED
    assert producer.produce(topic, b"late").error_code == Errors.INVALID_PRODUCER_EPOCH


def test_a_holder_goes_on_with_its_own_id_and_epoch(producer):
    known, epoch = producer.id, producer.epoch
    producer.init(producer_id=known, epoch=epoch)
    assert (producer.id, producer.epoch) == (known, epoch + 1)


def test_a_holder_that_asks_twice_gets_the_same_epoch(producer):
    known, epoch = producer.id, producer.epoch
    producer.init(producer_id=known, epoch=epoch)
    producer.init(producer_id=known, epoch=epoch)
    assert (producer.id, producer.epoch) == (known, epoch + 1)


@pytest.mark.parametrize(
    ("version", "error"), [(4, Errors.PRODUCER_FENCED), (3, Errors.INVALID_PRODUCER_EPOCH)]
)
def test_a_holder_of_an_older_epoch_does_not_go_on(port, producer, version, error):
    with Producer(port, producer.transactional_id) as other:
        other.init()
        other.init()
    answer = producer.ask_init(version, producer_id=producer.id, epoch=producer.epoch)
    assert answer.error_code == error
    wrong = producer.ask_init(version, producer_id=producer.id + 100_000, epoch=0)
    assert wrong.error_code == error


def test_find_coordinator_knows_no_other_types_of_keys(asker):
    answer = asker.ask(FindCoordinatorRequest(key="x", key_type=9), 3)
    assert answer.error_code == Errors.INVALID_REQUEST


# Partitions ---------------------------------------------------------------------------------


def test_an_unknown_partition_is_not_added_and_nothing_else_is(producer, where):
    unknown = TopicPartition(where.topic, 7)
    assert producer.ask_add(where, unknown) == {
        where: Errors.OPERATION_NOT_ATTEMPTED,
        unknown: Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert producer.describe().transaction_state == "Empty"


def test_a_partition_may_be_added_twice(producer, where):
    assert producer.add(where) is Errors.NONE
    assert producer.add(where) is Errors.NONE


def test_an_unknown_holder_adds_nothing(producer, where):
    producer.id += 100_000
    assert producer.add(where) is Errors.INVALID_PRODUCER_ID_MAPPING
    assert producer.ask_add_offsets("g") is Errors.INVALID_PRODUCER_ID_MAPPING
    assert producer.ask_end(commit=True) is Errors.INVALID_PRODUCER_ID_MAPPING


def test_an_unknown_transactional_id_adds_nothing(port, name, where):
    with Producer(port, name) as stranger:
        stranger.find_coordinator()
        stranger.id, stranger.epoch = 1, 0
        assert stranger.add(where) is Errors.INVALID_PRODUCER_ID_MAPPING


def test_brokers_ask_whether_a_partition_belongs_to_the_transaction(producer, where):
    assert producer.verify(where) is Errors.TRANSACTION_ABORTABLE
    producer.add(where)
    assert producer.verify(where) is Errors.NONE
    assert producer.verify(TopicPartition(where.topic, 9)) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    producer.epoch += 1
    assert producer.verify(where) is Errors.PRODUCER_FENCED
    producer.id += 100_000
    assert producer.verify(where) is Errors.INVALID_PRODUCER_ID_MAPPING


# The data path ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "error"), [(9, Errors.INVALID_TXN_STATE), (11, Errors.TRANSACTION_ABORTABLE)]
)
def test_a_batch_for_a_partition_outside_of_the_transaction_is_refused(
    asker, producer, topic, version, error
):
    assert producer.produce(topic, b"a", version=version).error_code == error
    assert asker.list_offset(topic, -1).offset == 0


def test_a_batch_after_the_end_of_its_transaction_is_refused(asker, producer, topic):
    producer.write(topic, b"a")
    producer.end(commit=True)
    producer.wait_for_state("CompleteCommit")
    assert producer.produce(topic, b"late").error_code == Errors.INVALID_TXN_STATE
    assert asker.list_offset(topic, -1).offset == 2


def test_a_batch_that_comes_again_within_its_transaction_gets_its_first_offset(producer, topic):
    producer.write(topic, b"a")
    assert producer.produce(topic, b"a", sequence=0).base_offset == 0


@pytest.mark.odradek_only
def test_a_sequence_of_an_aborted_transaction_is_no_repetition_in_the_next(producer, topic):
    """Kafka answers with the offset of the first batch, which is aborted."""
    producer.write(topic, b"a")
    producer.end(commit=False)
    producer.wait_for_state("CompleteAbort")
    assert producer.add(TopicPartition(topic, 0)) is Errors.NONE
    answer = producer.produce(topic, b"a", sequence=0)
    assert (answer.error_code, answer.base_offset) == (Errors.UNKNOWN_PRODUCER_ID, -1)


def test_a_batch_of_an_unknown_producer_is_refused(producer, topic):
    producer.id += 100_000
    answer = producer.produce(topic, b"a")
    assert answer.error_code == Errors.INVALID_PRODUCER_ID_MAPPING


def test_a_batch_that_is_not_part_of_the_open_transaction_is_refused(asker, producer, topic):
    producer.write(topic, b"a")
    stamped = producer_batch(producer, sequence=1)
    assert asker.produce(topic, stamped).error_code == Errors.INVALID_TXN_STATE


def producer_batch(producer: Producer, sequence: int) -> bytes:

    return batch(b"plain", producer=ProducerStamp(producer.id, producer.epoch, sequence))


def test_a_batch_that_is_sent_again_gets_its_first_offset(asker, producer, topic):
    producer.write(topic, b"a")
    again = producer.produce(topic, b"a", sequence=0)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert asker.list_offset(topic, -1).offset == 1


def test_transactional_records_need_a_transactional_id(asker, producer, topic, where):
    producer.add(where)

    stamp = ProducerStamp(producer.id, producer.epoch, 0, is_transactional=True)
    answer = asker.produce(topic, batch(producer=stamp), acks=-1)
    assert answer.error_code == Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = produce_request(topic, batch(), acks=-1)
    request.transactional_id = producer.transactional_id
    plain = asker.ask(request, 9).responses[0].partition_responses[0]
    assert plain.error_code == 0


# EndTxn -------------------------------------------------------------------------------------


def test_an_end_without_a_beginning_is_refused(producer):
    assert producer.ask_end(commit=True) is Errors.INVALID_TXN_STATE
    assert producer.ask_end(commit=False) is Errors.INVALID_TXN_STATE


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_may_be_asked_for_again_but_not_the_other_one(producer, topic, commit):
    producer.write(topic, b"a")
    assert producer.end(commit=commit) is Errors.NONE
    assert producer.end(commit=commit) is Errors.NONE
    producer.wait_for_state("CompleteCommit", "CompleteAbort")
    assert producer.ask_end(commit=not commit) is Errors.INVALID_TXN_STATE


def test_one_transaction_follows_another(asker, producer, topic):
    for number in range(5):
        producer.write(topic, b"%d" % number)
        assert producer.end(commit=number % 2 == 0) is Errors.NONE
    producer.wait_for_state("CompleteCommit")
    assert committed_values(asker, topic) == [b"0", b"2", b"4"]


def test_the_end_of_an_epoch_that_is_not_the_current_one_is_refused(producer, topic):
    producer.write(topic, b"a")
    producer.epoch += 1
    assert producer.ask_end(commit=True) is Errors.PRODUCER_FENCED


# Offsets ------------------------------------------------------------------------------------


def test_offsets_take_effect_with_the_commit(producer, name, where):
    group = f"g-{name}"
    assert producer.add_offsets(group) is Errors.NONE
    assert producer.commit_offset(group, where, 17) is Errors.NONE
    assert producer.committed_offset(group, where) == (-1, Errors.NONE)
    assert producer.committed_offset(group, where, stable=True) == (
        -1,
        Errors.UNSTABLE_OFFSET_COMMIT,
    )
    producer.end(commit=True)
    producer.wait_for_state("CompleteCommit")
    assert producer.committed_offset(group, where, stable=True) == (17, Errors.NONE)


def test_offsets_are_dropped_with_an_abort(producer, name, where):
    group = f"g-{name}"
    producer.add_offsets(group)
    producer.commit_offset(group, where, 17)
    producer.end(commit=False)
    producer.wait_for_state("CompleteAbort")
    assert producer.committed_offset(group, where, stable=True) == (-1, Errors.NONE)


def test_offsets_of_a_group_outside_of_the_transaction_are_refused(producer, name, where):
    group = f"g-{name}"
    producer.find_coordinator(group=group)
    assert producer.commit_offset(group, where, 17) is Errors.INVALID_TXN_STATE
    assert producer.ask_commit_offset(group, where, 17, 4) is Errors.TRANSACTION_ABORTABLE
    producer.id += 100_000
    assert producer.commit_offset(group, where, 17) is Errors.INVALID_PRODUCER_ID_MAPPING


def test_offsets_of_a_member_that_is_not_one_are_refused(producer, name, where):
    group = f"g-{name}"
    producer.add_offsets(group)
    assert producer.commit_offset(group, where, 1) is Errors.NONE
    stale = producer.ask_commit_offset(group, where, 2, generation_id=4, member_id="m")
    assert stale in (Errors.ILLEGAL_GENERATION, Errors.UNKNOWN_MEMBER_ID)


# Time and administration --------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    asker, port, name, topic, where
):
    with Producer(port, name, timeout_ms=1) as producer:
        producer.init().write(topic, b"a")
        producer.wait_for_state("CompleteAbort")
        assert producer.ask_end(commit=True) is Errors.PRODUCER_FENCED
        assert producer.add(where) is Errors.PRODUCER_FENCED
    wait_until_stable(asker, topic, 2)
    assert committed_values(asker, topic) == []


def test_transactions_are_described_and_listed(asker, producer, topic):
    producer.write(topic, b"a")
    found = producer.describe()
    assert found.error_code == 0
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (found.producer_id, found.producer_epoch) == (producer.id, 0)
    assert found.transaction_start_time_ms > 0

    def listed(**filters: object) -> set[str]:
        wanted = {"state_filters": [], "producer_id_filters": [], **filters}
        answer = asker.ask(ListTransactionsRequest(**wanted), 1)
        assert answer.error_code == 0
        return {each.transactional_id for each in answer.transaction_states}

    mine = producer.transactional_id
    assert mine in listed()
    assert mine in listed(state_filters=["Ongoing"])
    assert mine not in listed(state_filters=["Empty"])
    assert listed(producer_id_filters=[producer.id]) == {mine}
    assert mine not in listed(duration_filter=3_600_000)
    strange = ListTransactionsRequest(state_filters=["Odd"], producer_id_filters=[])
    assert asker.ask(strange, 0).unknown_state_filters == ["Odd"]


def test_an_unknown_transactional_id_is_not_found(port, name):
    with Producer(port, name) as stranger:
        stranger.find_coordinator()
        assert stranger.describe().error_code == Errors.TRANSACTIONAL_ID_NOT_FOUND


def test_producers_of_a_partition_are_described(asker, producer, topic):
    producer.write(topic, b"a", b"b")
    wanted = DescribeProducersTopicRequest(name=topic, partition_indexes=[0, 9])
    answer = asker.ask(DescribeProducersRequest(topics=[wanted]), 0)
    known, unknown = answer.topics[0].partitions
    (found,) = known.active_producers
    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (producer.id, 0, 1)
    assert (found.coordinator_epoch, found.current_txn_start_offset) == (-1, 0)
    assert unknown.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_marker_from_outside_ends_a_transaction_in_one_partition(asker, producer, topic):
    producer.write(topic, b"a")
    marker = WritableTxnMarker(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0, 9])],
    )
    answer = asker.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    results = {p.partition_index: p.error_code for p in answer.markers[0].topics[0].partitions}
    assert results == {0: Errors.NONE, 9: Errors.UNKNOWN_TOPIC_OR_PARTITION}
    wait_until_stable(asker, topic, 2)
    assert committed_values(asker, topic) == []


def test_markers_of_older_producers_and_coordinators_are_refused(asker, producer, topic):
    producer.init()
    producer.write(topic, b"a")

    def mark(epoch: int, coordinator_epoch: int) -> int:
        marker = WritableTxnMarker(
            producer_id=producer.id,
            producer_epoch=epoch,
            transaction_result=True,
            coordinator_epoch=coordinator_epoch,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        )
        answer = asker.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        return int(answer.markers[0].topics[0].partitions[0].error_code)

    assert mark(epoch=0, coordinator_epoch=5) == Errors.INVALID_PRODUCER_EPOCH
    assert mark(epoch=1, coordinator_epoch=5) == Errors.NONE
    assert mark(epoch=1, coordinator_epoch=4) == Errors.TRANSACTION_COORDINATOR_FENCED


def test_an_idempotent_producer_needs_no_coordinator(asker):
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    first, second = asker.ask(request, 5), asker.ask(request, 0)
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert first.producer_id != second.producer_id
