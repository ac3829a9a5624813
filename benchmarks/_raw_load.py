"""Load from plain sockets: requests encoded once and sent over and over, answers counted by size.

The client costs a few microseconds a request, so that the broker is what is measured. All requests
have the versions that a Java client of the time of Kafka 3.9 sends.
"""

import time
from collections.abc import Sequence

from odradek.protocol.errors import Errors
from odradek.protocol.frames import encode_request
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.records import Record, build_batch
from odradek.protocol.schema import Request

from benchmarks._brokers import Broker
from tests.support.raw_client import LENGTH, RawClient

PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION = 11, 17, 7
CLIENT_ID = "bench"
NOT_YET = (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.NOT_LEADER_OR_FOLLOWER)
NEW_TOPIC_SECONDS = 30
_RECEIVE_BYTES = 1 << 18


def frame_of(message: Request, version: int) -> bytes:
    return encode_request(message, version, 1, CLIENT_ID)


def produce_request(
    topic: str, value_bytes: int, *, acks: int, partitions: Sequence[int] = (0,), records: int = 1
) -> ProduceRequest:
    """One batch for each partition; the timestamps are of now, the values of no consequence."""
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([Record(n, now_ms, None, b"x" * value_bytes) for n in range(records)])
    data = [PartitionProduceData(index=index, records=bytes(batch)) for index in partitions]
    return ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def fetch_request(topic_id: bytes, offset: int, *, max_bytes: int = 1 << 20) -> FetchRequest:
    asked = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=0
    )
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic_id=topic_id, partitions=[asked])],
    )


def create_topic(broker: Broker, name: str, partitions: int = 1) -> bytes:
    """Make a topic and tell its id."""
    with RawClient(broker.port) as client:
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        created = client.ask(request, CREATE_VERSION)
        assert isinstance(created, CreateTopicsResponse)
        assert not created.topics[0].error_code, created
        return created.topics[0].topic_id


def produce(client: RawClient, request: ProduceRequest) -> int:
    """Send it once; the offset that its last partition gave to its first record. A broker that has
    not heard yet that it leads a new topic, as Kafka's may, is asked again."""
    deadline = time.monotonic() + NEW_TOPIC_SECONDS
    while True:
        answer = client.ask(request, PRODUCE_VERSION)
        assert isinstance(answer, ProduceResponse)
        results = [p for topic in answer.responses for p in topic.partition_responses]
        if not any(result.error_code in NOT_YET for result in results):
            break
        assert time.monotonic() < deadline, answer
        time.sleep(0.01)
    assert not any(result.error_code for result in results), answer
    return results[-1].base_offset


def fetched_bytes(client: RawClient, request: FetchRequest) -> int:
    """Send it once; how many bytes of records came."""
    answer = client.ask(request, FETCH_VERSION)
    assert isinstance(answer, FetchResponse)
    assert not answer.error_code, answer
    data = answer.responses[0].partitions[0]
    assert not data.error_code, data
    return len(data.records or b"")


def repeat(client: RawClient, frame: bytes, count: int, depth: int) -> None:
    """Send the frame so many times, always keeping `depth` of them unanswered."""
    size = answer_bytes(client, frame)
    connection, buffer = client.socket, bytearray(_RECEIVE_BYTES)
    connection.sendall(frame * depth)
    sent, answered, received = depth, 0, 0
    while answered < count:
        got = connection.recv_into(buffer)
        if not got:
            raise ConnectionError("closed under load")
        received += got
        more = min(received // size - answered, count - sent)
        if more > 0:
            connection.sendall(frame * more)
            sent += more
        answered = received // size


def latencies(client: RawClient, frames: Sequence[bytes], seconds: float) -> list[float]:
    """Microseconds of each round trip, the frames taking turns, one request at a time."""
    pairs = [(frame, answer_bytes(client, frame)) for frame in frames]
    connection, buffer = client.socket, bytearray(_RECEIVE_BYTES)
    clock = time.perf_counter
    taken: list[float] = []
    end = clock() + seconds
    while (began := clock()) < end:
        for frame, size in pairs:
            connection.sendall(frame)
            while size > 0:
                size -= connection.recv_into(buffer)
            done = clock()
            taken.append((done - began) * 1e6)
            began = done
    return taken


def answer_bytes(client: RawClient, frame: bytes) -> int:
    """How long the answer is; it is the same each time, for all that changes has a fixed size."""
    client.send(frame)
    return LENGTH.size + len(client.read_frame())
