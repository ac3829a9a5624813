"""`odradek.testing`: brokers and clusters inside the process that uses them."""

import asyncio
from pathlib import Path

import odradek.testing
import pytest
from odradek.client.producer import Producer
from odradek.client.sync import SyncAdmin, SyncConsumer, SyncProducer
from odradek.protocol.errors import KafkaError
from odradek.protocol.settings import SettingsError
from odradek.protocol.types import TopicPartition

PATIENCE_S = 30


def write(bootstrap: str, topic: str, *values: bytes) -> list[int]:
    with SyncProducer(bootstrap_servers=bootstrap) as producer:
        return [producer.send(topic, value).result(PATIENCE_S).offset for value in values]


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    with SyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.call(lambda client: client.assign([TopicPartition(topic, 0)]))
        found: list[bytes | None] = []
        while len(found) < count:
            records = consumer.poll(PATIENCE_S)
            assert records, f"only {len(found)} of {count} records came"
            found += [record.value for record in records]
        return found


def test_a_broker_serves_clients_of_its_own_process() -> None:
    with odradek.testing.Broker(topics={"orders": 3}) as broker:
        assert write(broker.bootstrap_servers, "greetings", b"a", b"b") == [0, 1]
        assert read(broker.bootstrap_servers, "greetings", 2) == [b"a", b"b"]
        with SyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            described = admin.run(lambda client: client.describe_topics(["orders"]))
        assert len(described["orders"].partitions) == 3


def test_a_broker_serves_coroutines_even_when_their_loop_is_blocked() -> None:
    async def run() -> None:
        async with odradek.testing.Broker() as broker:
            # A client that blocks: the broker must not need this loop.
            assert write(broker.bootstrap_servers, "greetings", b"a") == [0]
            async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                assert (await producer.send_and_wait("greetings", b"b")).offset == 1

    asyncio.run(run())


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_broker_comes_back_on_its_port_with_what_was_acknowledged(end: str) -> None:
    with odradek.testing.Broker() as broker:
        before = broker.bootstrap_servers
        write(before, "greetings", b"a", b"b")
        getattr(broker, end)()
        assert not broker.is_running
        with pytest.raises(KafkaError):
            SyncAdmin(bootstrap_servers=before, default_api_timeout_ms=200)
        broker.start()
        assert broker.bootstrap_servers == before
        assert write(before, "greetings", b"c") == [2]
        assert read(before, "greetings", 3) == [b"a", b"b", b"c"]


def test_only_a_killed_broker_has_to_recover(tmp_path: Path) -> None:
    marker = tmp_path / ".kafka_cleanshutdown"
    with odradek.testing.Broker(data_dir=tmp_path) as broker:
        broker.kill()
        assert not marker.exists()
        broker.start()
        broker.stop()
        assert marker.exists()
        broker.restart()


def test_clients_live_through_a_restart() -> None:
    with (
        odradek.testing.Broker() as broker,
        SyncProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        assert producer.send("greetings", b"a").result(PATIENCE_S).offset == 0
        broker.restart()
        assert producer.send("greetings", b"b").result(PATIENCE_S).offset == 1
        broker.kill()
        broker.start()
        assert producer.send("greetings", b"c").result(PATIENCE_S).offset == 2


def test_data_goes_with_its_broker_unless_it_has_a_place(tmp_path: Path) -> None:
    with odradek.testing.Broker() as broker:
        own = Path(broker.data_dir)
        assert own.is_dir()
    assert not own.exists()
    with odradek.testing.Broker(data_dir=tmp_path) as broker:
        write(broker.bootstrap_servers, "greetings", b"a")
    with odradek.testing.Broker(data_dir=tmp_path) as broker:
        assert read(broker.bootstrap_servers, "greetings", 1) == [b"a"]


def test_settings_have_kafkas_names_or_underscores() -> None:
    given = {"num.partitions": 2}
    with odradek.testing.Broker(given, auto_create_topics_enable=True) as broker:
        write(broker.bootstrap_servers, "greetings", b"a")
        with SyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            described = admin.run(lambda client: client.describe_topics(["greetings"]))
        assert len(described["greetings"].partitions) == 2


def test_a_setting_that_does_not_exist_is_refused_and_leaves_nothing_behind() -> None:
    broker = odradek.testing.Broker(num_partitions="many")
    with pytest.raises(SettingsError, match=r"num\.partitions"):
        broker.start()
    assert not broker.is_running
    with pytest.raises(RuntimeError, match="not started"):
        _ = broker.bootstrap_servers


def test_brokers_of_one_process_know_nothing_of_each_other() -> None:
    with odradek.testing.Broker() as one, odradek.testing.Broker() as other:
        assert one.port != other.port
        write(one.bootstrap_servers, "greetings", b"a")
        with SyncAdmin(bootstrap_servers=other.bootstrap_servers) as admin:
            assert "greetings" not in admin.run(lambda client: client.list_topics())


@pytest.mark.parametrize("end", ["stop_broker", "kill_broker"])
def test_a_cluster_goes_on_without_one_of_its_brokers(end: str) -> None:
    settings = {"min.insync.replicas": "2"}
    with odradek.testing.Cluster(3, settings, topics={"orders": 1}) as cluster:
        assert cluster.running == (1, 2, 3)
        with SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            assert producer.send("orders", b"a").result(PATIENCE_S).offset == 0
            getattr(cluster, end)(1)
            assert cluster.running == (2, 3)
            assert producer.send("orders", b"b").result(PATIENCE_S).offset == 1
            cluster.start_broker(1)
            assert producer.send("orders", b"c").result(PATIENCE_S).offset == 2
        assert read(cluster.bootstrap_servers, "orders", 3) == [b"a", b"b", b"c"]


def test_a_cluster_serves_coroutines() -> None:
    async def run() -> None:
        async with (
            odradek.testing.Cluster(2) as cluster,
            Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        ):
            assert (await producer.send_and_wait("greetings", b"a")).offset == 0

    asyncio.run(run())
