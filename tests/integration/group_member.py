"""One member of a consumer group as a program: what it is given and what it reads, line by line.

    python group_member.py LIBRARY BOOTSTRAP GROUP TOPIC ASSIGNOR [INSTANCE_ID]

Lines: `ready`, `assigned 0,1`, `revoked 0,1`, `got PARTITION OFFSET`, `closed`. What it got is
committed at once. SIGTERM makes it leave in good order. Members in other languages are built from
tests/clients and speak the same lines.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

SESSION_MS = 6000
STATIC_SESSION_MS = 30_000
FOREVER_MS = 3_600_000


class Job(NamedTuple):
    bootstrap: str
    group: str
    topic: str
    assignor: str
    instance: str | None

    @property
    def session_ms(self) -> int:
        """A static member has the time to come back."""
        return SESSION_MS if self.instance is None else STATIC_SESSION_MS


class Interrupted(Exception):
    """The member was asked to go while it waited."""


class Stop:
    """Whether the member was asked to go."""

    def __init__(self) -> None:
        self.asked = False
        self.interrupts = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True
        if self.interrupts:
            raise Interrupted


def say(*words: object) -> None:
    print(*words, flush=True)


def numbers(partitions: Iterable[Any]) -> str:
    return ",".join(str(number) for number in sorted(p.partition for p in partitions))


def run_confluent(job: Job, stop: Stop) -> None:
    classic = {
        "partition.assignment.strategy": job.assignor,
        "session.timeout.ms": job.session_ms,
        "heartbeat.interval.ms": 500,
    }
    _run_confluent(job, stop, classic)


def run_confluent_consumer(job: Job, stop: Stop) -> None:
    """The consumer protocol: the broker says how often to send heartbeats."""
    _run_confluent(job, stop, {"group.protocol": "consumer", "group.remote.assignor": job.assignor})


def _run_confluent(job: Job, stop: Stop, protocol: dict[str, Any]) -> None:
    from confluent_kafka import Consumer

    settings: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "group.id": job.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        **protocol,
    }
    if job.instance is not None:
        settings["group.instance.id"] = job.instance
    consumer = Consumer(settings)
    consumer.subscribe(
        [job.topic],
        on_assign=lambda _, partitions: say("assigned", numbers(partitions)),
        on_revoke=lambda _, partitions: say("revoked", numbers(partitions)),
        on_lost=lambda _, partitions: say("revoked", numbers(partitions)),
    )
    while not stop.asked:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            say("error", message.error())
            continue
        say("got", message.partition(), message.offset())
        consumer.commit(message, asynchronous=True)
    consumer.close()


def run_kafka_python(job: Job, stop: Stop) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", numbers(assigned))

        def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked", numbers(revoked))

    consumer = KafkaConsumer(
        bootstrap_servers=job.bootstrap,
        group_id=job.group,
        group_instance_id=job.instance,
        partition_assignment_strategy=[assignors[job.assignor]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=job.session_ms,
        heartbeat_interval_ms=500,
        max_poll_interval_ms=30_000,
    )
    consumer.subscribe([job.topic], listener=Listener())
    # kafka-python may join before it knows the topic's partitions, and then stays without any
    # after a rebalance; and a leader that had not heard of them since it subscribed joins once
    # more, half a second later. So on every broker: let it learn of them in between.
    consumer.partitions_for_topic(job.topic)
    # A poll that runs out of time just when the answer to SyncGroup has come forgets the
    # assignment for good (kafka-python 3.0, on every broker): so polls never run out of time.
    stop.interrupts = True
    with suppress(Interrupted):
        while not stop.asked:
            for records in consumer.poll(timeout_ms=FOREVER_MS).values():
                for record in records:
                    say("got", record.partition, record.offset)
                consumer.commit_async()
    consumer.close()


def run_aiokafka(job: Job, stop: Stop) -> None:
    asyncio.run(_run_aiokafka(job, stop))


async def _run_aiokafka(job: Job, stop: Stop) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.errors import KafkaError

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", numbers(assigned))

        async def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked", numbers(revoked))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap,
        group_id=job.group,
        partition_assignment_strategy=[assignors[job.assignor]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=job.session_ms,
        heartbeat_interval_ms=500,
        max_poll_interval_ms=30_000,
    )
    consumer.subscribe([job.topic], listener=Listener())
    await consumer.start()
    try:
        while not stop.asked:
            found = await consumer.getmany(timeout_ms=200)
            for records in found.values():
                for record in records:
                    say("got", record.partition, record.offset)
            if found:
                try:
                    await consumer.commit()
                except KafkaError as error:
                    say("error", type(error).__name__)
    finally:
        await consumer.stop()


def run_odradek(job: Job, stop: Stop) -> None:
    asyncio.run(_run_odradek(job, stop))


async def _run_odradek(job: Job, stop: Stop) -> None:
    from odradek.client.consumer import Consumer
    from odradek.client.subscription import RebalanceListener
    from odradek.protocol.errors import KafkaError

    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            say("assigned", numbers(assigned))

        async def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked", numbers(revoked))

        async def on_partitions_lost(self, lost: Any) -> None:
            say("revoked", numbers(lost))

    async with Consumer(
        bootstrap_servers=job.bootstrap,
        group_id=job.group,
        group_instance_id=job.instance,
        partition_assignment_strategy=job.assignor,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=job.session_ms,
        heartbeat_interval_ms=500,
    ) as consumer:
        consumer.subscribe([job.topic], listener=Listener())
        while not stop.asked:
            records = await consumer.poll(0.2)
            for record in records:
                say("got", record.partition, record.offset)
            if records:
                try:
                    await consumer.commit()
                except KafkaError as error:
                    say("error", error.error.name)


LIBRARIES: dict[str, Callable[[Job, Stop], None]] = {
    "confluent": run_confluent,
    "confluent-consumer": run_confluent_consumer,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
    "odradek": run_odradek,
}


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    library, bootstrap, group, topic, assignor, *rest = sys.argv[1:]
    stop = Stop()
    say("ready")
    LIBRARIES[library](Job(bootstrap, group, topic, assignor, rest[0] if rest else None), stop)
    say("closed")


if __name__ == "__main__":
    main()
