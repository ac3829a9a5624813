"""The second version of transactions: agreed on by the cluster, and then used by its clients."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.client.connection import ConnectionOptions, open_connection
from odradek.client.producer import Producer as OurProducer
from odradek.protocol.errors import Errors
from odradek.protocol.messages.versions import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.types import TopicPartition

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER
from tests.behaviours.txn_asking import Producer
from tests.support.java import java_tool
from tests.support.odradek import OdradekBroker
from tests.support.raw_client import RawClient
from tests.support.records import Writer, read_all

FEATURES = "org.apache.kafka.tools.FeatureCommand"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
FEATURE = "transaction.version"

Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    with OdradekBroker(tmp_path_factory.mktemp("odradek")) as started:
        set_level(started.port, 2)
        yield started


@pytest.fixture
def topic(broker: OdradekBroker, fresh: Fresh) -> str:
    return make_topic(broker, fresh("topic"))


def make_topic(broker: OdradekBroker, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


def set_level(port: int, level: int, *, name: str = FEATURE, **how: int) -> tuple[int, str]:
    update = FeatureUpdateKey(feature=name, max_version_level=level, **how)
    with RawClient(port) as client:
        answer = client.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
    assert answer.error_code == 0, answer
    return answer.results[0].error_code, answer.results[0].error_message or ""


async def finalized(broker: OdradekBroker) -> int:
    connection = await open_connection("127.0.0.1", broker.port, ConnectionOptions(client_id="t"))
    try:
        return connection.features.get(FEATURE, 0)
    finally:
        connection.close()


def test_a_feature_is_finalized_kept_and_taken_back(tmp_path, fresh: Fresh) -> None:
    broker = OdradekBroker(tmp_path / "data")
    with broker:
        assert asyncio.run(finalized(broker)) == 0
        assert set_level(broker.port, 3)[0] == Errors.INVALID_REQUEST
        assert set_level(broker.port, 1, name="unheard.of")[0] == Errors.INVALID_REQUEST
        assert set_level(broker.port, 2)[0] == Errors.NONE
        assert asyncio.run(finalized(broker)) == 2
        assert set_level(broker.port, 1)[0] == Errors.INVALID_REQUEST, "no downgrade is asked for"
    with broker:
        # A broker that has just started may not have read it yet.
        asyncio.run(until(lambda: finalized(broker), 2))
        assert set_level(broker.port, 0, upgrade_type=2)[0] == Errors.NONE
        assert asyncio.run(finalized(broker)) == 0


async def until(ask, wanted: int) -> None:
    async with asyncio.timeout(10):
        # Asked as a client asks, who hears of it in no other way.
        while await ask() != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.needs("java")
@pytest.mark.parametrize("version", [KAFKA_ON_ZOOKEEPER, KAFKA_ON_KRAFT])
def test_kafka_features_shows_what_is_finalized(broker: OdradekBroker, version: str) -> None:
    done = java_tool(version, FEATURES, "--bootstrap-server", broker.bootstrap, "describe")
    assert done.returncode == 0, done.stderr
    assert FEATURE in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if FEATURE in line]
    assert "FinalizedVersionLevel: 2" in line


def test_our_client_gets_a_new_epoch_with_every_transaction(
    broker: OdradekBroker, topic: str, fresh: Fresh
) -> None:
    name = fresh("transactional")

    async def run() -> None:
        producer = OurProducer(bootstrap_servers=broker.bootstrap, transactional_id=name)
        async with producer:
            await producer.init_transactions()
            for number in range(5):
                with suppress(ZeroDivisionError):
                    async with producer.transaction():
                        await producer.send_and_wait(topic, b"%d" % number)
                        if number % 2:
                            raise ZeroDivisionError

    asyncio.run(run())
    assert read_all(broker.bootstrap, topic, 1) == [0, 2, 4]
    with Producer(broker.port, name) as watcher:
        assert watcher.describe().producer_epoch == 5


@pytest.mark.needs("java")
@pytest.mark.parametrize("version", [KAFKA_ON_ZOOKEEPER, KAFKA_ON_KRAFT])
def test_kafkas_copier_copies_exactly_once(
    broker: OdradekBroker, topic: str, fresh: Fresh, version: str
) -> None:
    """The client of 3.9 keeps to the first version, that of 4.2 takes the second."""
    name, target = fresh("transactional"), make_topic(broker, fresh("target"))
    writer = Writer(broker.bootstrap, topic)
    writer.write(range(1000))
    assert not writer.finish().failed
    done = java_tool(
        version,
        COPIER,
        *("--broker-list", broker.bootstrap, "--input-topic", topic, "--input-partition", "0"),
        *("--output-topic", target, "--consumer-group", name, "--transactional-id", name),
        *("--transaction-size", "100", "--max-messages", "1000", "--enable-random-aborts"),
        *("--group-mode", "--use-group-metadata"),
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    last = json.loads(done.stdout.strip().splitlines()[-1])
    assert last["consumed"] == 1000
    assert read_all(broker.bootstrap, target, 1) == list(range(1000))
    with Producer(broker.port, name) as watcher:
        epochs = watcher.describe().producer_epoch
    assert epochs >= 10 if version == KAFKA_ON_KRAFT else epochs < 10


# What a late request can do ------------------------------------------------------------------


def test_a_batch_that_is_late_for_its_transaction_is_refused(
    broker: OdradekBroker, topic: str, fresh: Fresh
) -> None:
    with Producer(broker.port, fresh("transactional")) as producer:
        producer.init()
        assert producer.produce(topic, b"a", version=12).error_code == 0
        assert producer.end_with_bump(commit=True) is Errors.NONE
        late = Producer(broker.port, producer.transactional_id)
        late.id, late.epoch = producer.id, producer.epoch - 1
        with late:
            answer = late.produce(topic, b"late", version=12, sequence=1)
            assert answer.error_code == Errors.INVALID_PRODUCER_EPOCH
            assert producer.produce(topic, b"b", version=12).error_code == 0
            assert late.ask_end_with_bump(commit=False).error_code == Errors.PRODUCER_FENCED
        assert producer.end_with_bump(commit=True) is Errors.NONE
    assert producer.epoch == 2


def test_offsets_join_a_transaction_by_being_committed(
    broker: OdradekBroker, topic: str, fresh: Fresh
) -> None:
    group, where = fresh("group"), TopicPartition(topic, 0)
    with Producer(broker.port, fresh("transactional")) as producer:
        producer.init().find_coordinator(group=group)
        assert producer.commit_offset(group, where, 3, version=5) is Errors.NONE
        assert producer.end_with_bump(commit=True) is Errors.NONE
        producer.wait_for_state("CompleteCommit")
        assert producer.committed_offset(group, where, stable=True) == (3, Errors.NONE)
