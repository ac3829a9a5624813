"""The short way of a fetch request answers as the long one, or lets it do so."""

from collections.abc import Callable

import pytest
from odradek.broker.handlers.fetch_again import SMALL_BYTES, FetchAgain
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.clock import ManualClock
from odradek.protocol.compiler import Part
from odradek.protocol.frames import (
    LENGTH,
    decode_request,
    encode_request,
    encode_response,
    read_request_header,
)
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchForgottenTopic,
    FetchPartition,
    FetchPartitionData,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.records import EndTxnMarker, ProducerStamp, build_batch, end_txn_marker
from odradek.protocol.records import Record as Row
from odradek.protocol.types import NO_ID
from odradek.replication.partition import Partition
from odradek.storage.files import FileSlice
from odradek.storage.log_reading import Isolation
from odradek.storage.validation import Origin

from tests.unit.replication.conftest import LOCAL, batch, new_partition

PEER = Peer("PLAINTEXT", Address("127.0.0.1", 1), Address("127.0.0.1", 2))
CORRELATION = 7654321
EPOCH = 5
VERSIONS = range(11, 18)
FIRST_WITH_IDS = 13
MAX_BYTES = 1 << 20


@pytest.fixture
def partition() -> Partition:
    made = new_partition(ManualClock())
    made.become_leader(epoch=EPOCH, partition_epoch=0, replicas=(LOCAL,), isr=(LOCAL,))
    for count in (1, 3, 2):
        made.append(batch(count), acks=1, produce_version=11)
    return made


@pytest.fixture
def again(partition: Partition) -> FetchAgain:
    return FetchAgain(
        {partition.where: partition}.get, {partition.topic_id: "t"}.get, max_bytes=MAX_BYTES
    )


def request(partition: Partition, offset: int = 0, version: int = 17, **top: int) -> FetchRequest:
    asked = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=MAX_BYTES, current_leader_epoch=EPOCH
    )
    by_id = version >= FIRST_WITH_IDS
    topic = FetchTopic(
        topic="" if by_id else "t",
        topic_id=partition.topic_id if by_id else NO_ID,
        partitions=[asked],
    )
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=MAX_BYTES, topics=[topic], **top)


def frame_of(asked: FetchRequest, version: int, client: str | None = "c") -> bytearray:
    return bytearray(encode_request(asked, version, CORRELATION, client)[LENGTH.size :])


def learn(again: FetchAgain, asked: FetchRequest, version: int = 17) -> bytearray:
    frame = frame_of(asked, version)
    header = read_request_header(frame)
    decoded = decode_request(frame, header)
    assert isinstance(decoded, FetchRequest)
    again.learn(frame, header, decoded)
    return frame


def long_way(partition: Partition, offset: int, version: int, *, committed: bool) -> bytes:
    """What the handler answers to a read from that offset, as it is sent."""
    isolation = Isolation.LAST_STABLE if committed else Isolation.HIGH_WATERMARK
    records, bounds, _ = partition.read(offset, MAX_BYTES, isolation=isolation, min_one_batch=True)
    assert records is not None
    data = FetchPartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=bounds.high_watermark,
        last_stable_offset=bounds.last_stable,
        log_start_offset=bounds.log_start,
        aborted_transactions=[] if committed else None,
        records=records.read(),
    )
    by_id = version >= FIRST_WITH_IDS
    topic = FetchableTopicResponse(
        topic="" if by_id else "t",
        topic_id=partition.topic_id if by_id else NO_ID,
        partitions=[data],
    )
    return sent(encode_response(FetchResponse(responses=[topic]), version, CORRELATION))


def sent(parts: list[Part] | None) -> bytes:
    assert parts is not None, "it was answered"
    return b"".join(p.read() if isinstance(p, FileSlice) else bytes(p) for p in parts)


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_request_is_answered_like_a_decoded_one(
    again: FetchAgain, partition: Partition, version: int, isolation_level: int
) -> None:
    learn(again, request(partition, 0, version, isolation_level=isolation_level), version)
    for offset in (0, 1, 2, 5):
        asked = request(partition, offset, version, isolation_level=isolation_level)
        expected = long_way(partition, offset, version, committed=bool(isolation_level))
        answer = again.answer(frame_of(asked, version), PEER)
        assert sent(answer) == expected
        assert len(answer or ()) == 1, "one piece, sent by one call"


@pytest.mark.parametrize("version", VERSIONS)
def test_much_is_answered_by_a_slice(again: FetchAgain, partition: Partition, version: int) -> None:
    learn(again, request(partition, 0, version), version)
    partition.append(batch(SMALL_BYTES // 10), acks=1, produce_version=11)
    answer = again.answer(frame_of(request(partition, 6, version), version), PEER)
    assert sent(answer) == long_way(partition, 6, version, committed=False)
    assert [type(part) for part in answer or ()] == [bytes, FileSlice, bytes]


def test_what_was_not_learned_takes_the_long_way(again: FetchAgain, partition: Partition) -> None:
    assert again.answer(frame_of(request(partition), 17), PEER) is None
    learn(again, request(partition))
    fewer = request(partition)
    fewer.topics[0].partitions[0].partition_max_bytes = 100
    others = [
        frame_of(request(partition, isolation_level=1), 17),
        frame_of(fewer, 17),
        frame_of(request(partition), 17, client="d"),
        frame_of(request(partition), 16),
        frame_of(request(partition), 17)[:40],
        bytearray(),
        bytearray(b"\x00\x01"),
    ]
    assert [again.answer(other, PEER) for other in others] == [None] * len(others)


def test_a_version_that_only_ends_like_a_known_one_is_another(
    again: FetchAgain, partition: Partition
) -> None:
    frame = learn(again, request(partition))
    frame[2] = 1
    assert again.answer(frame, PEER) is None


def _in_a_session(asked: FetchRequest) -> None:
    asked.session_id, asked.session_epoch = 1, 2


def _begins_a_session(asked: FetchRequest) -> None:
    asked.session_epoch = 0


def _of_a_follower(asked: FetchRequest) -> None:
    asked.replica_state = FetchReplicaState(replica_id=2, replica_epoch=1)


def _from_a_rack(asked: FetchRequest) -> None:
    asked.rack_id = "r"


def _for_more(asked: FetchRequest) -> None:
    asked.min_bytes = 2


def _of_two_partitions(asked: FetchRequest) -> None:
    asked.topics[0].partitions.append(
        FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1)
    )


def _with_an_epoch_to_compare(asked: FetchRequest) -> None:
    asked.topics[0].partitions[0].last_fetched_epoch = EPOCH


def _that_forgets(asked: FetchRequest) -> None:
    asked.forgotten_topics_data = [FetchForgottenTopic(topic_id=bytes(16), partitions=[1])]


def _for_a_cluster(asked: FetchRequest) -> None:
    asked.cluster_id = "c"


def _for_a_directory(asked: FetchRequest) -> None:
    asked.topics[0].partitions[0].replica_directory_id = bytes(range(16))


@pytest.mark.parametrize(
    "change",
    [
        _for_a_cluster,
        _for_a_directory,
        _in_a_session,
        _begins_a_session,
        _of_a_follower,
        _from_a_rack,
        _for_more,
        _of_two_partitions,
        _with_an_epoch_to_compare,
        _that_forgets,
    ],
)
def test_requests_of_other_kinds_always_take_the_long_way(
    again: FetchAgain, partition: Partition, change: Callable[[FetchRequest], None]
) -> None:
    asked = request(partition)
    change(asked)
    assert again.answer(learn(again, asked), PEER) is None


@pytest.mark.parametrize("offset", [-1, 6, 7, 1000])
def test_where_there_is_nothing_to_read_the_long_way_says_so_or_waits(
    again: FetchAgain, partition: Partition, offset: int
) -> None:
    learn(again, request(partition))
    assert again.answer(frame_of(request(partition, offset), 17), PEER) is None


def test_nothing_is_read_that_is_not_committed(again: FetchAgain, partition: Partition) -> None:
    frame = learn(again, request(partition, 5))
    assert again.answer(frame, PEER) is not None
    partition.log.update_high_watermark(5)
    assert again.answer(frame, PEER) is None


def test_a_partition_that_is_led_elsewhere_or_anew_takes_the_long_way(
    again: FetchAgain, partition: Partition
) -> None:
    frame = learn(again, request(partition))
    assert again.answer(frame, PEER) is not None
    partition.become_leader(epoch=EPOCH + 1, partition_epoch=1, replicas=(LOCAL,), isr=(LOCAL,))
    assert again.answer(frame, PEER) is None
    partition.resign()
    assert again.answer(frame, PEER) is None


def test_a_topic_that_was_made_again_takes_the_long_way(
    again: FetchAgain, partition: Partition
) -> None:
    frame = learn(again, request(partition))
    partition.topic_id = bytes(range(16))
    assert again.answer(frame, PEER) is None


def test_aborted_transactions_are_told_by_the_long_way(
    again: FetchAgain, partition: Partition
) -> None:
    frame = learn(again, request(partition, isolation_level=1))
    assert again.answer(frame, PEER) is not None
    stamp = ProducerStamp(9, 0, 0, is_transactional=True)
    written = build_batch([Row(0, 1_700_000_000_000, None, b"v")], producer=stamp)
    partition.append(bytearray(written), acks=1, produce_version=11)
    marker = end_txn_marker(
        EndTxnMarker(False, 0), producer_id=9, producer_epoch=0, timestamp=1_700_000_000_000
    )
    partition.append(bytearray(marker), acks=1, origin=Origin.COORDINATOR, produce_version=11)
    assert again.answer(frame, PEER) is None
    uncommitted = learn(again, request(partition))
    assert again.answer(uncommitted, PEER) is not None


def test_a_log_that_has_failed_takes_the_long_way(again: FetchAgain, partition: Partition) -> None:
    frame = learn(again, request(partition))
    partition.log.fail(OSError("gone"))
    assert again.answer(frame, PEER) is None
