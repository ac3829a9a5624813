"""What do decoding and encoding messages cost, with kio and kafka-python beside?

Microseconds a message, the best of the rounds; in each round every competitor takes its turn, so
that a noisy neighbour hits all alike. All decode the same bytes, and encode what they decoded to
those bytes again. kio's decoder is written in Rust, everything else in Python. The cyclic garbage
collector is off while they run, as in `timeit`: nobody here makes cycles, and when it chose to look
at the whole heap would decide who wins.
"""

import argparse
import gc
import io
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version as version_of
from pkgutil import resolve_name
from typing import Any

from kio.serial import entity_reader, entity_writer
from odradek.protocol.compiler import decode, encode
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.groups import HeartbeatRequest
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.messages.versions import ApiVersion, ApiVersionsResponse
from odradek.protocol.registry import API_KEYS, api
from odradek.protocol.schema import Versioned

TURN_SECONDS = 0.02
TOPIC_ID = bytes(range(16))


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    message: Versioned
    version: int
    kio: str
    kafka_python: str


def fetch_request(partitions: int) -> FetchRequest:
    asked = [
        FetchPartition(
            partition=index,
            current_leader_epoch=7,
            fetch_offset=1_000_000 + index,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1_048_576,
        )
        for index in range(partitions)
    ]
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=52_428_800,
        session_id=0,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=asked)],
    )


def produce_request(size: int) -> ProduceRequest:
    data = PartitionProduceData(index=3, records=bytes(size))
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="orders", partition_data=[data])],
    )


def metadata_response(partitions: int) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node, host=f"broker-{node}.example", port=9092)
        for node in range(3)
    ]
    described = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=index % 3,
            leader_epoch=7,
            replica_nodes=[0, 1, 2],
            isr_nodes=[0, 1, 2],
            offline_replicas=[],
        )
        for index in range(partitions)
    ]
    topic = MetadataResponseTopic(
        error_code=0, name="orders", topic_id=TOPIC_ID, partitions=described
    )
    return MetadataResponse(
        brokers=brokers, cluster_id="Ix2yRr4zQ1mKqv0aJw8o5A", controller_id=1, topics=[topic]
    )


def heartbeat_request() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="billing", generation_id=42, member_id="consumer-1-5ab8e6d0")


def api_versions_response() -> ApiVersionsResponse:
    served = [
        ApiVersion(api_key=key, min_version=api(key).versions.first, max_version=0)
        for key in API_KEYS
    ]
    return ApiVersionsResponse(error_code=0, api_keys=served)


def cases() -> list[Case]:
    fetch = ("kio.schema.fetch.v13.request:FetchRequest", "consumer.fetch:FetchRequest")
    produce = ("kio.schema.produce.v9.request:ProduceRequest", "producer.produce:ProduceRequest")
    metadata = (
        "kio.schema.metadata.v12.response:MetadataResponse",
        "metadata.metadata:MetadataResponse",
    )
    heartbeat = (
        "kio.schema.heartbeat.v4.request:HeartbeatRequest",
        "consumer.group:HeartbeatRequest",
    )
    versions = (
        "kio.schema.api_versions.v3.response:ApiVersionsResponse",
        "metadata.api_versions:ApiVersionsResponse",
    )
    return [
        Case("FetchRequest v13, 1 partition", fetch_request(1), 13, *fetch),
        Case("FetchRequest v13, 100 partitions", fetch_request(100), 13, *fetch),
        Case("ProduceRequest v9, 16 KiB", produce_request(16_384), 9, *produce),
        Case("MetadataResponse v12, 1000 partitions", metadata_response(1000), 12, *metadata),
        Case("HeartbeatRequest v4", heartbeat_request(), 4, *heartbeat),
        Case("ApiVersionsResponse v3", api_versions_response(), 3, *versions),
    ]


Work = Callable[[], object]


def odradek_work(case: Case, encoded: bytes) -> tuple[Work, Work]:
    message, version = type(case.message), case.version
    decoded = decode(message, version, encoded)
    return lambda: decode(message, version, encoded), lambda: encode(decoded, version)


def kio_work(case: Case, encoded: bytes) -> tuple[Work, Work]:
    entity: Any = resolve_name(case.kio)
    read, write = entity_reader(entity), entity_writer(entity)
    decoded, _ = read(encoded, 0)

    def written() -> bytes:
        buffer = io.BytesIO()
        write(buffer, decoded)
        return buffer.getvalue()

    return lambda: read(encoded, 0), written


def kafka_python_work(case: Case, encoded: bytes) -> tuple[Work, Work]:
    message: Any = resolve_name("kafka.protocol." + case.kafka_python)
    decoded = message.decode(encoded, version=case.version)
    decoded._header = None  # encode() asks for it, decode() does not set it
    return (
        lambda: message.decode(encoded, version=case.version),
        lambda: decoded.encode(version=case.version),
    )


COMPETITORS = {"odradek": odradek_work, "kio": kio_work, "kafka-python": kafka_python_work}


def best_microseconds(work: dict[str, Work], rounds: int) -> dict[str, float]:
    calls = {
        name: max(1, int(TURN_SECONDS / _seconds(function, 3))) for name, function in work.items()
    }
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, function in work.items():
            best[name] = min(best[name], _seconds(function, calls[name]) * 1e6)
    return best


def _seconds(function: Work, calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - started) / calls


def measure(case: Case, rounds: int) -> list[dict[str, Any]]:
    encoded = encode(case.message, case.version)
    decoders: dict[str, Work] = {}
    encoders: dict[str, Work] = {}
    for name, make in COMPETITORS.items():
        decoders[name], encoders[name] = make(case, encoded)
        assert encoders[name]() == encoded, f"{name} encodes {case.name} differently"
    return [
        {"message": case.name, "bytes": len(encoded), "verb": verb, "microseconds": figures}
        for verb, figures in (
            ("decode", best_microseconds(decoders, rounds)),
            ("encode", best_microseconds(encoders, rounds)),
        )
    ]


def show(rows: list[dict[str, Any]]) -> None:
    heading = "".join(f"{name:>14}" for name in COMPETITORS)
    print(f"{'µs':<40}{'':<8}{heading}", file=sys.stderr)
    for row in rows:
        figures = "".join(f"{figure:14.1f}" for figure in row["microseconds"].values())
        print(f"{row['message']:<40}{row['verb']:<8}{figures}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    arguments = parser.parse_args()
    gc.disable()
    rows = [row for case in cases() for row in measure(case, 3 if arguments.quick else 40)]
    show(rows)
    versions = {name: version_of(name) for name in ("kio", "kafka-python")}
    print(json.dumps({"python": platform.python_version(), "versions": versions, "rows": rows}))


if __name__ == "__main__":
    main()
