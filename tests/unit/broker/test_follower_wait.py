"""The short way of a follower that waits: it tells the same as the long one, whatever happens."""

import asyncio
from random import Random

import pytest
from odradek.broker.handlers.follower_wait import FollowerWait
from odradek.broker.later import Later
from odradek.protocol.errors import Errors
from odradek.protocol.frames import encode_response
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import FetchLimits, Wanted

from tests.unit.broker.test_follow_again import (
    LIMITS,
    NUMBER,
    TOPIC_ID,
    VERSION,
    Pair,
    play,
    sent,
    told,
)
from tests.unit.replication.conftest import batch

STORIES = 200
STEPS = 40


class Teller:
    """A follower that asks, by the one way or the other, and takes what it is told."""

    def __init__(self, *, short: bool) -> None:
        self.pair = Pair()
        self.pair.begin()
        self._short = short
        self._asked_of = 0
        self._waiting: object = None
        self.is_over = False
        self.heard: list[bytes] = []

    def ask(self) -> None:
        if self.is_over or self._waiting is not None:
            return
        ask = self.pair.fetch if self._short else self.pair.fetch_the_long_way
        self._waiting = ask(self._asked_of)

    def hear(self) -> None:
        waiting = self._waiting
        if isinstance(waiting, Later):
            if not waiting.is_there:
                return
            waiting = waiting.result
        if waiting is None:
            return
        if isinstance(waiting, FetchResponse):
            waiting = encode_response(waiting, VERSION, NUMBER)
        self._waiting = None
        data = sent(waiting)
        self.heard.append(data)
        self._take(data)

    def _take(self, data: bytes) -> None:
        rows = told(data)
        self.pair.answered()
        if len(rows) > 1 or any(row.error_code for row in rows.values()):
            # A follower would ask for several, or begin anew: no longer a matter of two ways.
            self.is_over = True
            return
        for index, row in rows.items():
            if row.records:
                at = self.pair._rows[TopicPartition("t", index)].fetch_offset
                self.pair.moved(index, at + bytes(row.records).count(b"value"))
                self._asked_of = index

    def happen(self, what: str, index: int) -> None:
        pair = self.pair
        partition = pair.partitions[index]
        match what:
            case "append":
                pair.append(index)
            case "commit leads to another":
                end = partition.log.log_end_offset
                partition.hw_waiters.park(end + 1, lambda: pair.append((index + 1) % 3))
                pair.append(index)
            case "commit leads to more":
                end = partition.log.log_end_offset
                partition.hw_waiters.park(end + 1, lambda: pair.append(index))
                pair.append(index)
            case "time":
                pair.clock.advance(100)
            case "out of sync":
                self._lead(index, isr=(1,))
            case "in sync":
                self._lead(index, isr=(1, 2))
            case "new epoch":
                role = partition.role
                partition.become_leader(
                    epoch=partition.leader_epoch + 1,
                    partition_epoch=role.partition_epoch + 1,
                    replicas=(1, 2),
                    isr=role.isr.committed,
                )
            case "resign":
                partition.resign()
            case "broken disk":
                partition.log.fail(OSError("the disk is gone"))

    def _lead(self, index: int, *, isr: tuple[int, ...]) -> None:
        partition = self.pair.partitions[index]
        partition.become_leader(
            epoch=partition.leader_epoch,
            partition_epoch=partition.role.partition_epoch + 1,
            replicas=(1, 2),
            isr=isr,
        )

    def known(self) -> list[tuple[int, int, float]]:
        """What the leader believes of its follower, and how far everything is committed."""
        return [
            (f.log_end_offset, partition.log.high_watermark, f.caught_up_at)
            for partition in self.pair.partitions
            if partition.is_leader
            for f in partition.role.followers.values()
        ]


def waits_the_short_way(pair: Pair) -> bool:
    return isinstance(getattr(pair.session.on_move, "__self__", None), FollowerWait)


def story(random: Random) -> list[tuple[str, int]]:
    usual = ["append"] * 12 + ["time"] * 3 + ["commit leads to more", "commit leads to another"]
    unusual = ["out of sync", "in sync", "out of sync", "in sync", "in sync"]
    steps = [(random.choice(usual + unusual), random.randrange(3)) for _ in range(STEPS)]
    return [*steps, (random.choice(["new epoch", "resign", "broken disk", "append"]), 0)]


@pytest.mark.parametrize("seed", range(STORIES // 20))
def test_both_ways_tell_the_same_in_any_story(seed: int) -> None:
    async def scene() -> None:
        random = Random(seed)
        for _ in range(20):
            short, long = Teller(short=True), Teller(short=False)
            for what, index in story(random):
                asks = random.random() < 0.8
                for teller in (short, long):
                    if asks:
                        teller.ask()
                    teller.happen(what, index)
                    teller.hear()
                assert short.heard == long.heard
                assert short.known() == long.known()
                if short.is_over:
                    break

    asyncio.run(scene())


def settled(limits: FetchLimits = LIMITS) -> Pair:
    """A follower that was told of all that its session has, and asks next."""
    pair = Pair(limits)
    pair.begin()
    pair.session.unsettled.clear()
    return pair


def test_a_usual_story_waits_the_short_way():
    def scene(pair: Pair) -> None:
        pair.begin()
        for offset in range(1, 11):
            answer = pair.fetch()
            # The first fetch of a session looks at all that it has not looked at yet.
            assert waits_the_short_way(pair) == (offset > 1)
            pair.append(0)
            assert list(told(sent(answer))) == [0]
            pair.answered()
            pair.moved(0, offset + 1)

    play(scene)


def test_one_that_follows_in_an_epoch_that_is_over_is_fenced_and_not_believed():
    async def scene() -> None:
        pair = settled()
        pair.partitions[0].become_leader(epoch=1, partition_epoch=1, replicas=(1, 2), isr=(1, 2))
        pair.session.unsettled.clear()
        assert told(sent(pair.fetch()))[0].error_code == Errors.FENCED_LEADER_EPOCH
        assert pair.partitions[0].log.high_watermark == 0

    asyncio.run(scene())


def test_one_that_follows_in_an_epoch_not_heard_of_here_is_not_believed():
    async def scene() -> None:
        pair = settled()
        pair._rows[TopicPartition("t", 0)] = Wanted(TOPIC_ID, 1, 1, 0, 0)
        assert told(sent(pair.fetch()))[0].error_code == Errors.UNKNOWN_LEADER_EPOCH
        assert pair.partitions[0].log.high_watermark == 0

    asyncio.run(scene())


def test_one_whose_last_records_are_of_another_epoch_is_told_where_the_logs_part():
    async def scene() -> None:
        pair = settled()
        first = pair.partitions[0]
        first.become_leader(epoch=2, partition_epoch=1, replicas=(1, 2), isr=(1, 2))
        pair.append(0)
        pair.session.unsettled.clear()
        where = TopicPartition("t", 0)
        # It has two records as well, but the second is of an epoch in which we did not lead.
        pair._rows[where] = Wanted(TOPIC_ID, 2, 2, 1, 0)
        row = told(sent(pair.fetch()))[0]
        assert row.diverging_epoch is not None
        assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 1)
        assert first.log.high_watermark < 2

    asyncio.run(scene())


def test_one_who_speaks_in_an_earlier_life_of_the_broker_is_refused():
    async def scene() -> None:
        pair = settled()
        pair.partitions[0].role.followers[2].broker_epoch = 2
        assert told(sent(pair.fetch()))[0].error_code == Errors.NOT_LEADER_OR_FOLLOWER
        assert pair.partitions[0].log.high_watermark == 0

    asyncio.run(scene())


def test_when_the_time_is_over_it_is_told_so():
    async def scene() -> None:
        pair = settled(FetchLimits(max_wait_ms=1))
        waiting = pair.fetch()
        assert waits_the_short_way(pair)
        assert isinstance(waiting, Later)
        assert told(sent(await waiting)) == {}
        assert pair.session.told_nothing
        assert pair.session.on_move is None

    asyncio.run(scene())


def test_records_that_its_own_fetch_commits_and_calls_forth_are_its_answer():
    async def scene() -> None:
        pair = settled()
        # As of a coordinator that writes its next record when the last is committed.
        pair.partitions[0].hw_waiters.park(1, lambda: pair.append(0))
        assert list(told(sent(pair.fetch()))) == [0]

    asyncio.run(scene())


def test_a_disk_that_fails_while_it_waits_is_told_to_it_and_not_to_the_producer():
    async def scene() -> None:
        pair = settled()
        first = pair.partitions[0]
        first.data_waiters.park(2, lambda: first.log.fail(OSError("the disk is gone")))
        answer = pair.fetch()
        assert waits_the_short_way(pair)
        first.append(batch(count=1000), acks=1, produce_version=9)
        assert told(sent(answer))[0].error_code == Errors.KAFKA_STORAGE_ERROR

    asyncio.run(scene())


def test_one_that_wants_more_than_just_anything_takes_the_long_way():
    async def scene() -> None:
        pair = settled(FetchLimits(min_bytes=2, max_wait_ms=30_000))
        assert isinstance(pair.fetch(), Later)
        assert not waits_the_short_way(pair)

    asyncio.run(scene())
