"""A broker that just started: clients are there before its controller has told it anything."""

import asyncio

from odradek.broker.context import RequestContext
from odradek.broker.handlers.metadata import Identity, MetadataHandler
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.frames import encode_request, read_request_header
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

from tests.unit.broker.test_metadata_cache import ONE, update


def context(request: MetadataRequest) -> RequestContext:
    here = Address("here", 9092)
    header = read_request_header(encode_request(request, 9, 1, "client")[4:])
    return RequestContext(header, Peer("PLAINTEXT", here, here), arrived=0.0)


def handler(cache: MetadataCache) -> MetadataHandler:
    async def create_nothing(names):
        raise AssertionError(f"{names} are not known to be missing")

    return MetadataHandler(
        metadata=cache,
        identity=Identity(7, "cluster", answers_dialled_address=False),
        create_missing=create_nothing,
        max_partitions_described=10,
    )


def test_a_client_waits_for_the_controllers_word_instead_of_hearing_that_nothing_exists():
    async def scene() -> MetadataResponse:
        cache = MetadataCache()
        request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
        answer = asyncio.ensure_future(handler(cache).metadata(request, context(request)))
        await asyncio.sleep(0)
        assert not answer.done()
        cache.apply(update("a", ONE, {0: 7}))
        return await answer

    response = asyncio.run(scene())
    assert [broker.node_id for broker in response.brokers] == [7]
    assert [(topic.error_code, topic.name) for topic in response.topics] == [(0, "a")]
