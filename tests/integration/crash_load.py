"""Load that goes on while its broker is killed, and a book of all that clients were told.

Values are numbered per partition, so a reader can tell a record that is lost, doubled, moved or out
of order from the values alone.
"""

from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Place

from tests.behaviours.asking import Asker, batch

PARTITIONS = 3
IDEMPOTENT, PLAIN = "idempotent", "plain"
TOPICS = (IDEMPOTENT, PLAIN)

_MOST_WAITING = 200
_SECONDS = 60
_QUIET = {"log_level": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100}
# A partition's leader is not there yet; the record was not taken.
_NOT_YET = (3, 5, 6)

Where = tuple[str, int, int]  # topic, partition, offset


class Book:
    """What is at each offset, as acknowledgements and consumers said it. It may never change."""

    def __init__(self) -> None:
        self._news = Condition()
        self._values: dict[Where, int] = {}
        self.acknowledged: dict[str, int] = dict.fromkeys(TOPICS, 0)
        self.contradictions: list[str] = []

    def note(self, topic: str, partition: int, offset: int, value: int, *, is_ack: bool) -> None:
        with self._news:
            before = self._values.setdefault((topic, partition, offset), value)
            if before != value:
                place = f"{topic}-{partition} at {offset}"
                self.contradictions.append(f"{place} was {before} and is now {value}")
            if is_ack:
                self.acknowledged[topic] += 1
                self._news.notify_all()

    def wait_for_acknowledgements(self, more: int) -> None:
        """Until every topic has so many more of them."""
        with self._news:
            wanted = {topic: count + more for topic, count in self.acknowledged.items()}
            assert self._news.wait_for(
                lambda: all(self.acknowledged[topic] >= wanted[topic] for topic in TOPICS), _SECONDS
            ), f"{self.acknowledged} where {wanted} were waited for"

    def of(self, topic: str, partition: int) -> dict[int, int]:
        """Offset -> value of all that anybody was told of a partition."""
        with self._news:
            return {o: v for (t, p, o), v in self._values.items() if (t, p) == (topic, partition)}


class Load:
    """Something that is done over and over in a thread; what it raises is raised by `stop`."""

    def __init__(self, step: Callable[[], None], finish: Callable[[], None]) -> None:
        self._step = step
        self._finish = finish
        self._is_over = Event()
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._step()
            self._finish()
        except BaseException as failure:
            self._failure = failure

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive(), "the load does not come to its end"
        if self._failure is not None:
            raise self._failure


class IdempotentProducer:
    """librdkafka at its safest: nothing lost, doubled or out of order, whatever happens."""

    def __init__(self, bootstrap: str, book: Book) -> None:
        self._book = book
        self._numbers = [0] * PARTITIONS
        self.failures: list[str] = []
        settings = {"enable.idempotence": True, "acks": "all", "message.timeout.ms": 120_000}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 1, **settings, **_QUIET}
        )

    def step(self) -> None:
        for partition in range(PARTITIONS):
            for _ in range(5):
                number = self._numbers[partition]
                self._numbers[partition] += 1
                self._producer.produce(
                    IDEMPOTENT,
                    value=b"%d" % number,
                    headers={"filling": b"." * 50},
                    partition=partition,
                    on_delivery=self._delivered,
                )
        self._producer.poll(0 if len(self._producer) < _MOST_WAITING else 0.05)
        while len(self._producer) > 2 * _MOST_WAITING:
            self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self._book.note(*place_and_value(message), is_ack=True)

    def finish(self) -> None:
        assert self._producer.flush(_SECONDS) == 0
        assert not self.failures

    def sent(self, partition: int) -> int:
        return self._numbers[partition]


class PlainProducer:
    """acks=1 and no second try: what is not acknowledged may be there or not."""

    def __init__(self, port: int, book: Book) -> None:
        self._port = port
        self._book = book
        self._number = 0
        self._asker: Asker | None = None
        # Cleared while there is no broker, lest the load be all vain attempts to connect.
        self.may_connect = Event()
        self.may_connect.set()

    def step(self) -> None:
        if self._asker is None and not self.may_connect.wait(0.1):
            return
        partition = self._number % PARTITIONS
        numbers = list(range(self._number, self._number + 1 + self._number % 4))
        self._number = numbers[-1] + 1
        try:
            if self._asker is None:
                self._asker = Asker(self._port)
            records = batch(*[b"%d" % number for number in numbers])
            answer = self._asker.produce(PLAIN, records, index=partition, acks=1)
        except OSError:
            self._forget_connection()
            return
        if answer.error_code == 0:
            for offset, number in enumerate(numbers, answer.base_offset):
                self._book.note(PLAIN, partition, offset, number, is_ack=True)
        else:
            assert answer.error_code in _NOT_YET, answer

    def _forget_connection(self) -> None:
        if self._asker is not None:
            self._asker.close()
            self._asker = None

    finish = _forget_connection


class Follower:
    """A consumer that stays, and reads on after each restart."""

    def __init__(self, bootstrap: str, book: Book) -> None:
        self._book = book
        self._consumer = consumer(bootstrap)

    def step(self) -> None:
        for message in self._consumer.consume(500, timeout=0.1):
            error = message.error()
            if error is None:
                self._book.note(*place_and_value(message), is_ack=False)
            # It is told of lost connections and of ends; that its place is gone is another thing.
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise AssertionError(error)

    def finish(self) -> None:
        self._consumer.close()


def consumer(bootstrap: str) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "never committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            **_QUIET,
        }
    )
    made.assign([Place(topic, p, OFFSET_BEGINNING) for topic in TOPICS for p in range(PARTITIONS)])
    return made


def place_and_value(message: Message) -> tuple[str, int, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    value = message.value()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    assert value is not None
    return topic, partition, offset, int(value)


def read_everything(bootstrap: str) -> dict[tuple[str, int], dict[int, int]]:
    """Offset -> value of every partition, from its beginning to its end at the moment."""
    reader = consumer(bootstrap)
    found: dict[tuple[str, int], dict[int, int]] = {
        (topic, partition): {} for topic in TOPICS for partition in range(PARTITIONS)
    }
    unfinished = set(found)
    try:
        while unfinished:
            message = reader.poll(_SECONDS)
            assert message is not None, f"nothing came of {unfinished}"
            error = message.error()
            if error is None:
                topic, partition, offset, value = place_and_value(message)
                assert offset not in found[topic, partition]
                found[topic, partition][offset] = value
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard((message.topic() or "", message.partition() or 0))
            else:
                raise AssertionError(error)
    finally:
        reader.close()
    return found
