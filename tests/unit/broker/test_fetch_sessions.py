"""Fetch sessions: what is remembered, what is told, who is displaced."""

from random import Random

import pytest
from odradek.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchContext, FetchSessions
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.fetch import (
    FetchForgottenTopic,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchTopic,
)
from odradek.protocol.types import random_id


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sessions(clock: ManualClock) -> FetchSessions:
    return FetchSessions(max_slots=2, eviction_seconds=120, clock=clock, random=Random(1))


def fetch(
    *partitions: int,
    session_id: int = 0,
    epoch: int = INITIAL_EPOCH,
    forget: tuple[int, ...] = (),
    offset: int = 0,
    topic_id: bytes = bytes(16),
) -> FetchRequest:
    wanted = [
        FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=100)
        for p in partitions
    ]
    name = "" if any(topic_id) else "t"
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=wanted)] if wanted else [],
        forgotten_topics_data=[FetchForgottenTopic(topic="t", partitions=list(forget))],
    )


def data(
    partition: int, *, hw: int = 0, records: bytes = b"", error: int = 0
) -> FetchPartitionData:
    return FetchPartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=hw,
        log_start_offset=0,
        records=records,
    )


def begin(sessions: FetchSessions, request: FetchRequest, version: int = 12) -> FetchContext:
    return sessions.begin(request, version, from_follower=False)


def told(context: FetchContext, results: dict[int, FetchPartitionData]) -> list[int]:
    return [
        wanted.request.partition
        for wanted in context.wanted
        if context.tells(wanted, results[wanted.request.partition])
    ]


def test_a_full_fetch_begins_a_session_and_tells_of_every_partition(
    sessions: FetchSessions,
) -> None:
    context = begin(sessions, fetch(0, 1))
    assert context.session_id > 0
    assert told(context, {0: data(0), 1: data(1)}) == [0, 1]


def test_an_incremental_fetch_tells_only_of_news(sessions: FetchSessions) -> None:
    first = begin(sessions, fetch(0, 1, 2))
    told(first, {p: data(p, hw=5) for p in range(3)})
    second = begin(sessions, fetch(session_id=first.session_id, epoch=1))
    results = {0: data(0, hw=5), 1: data(1, hw=6), 2: data(2, hw=5, records=b"batch")}
    assert told(second, results) == [1, 2]
    assert second.session_id == first.session_id


def test_partitions_that_were_served_go_to_the_end_of_the_queue(sessions: FetchSessions) -> None:
    first = begin(sessions, fetch(0, 1, 2))
    told(first, {p: data(p) for p in range(3)})
    second = begin(sessions, fetch(session_id=first.session_id, epoch=1))
    told(second, {0: data(0, records=b"x"), 1: data(1), 2: data(2)})
    third = begin(sessions, fetch(session_id=first.session_id, epoch=2))
    assert [w.request.partition for w in third.wanted] == [1, 2, 0]


def test_an_error_is_told_until_it_is_gone(sessions: FetchSessions) -> None:
    first = begin(sessions, fetch(0))
    told(first, {0: data(0, hw=5)})
    for epoch in (1, 2):
        context = begin(sessions, fetch(session_id=first.session_id, epoch=epoch))
        assert told(context, {0: data(0, hw=-1, error=6)}) == [0]
    healed = begin(sessions, fetch(session_id=first.session_id, epoch=3))
    assert told(healed, {0: data(0, hw=5)}) == [0]


def test_partitions_are_added_changed_and_forgotten(sessions: FetchSessions) -> None:
    first = begin(sessions, fetch(0, 1))
    request = fetch(1, 2, session_id=first.session_id, epoch=1, forget=(0,), offset=7)
    second = begin(sessions, request)
    assert [(w.request.partition, w.request.fetch_offset) for w in second.wanted] == [
        (1, 7),
        (2, 7),
    ]


def test_a_session_that_forgets_everything_ends(sessions: FetchSessions) -> None:
    first = begin(sessions, fetch(0))
    second = begin(sessions, fetch(session_id=first.session_id, epoch=1, forget=(0,)))
    assert (second.session_id, len(sessions)) == (0, 0)


@pytest.mark.parametrize(
    ("session_id", "epoch", "version", "error"),
    [
        (12345, 1, 12, Errors.FETCH_SESSION_ID_NOT_FOUND),
        (None, 2, 12, Errors.INVALID_FETCH_SESSION_EPOCH),
        (None, 1, 13, Errors.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_session_out_of_step_is_refused(
    sessions: FetchSessions, session_id: int | None, epoch: int, version: int, error: Errors
) -> None:
    opened = begin(sessions, fetch(0)).session_id
    with pytest.raises(KafkaError) as refused:
        begin(sessions, fetch(session_id=session_id or opened, epoch=epoch), version)
    assert refused.value.error is error


def test_the_final_epoch_closes_the_session_and_fetches_without_one(
    sessions: FetchSessions,
) -> None:
    opened = begin(sessions, fetch(0)).session_id
    context = begin(sessions, fetch(0, session_id=opened, epoch=FINAL_EPOCH))
    assert (context.session_id, len(sessions)) == (0, 0)


def test_topics_may_be_named_by_id(sessions: FetchSessions) -> None:
    topic_id = random_id()
    first = begin(sessions, fetch(0, topic_id=topic_id), 13)
    told(first, {0: data(0)})
    second = begin(sessions, fetch(0, topic_id=topic_id, session_id=first.session_id, epoch=1), 13)
    assert [w.topic_id for w in second.wanted] == [topic_id]


def test_a_full_cache_answers_without_a_session(sessions: FetchSessions) -> None:
    begin(sessions, fetch(0, 1))
    begin(sessions, fetch(0, 1))
    assert begin(sessions, fetch(0, 1)).session_id == 0


def test_an_idle_session_makes_room(sessions: FetchSessions, clock: ManualClock) -> None:
    idle = begin(sessions, fetch(0, 1)).session_id
    clock.advance(60_000)
    begin(sessions, fetch(0, 1))
    clock.advance(60_000)
    assert begin(sessions, fetch(0)).session_id > 0
    with pytest.raises(KafkaError):
        begin(sessions, fetch(session_id=idle, epoch=1))


def test_a_follower_displaces_a_consumer_at_once(sessions: FetchSessions) -> None:
    begin(sessions, fetch(0, 1))
    begin(sessions, fetch(0, 1))
    follower = sessions.begin(fetch(0), 12, from_follower=True)
    assert follower.session_id > 0
