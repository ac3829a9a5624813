"""A follower with a session: what its leader looks at, and the short way of its fetches."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import pytest
from odradek.broker.context import RequestContext
from odradek.broker.fetch_sessions import LOOK_SECONDS, FetchSession, FetchSessions
from odradek.broker.handlers.fetch import FetchHandler
from odradek.broker.later import Later
from odradek.broker.metadata_cache import ClusterView, MetadataCache
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.clock import ManualClock
from odradek.protocol.compiler import Part
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.frames import (
    LENGTH,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from odradek.protocol.messages.fetch import FetchPartitionData, FetchRequest, FetchResponse
from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import FetchLimits, Sender, Wanted
from odradek.replication.fetch_plan import FetchSession as Plan
from odradek.replication.partition import Partition
from odradek.replication.short_fetch import request_form
from odradek.storage.files import FileSlice

from tests.unit.replication.conftest import batch, new_partition

VERSION, NUMBER, CLIENT = 17, 7, "broker-2"
TOPIC_ID = b"i" * 16
PEER = Peer("PLAINTEXT", Address("127.0.0.1", 1), Address("127.0.0.1", 2))
LIMITS = FetchLimits(max_wait_ms=30_000)
FOLLOWER = Sender(2, 1)


class Pair:
    """A leader of three partitions, and what its follower would send."""

    def __init__(self, limits: FetchLimits = LIMITS) -> None:
        self._limits = limits
        self.clock = ManualClock()
        self.partitions = [new_partition(self.clock, topic_id=TOPIC_ID) for _ in range(3)]
        for partition in self.partitions:
            partition.become_leader(epoch=0, partition_epoch=0, replicas=(1, 2), isr=(1, 2))
        self.sessions = FetchSessions(
            max_slots=5, eviction_seconds=60, clock=self.clock, random=Random(1)
        )
        metadata = MetadataCache()
        metadata.view = ClusterView(names_by_id={TOPIC_ID: "t"})
        handler = FetchHandler(
            replicas=self,  # type: ignore[arg-type]  # of which it uses two methods
            metadata=metadata,
            sessions=self.sessions,
            max_bytes=1 << 20,
            loop=asyncio.get_running_loop(),
        )
        (self._route,) = handler.routes()
        self._plan = Plan()
        self._rows = {TopicPartition("t", i): Wanted(TOPIC_ID, 0, 0, -1, 0) for i in range(3)}

    def hosted(self, where: TopicPartition) -> Partition:
        return self.partitions[where.partition]

    find = hosted

    @property
    def session(self) -> FetchSession:
        (session,) = self.sessions._sessions.values()
        return session

    @property
    def due(self) -> list[int]:
        """The partitions that the next fetch would look at."""
        return [wanted.request.partition for wanted in self.session.unsettled]

    def begin(self) -> FetchResponse:
        """The first fetch, which names everything, and is answered when something came."""
        self.append(0)
        answer = self.long_way(self._plan.request(self._rows, VERSION, FOLLOWER, self._limits))
        assert isinstance(answer, FetchResponse)
        self._plan.answered(answer.session_id)
        self.moved(0, 1)
        return answer

    def append(self, index: int) -> None:
        self.partitions[index].append(batch(), acks=1, produce_version=9)

    def moved(self, index: int, offset: int) -> None:
        where = TopicPartition("t", index)
        self._rows[where] = self._rows[where]._replace(fetch_offset=offset, last_epoch=0)

    def fetch(self, index: int = 0) -> Sequence[Part] | Later[Sequence[Part]] | None:
        """The next one, which names one partition, the short way."""
        where = TopicPartition("t", index)
        form = request_form(VERSION, CLIENT, self._limits)
        frame = self._plan.frame(form, where, self._rows[where], FOLLOWER, NUMBER)
        return self._route.shortcut.answer(bytearray(frame[LENGTH.size :]), PEER)

    def fetch_the_long_way(self, index: int = 0) -> "FetchResponse | Later[FetchResponse]":
        where = TopicPartition("t", index)
        moved = {where: self._rows[where]}
        return self.long_way(self._plan.go_on(moved, VERSION, FOLLOWER, self._limits))

    def request_for_nothing(self) -> FetchRequest:
        return self._plan.go_on({}, VERSION, FOLLOWER, self._limits)

    def long_way(self, request: FetchRequest) -> "FetchResponse | Later[FetchResponse]":
        frame = bytearray(encode_request(request, VERSION, NUMBER, CLIENT)[LENGTH.size :])
        header = read_request_header(frame)
        decoded = decode_request(frame, header)
        try:
            return self._route.handler(decoded, RequestContext(header, PEER, 0.0))
        finally:
            self._route.shortcut.learn(frame, header, decoded)

    def answered(self) -> None:
        """The follower has taken the last answer."""
        self._plan.answered(self.session.id)


def sent(parts: Sequence[Part] | Later[Sequence[Part]] | None) -> bytes:
    if isinstance(parts, Later):
        assert parts.is_there, "it was answered"
        parts = parts.result
    assert parts is not None, "it took the short way"
    return b"".join(p.read() if isinstance(p, FileSlice) else bytes(p) for p in parts)


def told(data: bytes) -> dict[int, FetchPartitionData]:
    _, response = decode_response(data[LENGTH.size :], FetchRequest, VERSION)
    assert isinstance(response, FetchResponse)
    return {row.partition_index: row for topic in response.responses for row in topic.partitions}


def play(scene: Callable[[Pair], None]) -> None:
    async def go() -> None:
        scene(Pair())

    asyncio.run(go())


def test_the_short_way_answers_with_the_bytes_of_the_long_one():
    answers = []

    def short(pair: Pair) -> None:
        pair.begin()
        answer = pair.fetch()
        pair.append(1)
        answers.append(sent(answer))

    def long(pair: Pair) -> None:
        pair.begin()
        answer = pair.fetch_the_long_way()
        pair.append(1)
        assert isinstance(answer, Later)
        answers.append(sent(encode_response(answer.result, VERSION, NUMBER)))

    play(short)
    play(long)
    assert answers[0] == answers[1]
    assert list(told(answers[0])) == [1]


def test_a_follower_that_asks_for_more_has_what_it_was_sent():
    def scene(pair: Pair) -> None:
        pair.begin()
        assert pair.partitions[0].log.high_watermark == 0
        pair.fetch()
        assert pair.partitions[0].log.high_watermark == 1

    play(scene)


def test_partitions_that_do_not_move_are_left_alone():
    def scene(pair: Pair) -> None:
        pair.begin()
        pair.fetch()
        assert pair.due == []
        pair.append(1)
        assert pair.due == [1]
        pair.answered()
        pair.moved(1, 1)
        pair.fetch(1)
        assert pair.due == []

    play(scene)


def test_one_that_moves_between_two_fetches_is_told_of_by_the_next():
    def scene(pair: Pair) -> None:
        pair.begin()
        answer = pair.fetch()
        pair.append(1)
        assert list(told(sent(answer))) == [1]
        pair.append(2)
        pair.answered()
        pair.moved(1, 1)
        assert list(told(sent(pair.fetch(1)))) == [2]

    play(scene)


def test_records_appended_because_of_a_fetch_to_a_partition_left_alone_are_its_answer():
    def scene(pair: Pair) -> None:
        pair.begin()
        waiting = pair.fetch()
        pair.append(1)
        assert list(told(sent(waiting))) == [1]
        pair.answered()
        pair.moved(1, 1)
        assert pair.due == [1]
        # As the marker of a transaction is, whose end this fetch commits.
        pair.partitions[1].hw_waiters.park(1, lambda: pair.append(2))
        assert list(told(sent(pair.fetch(1)))) == [2]

    play(scene)


def test_one_that_is_not_in_sync_is_looked_at_by_every_fetch():
    def scene(pair: Pair) -> None:
        pair.partitions[0].become_leader(epoch=0, partition_epoch=1, replicas=(1, 2), isr=(1,))
        pair.begin()
        pair.fetch()
        assert pair.due == [0]

    play(scene)


def test_a_high_watermark_that_moved_is_told_of_at_once_by_the_next_look():
    def scene(pair: Pair) -> None:
        pair.begin()
        waiting = pair.fetch()
        assert pair.partitions[0].log.high_watermark == 1
        pair.append(1)
        assert list(told(sent(waiting))) == [1], "the high watermark of 0 can wait"
        pair.answered()
        pair.moved(1, 1)
        pair.clock.advance(int(LOOK_SECONDS * 1000))
        answer = told(sent(pair.fetch(1)))
        assert {index: row.high_watermark for index, row in answer.items()} == {0: 1}
        pair.answered()
        assert isinstance(pair.fetch(1), Later), "now there is nothing to tell"

    play(scene)


def test_the_fetch_after_one_that_was_told_nothing_is_a_look():
    async def scene() -> None:
        pair = Pair(FetchLimits(max_wait_ms=1))
        pair.begin()
        waiting = pair.fetch()
        assert isinstance(waiting, Later)
        assert told(sent(await waiting)) == {}
        pair.answered()
        idle = pair.long_way(pair.request_for_nothing())
        assert isinstance(idle, FetchResponse)
        (row,) = idle.responses[0].partitions
        assert (row.partition_index, row.high_watermark) == (0, 1)
        pair.answered()
        assert isinstance(pair.long_way(pair.request_for_nothing()), Later), "that was all"

    asyncio.run(scene())


def test_all_are_looked_at_again_after_a_while():
    def scene(pair: Pair) -> None:
        pair.begin()
        pair.fetch()
        quiet = pair.partitions[2].role.followers[2]
        before = quiet.caught_up_at
        pair.append(1)
        pair.answered()
        pair.moved(1, 1)
        pair.clock.advance(int(LOOK_SECONDS * 1000))
        pair.fetch(1)
        assert quiet.caught_up_at == pair.clock.monotonic() > before

    play(scene)


def test_a_quiet_partition_that_gets_another_leader_is_told_of_at_once():
    def scene(pair: Pair) -> None:
        pair.begin()
        answer = pair.fetch()
        pair.partitions[2].become_follower(leader_id=2, epoch=1, partition_epoch=1, replicas=(1, 2))
        assert told(sent(answer))[2].error_code == Errors.FENCED_LEADER_EPOCH

    play(scene)


def test_a_request_out_of_turn_is_left_to_the_long_way():
    def scene(pair: Pair) -> None:
        pair.begin()
        pair.fetch()
        pair.append(1)
        # The answer is lost, and the follower asks once more with the epoch that it had.
        assert pair.fetch() is None
        with pytest.raises(KafkaError) as refusal:
            pair.fetch_the_long_way()
        assert refusal.value.error is Errors.INVALID_FETCH_SESSION_EPOCH

    play(scene)


def test_a_partition_that_the_session_does_not_have_is_left_to_the_long_way():
    def scene(pair: Pair) -> None:
        pair.begin()
        pair.session.partitions.pop((TOPIC_ID, 0))
        assert pair.fetch() is None

    play(scene)


def test_a_session_that_ends_waits_for_nothing_any_more():
    def scene(pair: Pair) -> None:
        pair.begin()
        pair.fetch()
        ending = FetchRequest(
            max_wait_ms=0, min_bytes=0, session_id=pair.session.id, session_epoch=-1, topics=[]
        )
        pair.long_way(ending)
        waiting = [
            parked
            for partition in pair.partitions
            for parked in partition.data_waiters.parked
            if parked.callback is not None
        ]
        assert waiting == []

    play(scene)


def test_peers_that_make_up_names_do_not_fill_the_memory():
    def scene(pair: Pair) -> None:
        shortcut = pair._route.shortcut
        for number in range(1000):
            request = pair._plan.request(pair._rows, VERSION, FOLLOWER, LIMITS)
            frame = bytearray(encode_request(request, VERSION, 1, f"b-{number}")[LENGTH.size :])
            header = read_request_header(frame)
            shortcut.learn(frame, header, decode_request(frame, header))
        assert sum(map(len, shortcut._known.values())) <= 64

    play(scene)
