"""Connections and the view of the cluster, on every broker the client must get along with."""

import asyncio
from collections.abc import Callable

import pytest
from odradek.client.cluster import Cluster, CoordinatorKind
from odradek.client.connection import ConnectionOptions, open_connection
from odradek.client.retry import until_done
from odradek.client.settings import ClientSettings, configured
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

from tests.integration.client_room import make_topic
from tests.support.network import HOST, free_port

Fresh = Callable[[str], str]

FETCH_BY_NAME = 12


def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def ask_topics() -> MetadataRequest:
    return MetadataRequest(topics=[])


def test_many_requests_are_under_way_and_answered_in_order(bootstrap: str) -> None:
    async def run() -> list[int]:
        connection = await open_connection(*address(bootstrap), ConnectionOptions())
        answers = [connection.send(ask_topics()) for _ in range(50)]
        assert connection.in_flight == 50
        done = [await answer for answer in answers]
        connection.close()
        await connection.wait_closed()
        return [len(answer.brokers) for answer in done if isinstance(answer, MetadataResponse)]

    assert asyncio.run(run()) == [1] * 50


def test_requests_that_wait_fail_when_the_connection_is_closed(bootstrap: str) -> None:
    async def run() -> None:
        connection = await open_connection(*address(bootstrap), ConnectionOptions())
        answer = connection.send(ask_topics())
        connection.close()
        await answer

    with pytest.raises(KafkaError, match=r"NETWORK_EXCEPTION.*closed"):
        asyncio.run(run())


def test_silence_ends_the_connection(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        # Only a fetch of something is kept waiting; one of nothing is answered at once.
        nothing_yet = FetchTopic(
            topic=await make_topic(bootstrap, fresh("silent")),
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
        )
        waits = FetchRequest(
            max_wait_ms=30_000, min_bytes=1, topics=[nothing_yet], session_epoch=-1
        )
        connection = await open_connection(*address(bootstrap), ConnectionOptions())
        await connection.send(ask_topics(), timeout_s=30)
        silent = connection.send(waits, version=FETCH_BY_NAME, timeout_s=0.0)
        with pytest.raises(KafkaError) as caught:
            await silent
        assert caught.value.error is Errors.REQUEST_TIMED_OUT
        assert not connection.is_open
        with pytest.raises(KafkaError):
            connection.send(ask_topics())

    asyncio.run(run())


def test_nobody_at_the_address_is_an_error_in_words() -> None:
    with pytest.raises(KafkaError, match=rf"NETWORK_EXCEPTION: no connection to {HOST}"):
        asyncio.run(open_connection(HOST, free_port(), ConnectionOptions()))


def test_a_server_that_never_speaks_is_given_up() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        options = ConnectionOptions(setup_timeout_s=0.1)
        async with server:
            with pytest.raises(KafkaError, match="in time"):
                await open_connection(HOST, port, options)

    asyncio.run(run())


def test_the_cluster_is_found_through_any_bootstrap_server(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        servers = [f"{HOST}:{free_port()}", bootstrap]
        settings = configured(ClientSettings, bootstrap_servers=servers)
        cluster = Cluster(settings, creates_topics=True)
        await cluster.start(30)
        assert [str(node) for node in cluster.view.nodes.values()] == [bootstrap]
        topic = await cluster.topic(fresh("made"), 30)
        assert topic.partition_count == 1
        await cluster.close()

    asyncio.run(run())


def test_a_topic_that_does_not_exist_is_an_error_after_a_while(
    bootstrap: str, fresh: Fresh
) -> None:
    async def run() -> None:
        cluster = Cluster(configured(ClientSettings, bootstrap_servers=bootstrap))
        await cluster.start(30)
        try:
            await cluster.topic(fresh("missing"), 0.3)
        finally:
            await cluster.close()

    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        asyncio.run(run())


def test_the_coordinator_of_a_group_is_found(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        cluster = Cluster(configured(ClientSettings, bootstrap_servers=bootstrap))
        await cluster.start(30)
        connection = await until_done(
            lambda: cluster.coordinator(CoordinatorKind.GROUP, fresh("group")),
            backoff=cluster.backoff,
            timeout_s=30,
        )
        assert str(connection) == bootstrap
        await cluster.close()

    asyncio.run(run())
