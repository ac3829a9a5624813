"""Copies one topic to another, exactly once: python -m tests.cluster.copier, to be killed at will.

A member of a group reads committed records, writes each again and commits how far it has read, all
in one transaction. Whatever goes wrong with a transaction, it is aborted and read again; when that
does not work, or the producer is fenced, the process ends and is to be started anew. So it does
when a call does not return: librdkafka is known to wait for ever to send offsets to a group
coordinator that has left the cluster, whatever timeout it was given, and with any broker.
"""

import os
import sys
from threading import Timer

from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

RECORDS_PER_TRANSACTION = 500
SECONDS = 30.0
PATIENCE = 45.0
QUIET = {"log_level": 2}


def copy(bootstrap: str, source: str, target: str, name: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 10_000,
            "linger.ms": 1,
            **QUIET,
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{source}-{target}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            **QUIET,
        }
    )
    producer.init_transactions(SECONDS)
    consumer.subscribe([source])
    print(f"{name} is ready", flush=True)
    while True:
        messages = consumer.consume(RECORDS_PER_TRANSACTION, 0.2)
        records = [message for message in messages if message.error() is None]
        if records:
            copy_in_time(producer, consumer, records, target)


def copy_in_time(
    producer: Producer, consumer: Consumer, records: list[Message], target: str
) -> None:
    watch = Timer(PATIENCE, give_up)
    watch.start()
    try:
        copy_some(producer, consumer, records, target)
    finally:
        watch.cancel()


def give_up() -> None:
    print("a transaction takes too long", flush=True)
    os._exit(1)


def copy_some(producer: Producer, consumer: Consumer, records: list[Message], target: str) -> None:
    """Ends the process when nothing else is known to be safe."""
    producer.begin_transaction()
    try:
        for record in records:
            producer.produce(
                target, record.value(), key=record.key(), partition=record.partition() or 0
            )
            producer.poll(0)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS
        )
        commit(producer)
    except KafkaException as failure:
        if not failure.args[0].txn_requires_abort():
            raise
        print(f"aborts: {failure}", flush=True)
        producer.abort_transaction(SECONDS)
        go_back(consumer)


def commit(producer: Producer) -> None:
    """Asked again until it is known what became of it."""
    while True:
        try:
            producer.commit_transaction(SECONDS)
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
            continue
        return


def go_back(consumer: Consumer) -> None:
    """Read again what the aborted transaction had read."""
    assigned = consumer.assignment()
    for place in consumer.committed(assigned, SECONDS):
        offset = place.offset if place.offset >= 0 else 0
        consumer.seek(TopicPartition(place.topic, place.partition, offset))


if __name__ == "__main__":
    copy(*sys.argv[1:])
