"""Topics of the command line are made through the handler that serves CreateTopics."""

import asyncio

import pytest
from odradek.broker.context import RequestContext
from odradek.broker.failures import CannotStart
from odradek.broker.network.peer import Address, Peer
from odradek.broker.routes import Answer, AnyRoute, Route, table_of
from odradek.broker.wanted_topics import WantedTopic, make_topics, parse_wanted
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.schema import versions_of

PEER = Peer("PLAINTEXT", Address("127.0.0.1", 1), Address("127.0.0.1", 9092))


class Topics:
    """Makes every topic but those whose names it has an error for."""

    def __init__(self, *, is_async: bool = False, **errors: Errors) -> None:
        self._is_async = is_async
        self._errors = errors
        self.made: dict[str, int] = {}

    def create(self, request: CreateTopicsRequest, context: RequestContext) -> Answer:
        for topic in request.topics:
            if topic.name not in self._errors:
                self.made[topic.name] = topic.num_partitions
        results = [
            CreatableTopicResult(
                name=topic.name, error_code=self._errors.get(topic.name, Errors.NONE)
            )
            for topic in request.topics
        ]
        response = CreateTopicsResponse(topics=results)

        async def later() -> CreateTopicsResponse:
            return response

        return later() if self._is_async else response

    def routes(self) -> dict[int, AnyRoute]:
        return table_of(
            [Route(CreateTopicsRequest, versions_of("0-7"), self.create, self._failure)]
        )

    def _failure(self, request: CreateTopicsRequest, why: KafkaError) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[])


@pytest.mark.parametrize("is_async", [False, True])
def test_wanted_topics_are_made_with_their_partitions(is_async: bool) -> None:
    topics = Topics(is_async=is_async)
    wanted = [WantedTopic("orders", 3), WantedTopic("events")]
    asyncio.run(make_topics(wanted, topics.routes(), PEER))
    assert topics.made == {"orders": 3, "events": -1}


def test_a_topic_that_exists_is_left_alone() -> None:
    topics = Topics(orders=Errors.TOPIC_ALREADY_EXISTS)
    asyncio.run(make_topics([WantedTopic("orders", 3)], topics.routes(), PEER))


def test_a_topic_that_cannot_be_made_stops_the_start() -> None:
    topics = Topics(orders=Errors.INVALID_PARTITIONS)
    with pytest.raises(CannotStart, match="'orders' cannot be made"):
        asyncio.run(make_topics([WantedTopic("orders", 3)], topics.routes(), PEER))


def test_without_a_handler_topics_cannot_be_made_and_none_need_not() -> None:
    asyncio.run(make_topics([], {}, PEER))
    with pytest.raises(CannotStart, match="CreateTopics"):
        asyncio.run(make_topics([WantedTopic("orders")], {}, PEER))


def test_names_and_counts_are_read_from_text() -> None:
    assert parse_wanted("orders:3") == WantedTopic("orders", 3)
    assert parse_wanted("orders") == WantedTopic("orders", -1)
    assert parse_wanted("orders:3:2:compact") == WantedTopic("orders", 3, 2, "compact")
    for bad in ("", ":3", "orders:", "orders:x", "orders:0", "orders:-1", "orders:1:0", "a:1:1:"):
        with pytest.raises(ValueError, match="name:partitions"):
            parse_wanted(bad)
