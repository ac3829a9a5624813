"""Short ways to ask a broker for things in plain requests, one answer each."""

import time
from collections.abc import Callable, Mapping, Sequence

from odradek.protocol.compression import Codec
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from odradek.protocol.records import BatchBuilder, ProducerStamp
from odradek.protocol.schema import Request, Response

from tests.support.raw_client import RawClient

# Not a time of old: retention would take such records away between two requests of a test.
NOW_MS = int(time.time() * 1000)
PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 9, 11, 5, 8, 5
PATIENCE_S = 20.0


def until(is_so: Callable[[], bool], what: str) -> None:
    """Ask again and again. A limit of time and not of questions, which are many a second."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not in {PATIENCE_S} s: {what}"
        time.sleep(0.01)


class Asker:
    """A connection and the names of its questions."""

    def __init__(self, port: int) -> None:
        self.client = RawClient(port)

    def ask(self, request: Request, version: int) -> Response:
        return self.client.ask(request, version)

    def create(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> CreatableTopicResult:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ],
        )
        response = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), CREATE_TOPICS)
        (result,) = response.topics
        if result.error_code == 0:
            self.wait_for_leader(name)
        return result

    def wait_for_leader(self, name: str) -> None:
        """Real Kafka answers CreateTopics a moment before its partitions can be used."""
        until(
            lambda: self.produce(name, b"", index=0).error_code not in (3, 6),
            f"{name} has a leader",
        )

    def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        index: int = 0,
        acks: int = 1,
        version: int = PRODUCE,
    ) -> PartitionProduceResponse:
        response = self.ask(produce_request(topic, records, index=index, acks=acks), version)
        return response.responses[0].partition_responses[0]

    def fetch_response(
        self,
        topic: str,
        offset: int,
        *,
        max_bytes: int = 1 << 20,
        version: int = FETCH,
        **fields: object,
    ) -> FetchResponse:
        epoch = fields.pop("current_leader_epoch", -1)
        request = FetchRequest(
            **{"max_wait_ms": 0, "min_bytes": 1, **fields},
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(
                            partition=0,
                            fetch_offset=offset,
                            partition_max_bytes=max_bytes,
                            current_leader_epoch=epoch,
                        )
                    ],
                )
            ],
        )
        return self.ask(request, version)

    def fetch(self, topic: str, offset: int, **options: object) -> FetchPartitionData:
        return self.fetch_response(topic, offset, **options).responses[0].partitions[0]

    def list_offset(
        self, topic: str, timestamp: int, *, version: int = LIST_OFFSETS, epoch: int = -1
    ) -> ListOffsetsPartitionResponse:
        wanted = ListOffsetsPartition(
            partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
        )
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
        )
        return self.ask(request, version).topics[0].partitions[0]

    def metadata(
        self, names: Sequence[str] | None, *, auto_create: bool = False, version: int = METADATA
    ) -> Response:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        return self.ask(
            MetadataRequest(topics=topics, allow_auto_topic_creation=auto_create), version
        )

    def close(self) -> None:
        self.client.close()


def produce_request(
    topic: str, records: bytes | None, *, index: int = 0, acks: int = 1
) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer: ProducerStamp | None = None,
) -> bytes:
    builder = BatchBuilder(codec) if producer is None else BatchBuilder(codec, producer=producer)
    for number, value in enumerate(values or (b"value",)):
        builder.append(timestamp + number, key, value, ())
    return builder.build()
