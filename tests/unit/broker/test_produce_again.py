"""The short way of a produce request answers as the long one, or lets it do so."""

import asyncio
import struct
from collections.abc import Callable, Iterator, Sequence
from weakref import ref

import pytest
from odradek.broker.handlers.produce_again import ATTRIBUTES_LOW, ProduceAgain
from odradek.broker.later import Later
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.clock import ManualClock
from odradek.protocol.compiler import Part
from odradek.protocol.errors import Errors
from odradek.protocol.frames import (
    LENGTH,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records import HEADER_BYTES, TRANSACTIONAL_BIT, write_crc
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import LOCAL, batch, new_partition

PEER = Peer("PLAINTEXT", Address("127.0.0.1", 1), Address("127.0.0.1", 2))
CORRELATION = 1234567
PLACE = TopicPartition("t", 0)
VERSIONS = range(5, 12)


@pytest.fixture
def partition() -> Partition:
    made = new_partition(ManualClock())
    made.become_leader(epoch=5, partition_epoch=0, replicas=(LOCAL,), isr=(LOCAL,))
    # The first batch of an epoch takes the long way, whatever it looks like.
    made.append(batch(), acks=1, produce_version=11)
    return made


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Never run: nothing here takes time."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def again(partition: Partition, loop: asyncio.AbstractEventLoop) -> ProduceAgain:
    return ProduceAgain({partition.where: partition}.get, loop)


def request(
    records: bytes | bytearray | None = None, *, acks: int = 1, topic: str = "t", index: int = 0
) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=bytes(batch() if records is None else records))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def frame_of(asked: ProduceRequest, version: int, client: str | None = "c") -> bytearray:
    return bytearray(encode_request(asked, version, CORRELATION, client)[LENGTH.size :])


def learn(
    again: ProduceAgain, asked: ProduceRequest, version: int = 11, client: str | None = "c"
) -> bytearray:
    frame = frame_of(asked, version, client)
    header = read_request_header(frame)
    request = decode_request(frame, header)
    assert isinstance(request, ProduceRequest)
    again.learn(frame, header, request)
    return frame


def answer_at(offset: int, version: int, log_start: int = 0) -> list[Part]:
    """What the long way says of an append at that offset."""
    result = PartitionProduceResponse(
        index=0, error_code=0, base_offset=offset, log_append_time_ms=-1, log_start_offset=log_start
    )
    topics = [TopicProduceResponse(name="t", partition_responses=[result])]
    return encode_response(ProduceResponse(responses=topics), version, CORRELATION)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_request_is_answered_like_a_decoded_one(
    again: ProduceAgain, partition: Partition, version: int, acks: int
) -> None:
    learn(again, request(acks=acks), version)
    assert again.answer(frame_of(request(batch(3), acks=acks), version), PEER) == answer_at(
        1, version
    )
    assert again.answer(frame_of(request(batch(200), acks=acks), version), PEER) == answer_at(
        4, version
    )
    assert partition.log.log_end_offset == 204


@pytest.mark.parametrize("version", VERSIONS)
def test_who_wants_no_answer_gets_none(
    again: ProduceAgain, partition: Partition, version: int
) -> None:
    learn(again, request(acks=0), version)
    assert again.answer(frame_of(request(batch(3), acks=0), version), PEER) == ()
    assert partition.log.log_end_offset == 4


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_not_learned_takes_the_long_way(
    again: ProduceAgain, partition: Partition, version: int
) -> None:
    assert again.answer(frame_of(request(), version), PEER) is None
    learn(again, request(), version)
    others = [
        frame_of(request(index=1), version),
        frame_of(request(topic="u"), version),
        frame_of(request(acks=-1), version),
        frame_of(request(acks=0), version),
        frame_of(request(), version, client="d"),
        frame_of(request(), version, client=None),
        frame_of(request(), version - 1),
    ]
    assert [again.answer(other, PEER) for other in others] == [None] * len(others)
    assert partition.log.log_end_offset == 1


def test_a_version_that_only_ends_like_a_known_one_is_another(again: ProduceAgain) -> None:
    frame = learn(again, request())
    frame[2] = 1
    assert again.answer(frame, PEER) is None


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_answers_of_old_versions_have_another_form(again: ProduceAgain, version: int) -> None:
    learn(again, request(), version)
    assert again.answer(frame_of(request(), version), PEER) is None


def _transactional(records: bytearray) -> None:
    records[ATTRIBUTES_LOW] |= TRANSACTIONAL_BIT
    write_crc(records, 0, len(records))


def _of_an_old_format(records: bytearray) -> None:
    records[16] = 1


def _with_a_wrong_checksum(records: bytearray) -> None:
    records[-1] ^= 1


def _out_of_sequence(records: bytearray) -> None:
    struct.pack_into(">qhi", records, 43, 7, 0, 99)
    write_crc(records, 0, len(records))


@pytest.mark.parametrize(
    "damage", [_transactional, _of_an_old_format, _with_a_wrong_checksum, _out_of_sequence]
)
def test_records_that_need_a_closer_look_take_the_long_way(
    again: ProduceAgain, partition: Partition, damage: Callable[[bytearray], None]
) -> None:
    learn(again, request())
    # The producer is known, so that a gap in its sequence is one.
    known = bytearray(batch())
    struct.pack_into(">qhi", known, 43, 7, 0, 0)
    write_crc(known, 0, len(known))
    assert again.answer(frame_of(request(known), 11), PEER) == answer_at(1, 11)
    records = batch(2)
    damage(records)
    assert again.answer(frame_of(request(records), 11), PEER) is None
    assert partition.log.log_end_offset == 2


def test_a_batch_refused_for_its_sequence_is_handed_on_as_it_came(
    again: ProduceAgain, partition: Partition
) -> None:
    learn(again, request())
    known = bytearray(batch())
    struct.pack_into(">qhi", known, 43, 7, 0, 0)
    write_crc(known, 0, len(known))
    assert again.answer(frame_of(request(known), 11), PEER) == answer_at(1, 11)
    # The first batch of an epoch gets its offset before its producer is looked at.
    partition.become_leader(epoch=6, partition_epoch=1, replicas=(LOCAL,), isr=(LOCAL,))
    records = batch(2)
    _out_of_sequence(records)
    frame = frame_of(request(records), 11)
    before = bytes(frame)
    assert again.answer(frame, PEER) is None
    assert frame == before


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_that_is_cut_or_goes_on_takes_the_long_way(
    again: ProduceAgain, partition: Partition, version: int
) -> None:
    frame = learn(again, request(), version)
    for size in range(len(frame)):
        assert again.answer(frame[:size], PEER) is None
    assert again.answer(frame + b"\0", PEER) is None
    assert partition.log.log_end_offset == 1


def test_no_length_leads_past_the_frame(again: ProduceAgain, partition: Partition) -> None:
    frame = learn(again, request(batch(10)))
    at = len(frame) - len(batch(10)) - 3 - 2  # two bytes of length, three empty sections behind
    for length in (b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\xff", b"\x00", b"\x01"):
        bad = bytearray(frame)
        bad[at : at + len(length)] = length
        assert again.answer(bad, PEER) is None
    assert partition.log.log_end_offset == 1


class Replicated:
    """A leader with one follower, which is asked to append to it the short way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **overrides: str) -> None:
        self.partition = new_partition(ManualClock(), **overrides)
        self.lead(5)
        self.partition.append(batch(), acks=1, produce_version=11)
        self.again = ProduceAgain({self.partition.where: self.partition}.get, loop)

    def lead(self, epoch: int, isr: tuple[int, ...] = (LOCAL, 2)) -> None:
        self.partition.become_leader(
            epoch=epoch, partition_epoch=epoch, replicas=(LOCAL, 2), isr=isr
        )

    def follower_has(self, offset: int) -> None:
        self.partition.note_follower_fetch(
            2, fetch_offset=offset, log_start_offset=0, broker_epoch=-1
        )

    def produce(self, version: int = 11) -> Later[Sequence[Part]]:
        learn(self.again, request(acks=-1), version)
        answer = self.again.answer(frame_of(request(batch(2), acks=-1), version), PEER)
        assert isinstance(answer, Later)
        return answer


def told(answer: Later[Sequence[Part]], version: int = 11) -> PartitionProduceResponse:
    data = b"".join(bytes(part) for part in answer.result)
    _, response = decode_response(data[LENGTH.size :], ProduceRequest, version)
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_must_wait_for_followers_comes_when_they_have_the_records(
    loop: asyncio.AbstractEventLoop, version: int
) -> None:
    one = Replicated(loop)
    answer = one.produce(version)
    one.follower_has(2)
    assert not answer.is_there, "it has one record of two"
    one.follower_has(3)
    assert answer.is_there
    assert answer.result == answer_at(1, version)


def test_a_leader_alone_in_sync_answers_at_once(loop: asyncio.AbstractEventLoop) -> None:
    one = Replicated(loop)
    one.lead(6, isr=(LOCAL,))
    one.partition.append(batch(), acks=1, produce_version=11)
    frame = learn(one.again, request(acks=-1))
    assert one.again.answer(frame, PEER) == answer_at(2, 11)


def test_too_few_in_sync_replicas_are_told_of_on_the_long_way(
    loop: asyncio.AbstractEventLoop,
) -> None:
    one = Replicated(loop, **{"min.insync.replicas": "2"})
    one.lead(6, isr=(LOCAL,))
    frame = learn(one.again, request(acks=-1))
    assert one.again.answer(frame, PEER) is None
    assert one.partition.log.log_end_offset == 1


def test_a_leader_that_is_deposed_while_an_answer_waits_says_so(
    loop: asyncio.AbstractEventLoop,
) -> None:
    one = Replicated(loop)
    answer = one.produce()
    one.partition.become_follower(leader_id=2, epoch=6, partition_epoch=6, replicas=(LOCAL, 2))
    assert told(answer).error_code == Errors.NOT_LEADER_OR_FOLLOWER


def test_an_answer_waits_no_longer_than_its_client() -> None:
    async def scene() -> None:
        one = Replicated(asyncio.get_running_loop())
        asked = request(acks=-1)
        asked.timeout_ms = 1
        frame = learn(one.again, asked)
        answer = one.again.answer(frame, PEER)
        assert isinstance(answer, Later)
        await answer
        assert told(answer).error_code == Errors.REQUEST_TIMED_OUT

    asyncio.run(scene())


def test_an_answer_that_must_wait_for_the_disk_takes_the_long_way(
    loop: asyncio.AbstractEventLoop,
) -> None:
    partition = new_partition(ManualClock(), **{"flush.messages": "1"})
    partition.become_leader(epoch=5, partition_epoch=0, replicas=(LOCAL,), isr=(LOCAL,))
    again = ProduceAgain({partition.where: partition}.get, loop)
    assert again.answer(learn(again, request()), PEER) is None


def test_a_broker_that_does_not_lead_any_more_says_so_on_the_long_way(
    again: ProduceAgain, partition: Partition
) -> None:
    frame = learn(again, request())
    partition.become_follower(leader_id=2, epoch=6, partition_epoch=0, replicas=(LOCAL, 2))
    assert again.answer(frame, PEER) is None


def test_a_partition_that_went_away_is_looked_for_on_the_long_way(
    partition: Partition, loop: asyncio.AbstractEventLoop
) -> None:
    hosted = {partition.where: partition}
    again = ProduceAgain(hosted.get, loop)
    frame = learn(again, request())
    hosted.clear()
    partition.resign()
    assert again.answer(frame, PEER) is None


def test_a_partition_that_was_made_anew_is_learned_anew(
    partition: Partition, loop: asyncio.AbstractEventLoop
) -> None:
    hosted = {partition.where: partition}
    again = ProduceAgain(hosted.get, loop)
    learn(again, request())
    partition.resign()
    renewed = hosted[partition.where] = new_partition(ManualClock())
    renewed.become_leader(epoch=1, partition_epoch=0, replicas=(LOCAL,), isr=(LOCAL,))
    frame = frame_of(request(), 11)
    assert again.answer(frame, PEER) is None
    learn(again, request())
    assert again.answer(frame, PEER) == answer_at(0, 11)
    assert (partition.log.log_end_offset, renewed.log.log_end_offset) == (1, 1)


def test_a_partition_that_is_gone_is_not_kept(loop: asyncio.AbstractEventLoop) -> None:
    hosted = {PLACE: new_partition(ManualClock())}
    again = ProduceAgain(hosted.get, loop)
    frame = learn(again, request())
    gone = ref(hosted.pop(PLACE))
    assert gone() is None, "or the files of deleted topics would stay open"
    assert again.answer(frame, PEER) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name_bytes", [1, 126, 127, 128, 249])
@pytest.mark.parametrize("client", [None, "", "c", "client" * 60])
def test_names_of_any_length_are_known_again(
    loop: asyncio.AbstractEventLoop, version: int, name_bytes: int, client: str | None
) -> None:
    partition = new_partition(ManualClock())
    partition.become_leader(epoch=5, partition_epoch=0, replicas=(LOCAL,), isr=(LOCAL,))
    again = ProduceAgain(lambda _: partition, loop)
    asked = request(topic="t" * name_bytes)
    learn(again, asked, version, client)
    assert again.answer(frame_of(asked, version, client), PEER) is not None
    assert partition.log.log_end_offset == 1


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_always_looked_at(
    partition: Partition, topic: str, loop: asyncio.AbstractEventLoop
) -> None:
    again = ProduceAgain(lambda where: partition, loop)
    assert again.answer(learn(again, request(topic=topic)), PEER) is None


def test_a_batch_cut_below_its_header_takes_the_long_way(again: ProduceAgain) -> None:
    learn(again, request())
    assert again.answer(frame_of(request(batch()[: HEADER_BYTES - 1]), 11), PEER) is None


def test_clients_that_make_up_names_do_not_fill_the_memory(again: ProduceAgain) -> None:
    for number in range(10_000):
        learn(again, request(topic=f"topic-{number}"))
    assert not again._known, "nothing is known of topics that are not there"
    for number in range(10_000):
        learn(again, request(), client=f"client-{number}")
    assert 0 < len(again._known) <= 4096
