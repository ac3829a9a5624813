"""Transactions and kill -9: what was committed is there as a whole, what was not is not at all."""

import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.protocol.errors import Errors
from odradek.protocol.types import TopicPartition

from tests.behaviours.txn_asking import Producer as Asking
from tests.support.odradek import OdradekBroker
from tests.support.records import read_all

PARTITIONS = 2
RECORDS_EACH = 3
SECONDS = 20.0
KILLS = 4
TRANSACTIONS_BETWEEN_KILLS = 30
PATIENCE = 120.0

OVERRIDES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 2,
}


def make_topic(broker: OdradekBroker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)


def test_an_open_transaction_outlives_its_broker(tmp_path: Path) -> None:
    broker = OdradekBroker(tmp_path / "data", overrides=OVERRIDES)
    with broker:
        make_topic(broker, "t")
        with Asking(broker.port, "survivor") as producer:
            producer.init().write("t", b"1")
            producer.write("t", b"2", partition=1)
            producer.add_offsets("g")
            producer.commit_offset("g", TopicPartition("t", 0), 5)
        broker.kill()
        broker.start()
        with Asking(broker.port, "survivor") as again:
            again.id, again.epoch = producer.id, producer.epoch
            again.find_coordinator(group="g")
            assert again.add(TopicPartition("t", 0)) is Errors.NONE
            assert again.produce("t", b"3", sequence=1).base_offset == 1
            assert again.end(commit=True) is Errors.NONE
            again.wait_for_state("CompleteCommit")
            assert again.committed_offset("g", TopicPartition("t", 0), stable=True) == (5, 0)
        assert sorted(read_all(broker.bootstrap, "t", PARTITIONS)) == [1, 2, 3]


class Transactions:
    """One transaction after the other, each with its number in every partition several times."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = Event()
        self.committed: list[int] = []
        self.begun = 0
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._go_on(self._new_producer())
            except KafkaException:
                # Whatever became of it, the next producer of the same name settles it.
                continue

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": "crashing",
                "transaction.timeout.ms": 5000,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        producer.init_transactions(SECONDS)
        return producer

    def _go_on(self, producer: Producer) -> None:
        while not self._stop.is_set():
            self.begun += 1
            number = self.begun
            producer.begin_transaction()
            for index in range(PARTITIONS * RECORDS_EACH):
                producer.produce("t", str(number).encode(), partition=index % PARTITIONS)
            if number % 5 == 0:
                producer.abort_transaction(SECONDS)
            else:
                producer.commit_transaction(SECONDS)
                self.committed.append(number)

    def wait_for(self, more: int) -> None:
        wanted, deadline = len(self.committed) + more, time.monotonic() + PATIENCE
        while len(self.committed) < wanted:
            assert time.monotonic() < deadline, f"{len(self.committed)} of {wanted}"
            time.sleep(0.01)

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def test_no_transaction_is_torn_by_kills(tmp_path: Path) -> None:
    broker = OdradekBroker(tmp_path / "data", overrides=OVERRIDES)
    with broker:
        make_topic(broker, "t")
        transactions = Transactions(broker.bootstrap)
        for _ in range(KILLS):
            transactions.wait_for(TRANSACTIONS_BETWEEN_KILLS)
            broker.kill()
            broker.start()
        transactions.wait_for(TRANSACTIONS_BETWEEN_KILLS)
        transactions.finish()
        # Nothing is open any more once somebody has taken over.
        with Asking(broker.port, "crashing") as heir:
            heir.init()
        counts = Counter(read_all(broker.bootstrap, "t", PARTITIONS))
    assert set(counts.values()) == {PARTITIONS * RECORDS_EACH}, "each as a whole, and once"
    assert set(transactions.committed) <= set(counts)
    assert not [number for number in counts if number % 5 == 0], "an aborted one is shown"
