"""Does a reader that catches up on old data disturb a busy client?

The old segments are put on disk and dropped from the page cache before each round; the reader is a
process of its own and fetches them from their start to their end, 1 MB at a time. How much the
broker had to get from the disk meanwhile is told beside the result.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.records import iter_headers

from benchmarks._brokers import Broker, disk_reads_mb, odradek
from benchmarks._busy_client import RECORD_BYTES, BusyClient, disturbance_row
from benchmarks._raw_load import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    create_topic,
    fetch_request,
    frame_of,
    produce_request,
    repeat,
)
from benchmarks._rows import Row, reading
from tests.support.raw_client import RawClient

LIMIT_OF_P99 = 2.0
TOPIC = "old"
_SEGMENT_BYTES = 64 << 20
_BATCH_RECORDS = 900
_ROUND_SECONDS = 1.0
_SLICE_SECONDS = 0.02
_WAIT_SECONDS = 60.0


def cold_rows(*, quick: bool) -> Iterator[Row]:
    megabytes, rounds = (400, 3) if quick else (1000, 7)
    alone, warm, disturbed, speeds, shares = [], [], [], [], []
    with odradek(log_segment_bytes=_SEGMENT_BYTES) as broker:
        topic_id = write_old_data(broker, megabytes)
        with BusyClient(broker) as client:
            client.round(_ROUND_SECONDS)
            for _ in range(rounds):
                alone.append(client.round(_ROUND_SECONDS))
                samples, _, _ = _beside_a_reader(client, broker, topic_id)
                warm.append(samples)
                drop_from_cache(broker.data_dir / f"{TOPIC}-0")
                before = disk_reads_mb(broker)
                samples, read_mb, seconds = _beside_a_reader(client, broker, topic_id)
                disturbed.append(samples)
                speeds.append(read_mb / seconds)
                shares.append((disk_reads_mb(broker) - before) / read_mb)
    # What three processes cost each other on the cores there are, without any disk.
    name = "p99 of a busy client beside a reader of data in memory"
    yield disturbance_row(name, warm, alone, None)
    name = "p99 of a busy client beside a cold reader"
    yield disturbance_row(name, disturbed, alone, LIMIT_OF_P99)
    share = round(median(shares), 2)
    yield reading("the cold reader meanwhile", median(speeds), "MB/s", share_from_disk=share)


def _beside_a_reader(
    client: BusyClient, broker: Broker, topic_id: bytes
) -> tuple[list[float], float, float]:
    """The client's latencies while another reads all; how many MB that were, in what time."""
    samples: list[float] = []
    with catch_up(broker, topic_id) as reader:
        while not reader.poll():
            samples += client.round(_SLICE_SECONDS)
        read_mb, seconds = reader.recv()
    return samples, read_mb, seconds


def write_old_data(broker: Broker, megabytes: int) -> bytes:
    topic_id = create_topic(broker, TOPIC)
    request = produce_request(TOPIC, RECORD_BYTES, acks=1, records=_BATCH_RECORDS)
    batches = megabytes * 1_000_000 // (RECORD_BYTES * _BATCH_RECORDS)
    with RawClient(broker.port) as client:
        repeat(client, frame_of(request, PRODUCE_VERSION), batches, depth=2)
    return topic_id


def drop_from_cache(directory: Path) -> None:
    """Only what is on disk can be dropped, so it is put there first."""
    for path in directory.glob("*.log"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


@contextmanager
def catch_up(broker: Broker, topic_id: bytes) -> Iterator[Connection]:
    """A reader at work; in the end it sends how many MB it has read, and in how many seconds."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_read_all, args=(broker.port, topic_id, there), daemon=True)
    process.start()
    try:
        if not here.poll(_WAIT_SECONDS):
            raise TimeoutError("the reader did not start")
        here.recv()
        yield here
        process.join(_WAIT_SECONDS)
    finally:
        process.kill()


def _read_all(port: int, topic_id: bytes, parent: Connection) -> None:
    with RawClient(port) as client:
        parent.send("ready")
        began, offset, read_bytes = time.perf_counter(), 0, 0
        while True:
            request = fetch_request(topic_id, offset)
            request.max_wait_ms = 0
            answer = client.ask(request, FETCH_VERSION)
            assert isinstance(answer, FetchResponse)
            records = answer.responses[0].partitions[0].records
            if not isinstance(records, memoryview) or not records:
                break
            read_bytes += len(records)
            offset = max(header.next_offset for _, header in iter_headers(records))
        parent.send((read_bytes / 1e6, time.perf_counter() - began))
