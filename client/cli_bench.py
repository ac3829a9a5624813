"""`odradek bench`: what a cluster does for one client, from this machine."""

from random import Random
from typing import NamedTuple

import click
from odradek.client.admin import Admin, NewTopic, raise_failures
from odradek.client.batch import Delivery
from odradek.client.cli import TIMEOUT_MS, Common, common_options, opened, run
from odradek.client.cli_output import Progress, print_rows
from odradek.client.consumer import Consumer
from odradek.client.producer import Producer
from odradek.protocol.clock import SystemClock
from odradek.protocol.types import TopicPartition

_COLUMNS = ("WHAT", "RECORDS", "SECONDS", "PER SECOND", "MB PER SECOND", "P50 MS", "P99 MS")
# How many records are sent one by one: enough for a 99th percentile.
_MOST_AWAITED = 2_000
_CHECK_EVERY = 1_000


class Plan(NamedTuple):
    topic: str
    records: int
    value: bytes
    partitions: int
    replication_factor: int
    acks: str
    compression: str
    keeps_topic: bool


class Timing(NamedTuple):
    what: str
    records: int
    seconds: float
    record_bytes: int
    latencies: tuple[float, ...] = ()

    def row(self) -> tuple[object, ...]:
        rate = self.records / self.seconds
        return (
            self.what,
            self.records,
            round(self.seconds, 3),
            round(rate),
            round(rate * self.record_bytes / 1e6, 1),
            *(self._percentile_ms(share) for share in (0.5, 0.99)),
        )

    def _percentile_ms(self, share: float) -> float | None:
        if not self.latencies:
            return None
        ordered = sorted(self.latencies)
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3, 3)


@click.command()
@click.option("-n", "--records", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("-s", "--size", type=click.IntRange(0), default=1000, help="Bytes of a value.")
@click.option("-p", "--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("-r", "--replication-factor", type=int, default=-1, help="Else the broker's default.")
@click.option("-z", "--compression", default="none", help="none, gzip, snappy, lz4 or zstd.")
@click.option("--acks", default="all", show_default=True, help="all, 1 or 0.")
@click.option("--keep", is_flag=True, help="Do not delete the topic in the end.")
@common_options
def bench(
    common: Common,
    records: int,
    size: int,
    partitions: int,
    replication_factor: int,
    compression: str,
    acks: str,
    keep: bool,
) -> None:
    """Measure a cluster: send records in batches, one by one, and read them back.

    They go to a topic of their own, which is deleted in the end.

    \b
    odradek bench
    odradek bench -b broker:9092 -n 1000000 -s 100 -p 12 --acks 1 --json
    """
    random = Random()
    plan = Plan(
        f"odradek-bench-{random.getrandbits(32):08x}",
        records,
        random.randbytes(size),
        partitions,
        replication_factor,
        acks,
        compression,
        keep,
    )
    timings = run(_bench(common, plan))
    print_rows(common.as_json, _COLUMNS, [timing.row() for timing in timings])


async def _bench(common: Common, plan: Plan) -> list[Timing]:
    async with opened(Admin(common.admin())) as admin:
        new = NewTopic(plan.topic, plan.partitions, plan.replication_factor)
        raise_failures(await admin.create_topics([new]))
        try:
            await admin.wait_for_topics([plan.topic])
            return [
                await _send_batched(common, plan),
                await _send_one_by_one(common, plan),
                await _read(common, plan),
            ]
        finally:
            if not plan.keeps_topic:
                raise_failures(await admin.delete_topics([plan.topic]))


def _producer(common: Common, plan: Plan, linger_ms: int) -> Producer:
    return Producer(
        common.client(
            acks=plan.acks,
            compression_type=plan.compression,
            linger_ms=linger_ms,
            max_block_ms=TIMEOUT_MS,
        )
    )


async def _send_batched(common: Common, plan: Plan) -> Timing:
    clock = SystemClock()
    progress = Progress("sent", clock, plan.records)
    async with opened(_producer(common, plan, 5)) as producer:
        await producer.send_and_wait(plan.topic, plan.value)  # pays for connections and metadata
        began = clock.monotonic()
        waiting: list[Delivery] = []
        for number in range(1, plan.records):
            waiting.append(await producer.send(plan.topic, plan.value))
            if number % _CHECK_EVERY == 0:
                waiting = [delivery for delivery in waiting if not await _is_over(delivery)]
                progress.step(_CHECK_EVERY)
        await producer.flush()
        for delivery in waiting:
            await delivery
        seconds = clock.monotonic() - began
    progress.end()
    return Timing("send", plan.records, seconds, len(plan.value))


async def _is_over(delivery: Delivery) -> bool:
    """Whether it has ended; raises what made it fail."""
    if delivery.done():
        await delivery
        return True
    return False


async def _send_one_by_one(common: Common, plan: Plan) -> Timing:
    clock = SystemClock()
    latencies = []
    async with opened(_producer(common, plan, 0)) as producer:
        await producer.send_and_wait(plan.topic, plan.value)
        began = clock.monotonic()
        for _ in range(min(plan.records, _MOST_AWAITED)):
            start = clock.monotonic()
            await producer.send_and_wait(plan.topic, plan.value)
            latencies.append(clock.monotonic() - start)
        seconds = clock.monotonic() - began
    return Timing("send and wait", len(latencies), seconds, len(plan.value), tuple(latencies))


async def _read(common: Common, plan: Plan) -> Timing:
    clock = SystemClock()
    partitions = [TopicPartition(plan.topic, index) for index in range(plan.partitions)]
    async with opened(Consumer(common.client(auto_offset_reset="earliest"))) as consumer:
        ends = await consumer.end_offsets(partitions)
        left = total = sum(ends.values())
        progress = Progress("read", clock, total)
        consumer.assign(partitions)
        began = clock.monotonic()
        while left > 0:
            count = len(await consumer.poll(1.0, max_records=10_000))
            left -= count
            progress.step(count)
        seconds = clock.monotonic() - began
    progress.end()
    return Timing("read", total, seconds, len(plan.value))
