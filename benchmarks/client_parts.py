"""What do the client's hot parts cost, beside the plain way to do the same?

Encoding a batch (against appending to a BatchBuilder), reading records in runs or as columns
(against the plain reader; for records alike, which are runs, and of mixed sizes), and one request
and answer over a socket (against asyncio's streams). CPU microseconds, the best of several rounds,
in which all take turns.
"""

import argparse
import asyncio
import json
import platform
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import uvloop
from odradek.client.batch import RawRecord, encode_records, sealed_batch
from odradek.client.frame_stream import Frame, FrameStream
from odradek.client.partition_state import PartitionState
from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    BatchBuilder,
    BatchHeader,
    ProducerStamp,
    read_body,
    read_header,
)
from odradek.protocol.types import TopicPartition

from benchmarks._timing import best_us

SHAPES = {"16 x 1 KB": (16, 1000), "145 x 100 B": (145, 100), "1000 x 100 B": (1000, 100)}
FIRST_TIMESTAMP = 1_700_000_000_000


def records_of(count: int, size: int, *, mixed: bool) -> list[RawRecord]:
    random = Random(1)
    sizes = [random.randrange(size // 2, size * 3 // 2) if mixed else size for _ in range(count)]
    return [(FIRST_TIMESTAMP + i // 20, None, bytes(n), ()) for i, n in enumerate(sizes)]


def build(records: list[RawRecord]) -> bytes:
    builder = BatchBuilder()
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder.build()


def batch_rows(rounds: int) -> dict[str, float]:
    rows: dict[str, float] = {}
    state = PartitionState(TopicPartition("topic", 0))
    for name, (count, size) in SHAPES.items():
        calls = max(200, rounds * 30_000 // count)
        alike = records_of(count, size, mixed=False)

        def each(work: Callable[[], object], calls: int = calls, count: int = count) -> float:
            return round(best_us(work, calls=calls) / count, 3)

        rows[f"encode, {name}"] = each(partial(encode_records, alike))
        rows[f"encode by BatchBuilder, {name}"] = each(partial(build, alike))
        for kind, records in (("alike", alike), ("mixed", records_of(count, size, mixed=True))):
            batch = sealed_batch(records, Codec.NONE, ProducerStamp())
            header, body = read_header(batch), read_body(batch)

            def in_runs(body: bytes = body, header: BatchHeader = header) -> object:
                return (
                    state._alike(body, header)
                    or state._simple(body, header)
                    or state._unlike(body, header)
                )

            def plainly(body: bytes = body, header: BatchHeader = header) -> object:
                return state._unlike(body, header)

            rows[f"read, {kind}, {name}"] = each(in_runs)
            rows[f"read plainly, {kind}, {name}"] = each(plainly)
    return rows


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 20):
        writer.write(data)
    writer.close()


async def by_frame_stream(port: int, frame: bytes, count: int) -> float:
    loop = asyncio.get_running_loop()
    answers: asyncio.Queue[Frame] = asyncio.Queue()
    transport, _ = await loop.create_connection(
        lambda: FrameStream(
            on_frame=answers.put_nowait, on_lost=lambda error: None, max_frame_bytes=1 << 24
        ),
        "127.0.0.1",
        port,
    )
    began = time.process_time()
    for _ in range(count):
        transport.write(frame)
        await answers.get()
    cost = time.process_time() - began
    transport.close()
    return cost


async def by_streams(port: int, frame: bytes, count: int) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.process_time()
    for _ in range(count):
        writer.write(frame)
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        await reader.readexactly(length)
    cost = time.process_time() - began
    writer.close()
    return cost


async def socket_rows(rounds: int, count: int) -> dict[str, float]:
    """The echoing server is in this process: its cost is the same in both rows."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0, limit=1 << 21)
    port = server.sockets[0].getsockname()[1]
    ways: dict[str, Callable[[int, bytes, int], Awaitable[float]]] = {
        "FrameStream": by_frame_stream,
        "asyncio streams": by_streams,
    }
    best: dict[str, float] = {}
    for size in (100, 1_000_000):
        frame = struct.pack(">i", size) + bytes(size)
        calls = max(20, min(count, 20_000_000 // size))
        for _ in range(rounds):
            for name, way in ways.items():
                row = f"round trip of {size} B by {name}"
                cost = await way(port, frame, calls) / calls * 1e6
                best[row] = round(min(best.get(row, cost), cost), 1)
    server.close()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rounds = 2 if parser.parse_args().quick else 9
    rows = batch_rows(rounds)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows |= runner.run(socket_rows(rounds, 2000))
    for name, value in rows.items():
        print(f"{name:48} {value}", file=sys.stderr)
    print(json.dumps({"python": platform.python_version(), "microseconds": rows}))


if __name__ == "__main__":
    main()
