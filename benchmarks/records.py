"""What do building and reading record batches cost, with kafka-python and aiokafka beside?

Microseconds per record, and of the rounds the best; in each round every competitor takes its
turn, so that a noisy neighbour hits all alike. aiokafka's builder and reader are Cython where its
wheel has them; `aiokafka_is_compiled` says so.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable

import aiokafka.record.default_records as aiokafka_records
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from odradek.protocol.compression import Codec
from odradek.protocol.records import BatchBuilder, iter_records, iter_spans, read_body, read_header

SHAPES = {"16 x 1 KB": (16, 1000), "1000 x 100 B": (1000, 92)}
CODECS = (Codec.NONE, Codec.LZ4)
FIRST_TIMESTAMP = 1_700_000_000_000
KEY = b"key-0001"
MIN_RECORDS_PER_TURN = 500


def build_ours(codec: Codec, count: int, value: bytes) -> bytes:
    builder = BatchBuilder(codec)
    append = builder.append
    for index in range(count):
        append(FIRST_TIMESTAMP + index, KEY, value)
    return builder.build()


def build_theirs(builder_type: type, codec: Codec, count: int, value: bytes) -> bytes:
    builder = builder_type(2, int(codec), 0, -1, -1, -1, 1 << 30)
    append = builder.append
    for index in range(count):
        append(index, FIRST_TIMESTAMP + index, KEY, value, [])
    return bytes(builder.build())


def read_ours(batch: bytes) -> None:
    for record in iter_records(batch):
        _ = record.value


def read_ours_keys_only(batch: bytes) -> None:
    for span in iter_spans(read_body(batch), read_header(batch)):
        _ = span.key


def read_theirs(batch_type: type, batch: bytes) -> None:
    for record in batch_type(batch):
        _ = record.value


def competitors(codec: Codec, count: int, value: bytes) -> dict[str, Callable[[], object]]:
    batch = build_ours(codec, count, value)
    aiokafka_builder = aiokafka_records.DefaultRecordBatchBuilder
    aiokafka_batch = aiokafka_records.DefaultRecordBatch
    return {
        "build odradek": lambda: build_ours(codec, count, value),
        "build kafka-python": lambda: build_theirs(KafkaPythonBuilder, codec, count, value),
        "build aiokafka": lambda: build_theirs(aiokafka_builder, codec, count, value),
        "read odradek": lambda: read_ours(batch),
        "read odradek, keys only": lambda: read_ours_keys_only(batch),
        "read kafka-python": lambda: read_theirs(KafkaPythonBatch, batch),
        "read aiokafka": lambda: read_theirs(aiokafka_batch, batch),
    }


def best_microseconds(
    functions: dict[str, Callable[[], object]], count: int, rounds: int
) -> dict[str, float]:
    repeats = max(1, MIN_RECORDS_PER_TURN // count)
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.process_time_ns()
            for _ in range(repeats):
                function()
            taken_us = (time.process_time_ns() - started) / 1000 / repeats / count
            best[name] = min(best[name], taken_us)
    return {name: round(taken_us, 3) for name, taken_us in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rounds = 3 if parser.parse_args().quick else 60
    report = {
        "unit": "microseconds per record",
        "python": platform.python_version(),
        "aiokafka_is_compiled": "_crecords" in aiokafka_records.DefaultRecordBatch.__module__,
        "results": {
            f"{shape}, {codec.name.lower()}": best_microseconds(
                competitors(codec, count, bytes(range(250)) * (size // 250) + bytes(size % 250)),
                count,
                rounds,
            )
            for shape, (count, size) in SHAPES.items()
            for codec in CODECS
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
