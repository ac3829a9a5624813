"""What do a thousand idle connections and a thousand partitions cost?

Two brokers do the same work for a busy client, in turns; one of them also has the crowd. Every
partition of it holds a record, every connection has asked something once.
"""

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from odradek.protocol.messages.versions import ApiVersionsRequest

from benchmarks._brokers import Broker, odradek, rss_mb
from benchmarks._busy_client import BusyClient, disturbance_row
from benchmarks._raw_load import create_topic, produce, produce_request
from benchmarks._rows import Row, below
from tests.support.raw_client import RawClient, close_all

CONNECTIONS = 1000
TOPICS, PARTITIONS_EACH = 10, 100
LIMIT_MB = 100
LIMIT_OF_P99 = 1.5
_OPEN_FILES = 4096


def crowd_rows(*, quick: bool) -> Iterator[Row]:
    seconds, rounds = (1.0, 5) if quick else (5.0, 7)
    with ExitStack() as stack:
        plain, crowded = (stack.enter_context(odradek()) for _ in range(2))
        make_partitions(crowded)
        stack.enter_context(idle_connections(crowded))
        alone, beside = (stack.enter_context(BusyClient(each)) for each in (plain, crowded))
        for client in (alone, beside):
            client.round(seconds)
        taken = [(alone.round(seconds), beside.round(seconds)) for _ in range(rounds)]
        extra_mb = rss_mb(crowded) - rss_mb(plain)
    name = "memory of 1,000 idle connections and 1,000 partitions"
    yield below(name, [extra_mb], "MB", LIMIT_MB)
    yield disturbance_row(
        "p99 of a busy client beside them",
        [with_crowd for _, with_crowd in taken],
        [without for without, _ in taken],
        LIMIT_OF_P99,
    )


def make_partitions(broker: Broker) -> None:
    everywhere = range(PARTITIONS_EACH)
    with RawClient(broker.port) as client:
        for number in range(TOPICS):
            topic = f"crowd-{number}"
            create_topic(broker, topic, PARTITIONS_EACH)
            produce(client, produce_request(topic, 100, acks=1, partitions=everywhere))


@contextmanager
def idle_connections(broker: Broker) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_OPEN_FILES, hard), hard))
    clients = []
    try:
        for _ in range(CONNECTIONS):
            clients.append(RawClient(broker.port))
            clients[-1].ask(ApiVersionsRequest(), 0)
        yield
    finally:
        close_all(clients)
