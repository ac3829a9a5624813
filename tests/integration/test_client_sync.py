"""The facade for programs without an event loop."""

from collections.abc import Callable
from itertools import islice

import pytest
from odradek.client.admin import NewTopic, raise_failures
from odradek.client.sync import SyncAdmin, SyncConsumer, SyncProducer
from odradek.protocol.errors import KafkaError

from tests.support.network import HOST, free_port


def test_produce_consume_and_administer_from_plain_code(
    bootstrap: str, fresh: Callable[[str], str]
) -> None:
    topic = fresh("topic")
    with SyncAdmin(bootstrap_servers=bootstrap) as admin:
        raise_failures(admin.run(lambda client: client.create_topics([NewTopic(topic, 1, 1)])))
        admin.run(lambda client: client.wait_for_topics([topic]))
        assert topic in admin.run(lambda client: client.list_topics())
    with SyncProducer(bootstrap_servers=bootstrap) as producer:
        assert producer.send(topic, b"first").result(30).offset == 0
        for number in range(1, 5000):
            producer.send(topic, b"%d" % number)
        producer.flush()
        with pytest.raises(KafkaError):
            producer.send(topic, b"", partition=7).result(30)
    with SyncConsumer(
        bootstrap_servers=bootstrap, group_id=fresh("group"), auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        offsets = [record.offset for record in islice(consumer, 5000)]
        assert offsets == list(range(5000))
        consumer.commit()
        (partition,) = consumer.call(lambda client: client.assignment())
        assert consumer.committed([partition])[partition].offset == consumer.position(partition)


def test_a_cluster_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KafkaError, match="no connection"):
        SyncAdmin(bootstrap_servers=f"{HOST}:{free_port()}", default_api_timeout_ms=300)
