"""A few brokers that hold one partition, without sockets: real handlers, real fetchers, real bytes.

`Members` is the controller of a story, too: it says who leads in which epoch. What is sent is
encoded and decoded as on the wire.
"""

import asyncio
from collections.abc import Callable
from random import Random

from odradek.broker.context import RequestContext
from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.handlers.fetch import FetchHandler
from odradek.broker.handlers.offsets import OffsetsHandler
from odradek.broker.later import Later
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.network.peer import Address, Peer
from odradek.broker.routes import table_of
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.frames import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from odradek.protocol.messages.replicas import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.records import iter_headers
from odradek.protocol.schema import Response
from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import FetchLimits, Sender
from odradek.replication.fetchers import Fetchers
from odradek.replication.partition import Partition
from odradek.replication.throttle import Throttle
from odradek.storage.files import FileSlice

from tests.unit.replication.conftest import batch, new_partition

WHERE = TopicPartition("t", 0)
TOPIC_ID = b"i" * 16
PATIENCE = 10.0


class Member:
    def __init__(self, members: "Members", broker_id: int) -> None:
        self.id = broker_id
        self.is_up = True
        self.garbled = 0
        """How many of its next answers to short requests are nonsense."""
        self.partition = new_partition(members.clock, local_id=broker_id, topic_id=TOPIC_ID)
        loop = asyncio.get_running_loop()
        metadata = MetadataCache()
        metadata.apply(_view())
        routes = [
            *FetchHandler(
                replicas=self,  # type: ignore[arg-type]  # of which it uses two methods
                metadata=metadata,
                sessions=FetchSessions(
                    max_slots=10, eviction_seconds=60, clock=members.clock, random=Random(1)
                ),
                max_bytes=1 << 20,
                loop=loop,
            ).routes(),
            *OffsetsHandler(replicas=self).routes(),  # type: ignore[arg-type]
        ]
        self.routes = table_of(routes)
        self.fetchers = Fetchers(
            sender=lambda: Sender(broker_id, 1),
            connect=members.connect,
            limits=FetchLimits(max_wait_ms=20),
            backoff_seconds=0.01,
            throttle=members.throttle,
        )

    def hosted(self, where: TopicPartition) -> Partition:
        assert where == WHERE
        return self.partition

    find = hosted

    def lead(self, epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        self.partition.become_leader(epoch=epoch, partition_epoch=epoch, replicas=replicas, isr=isr)
        self.fetchers.role_changed(self.partition)

    def follow(self, leader: int, epoch: int, replicas: tuple[int, ...]) -> None:
        self.partition.become_follower(
            leader_id=leader, epoch=epoch, partition_epoch=epoch, replicas=replicas
        )
        self.fetchers.role_changed(self.partition)

    def append(self, count: int = 1) -> None:
        self.partition.append(batch(count), acks=1, produce_version=9)

    @property
    def story(self) -> list[tuple[int, int]]:
        """What the log holds: each batch's first offset and epoch."""
        log = self.partition.log
        found = log.read(log.log_start_offset, 1 << 20).records
        data = b"" if found is None else found.read()
        return [(header.base_offset, header.leader_epoch) for _, header in iter_headers(data)]


class Members:
    def __init__(
        self, *ids: int, clock: ManualClock | None = None, throttle: Throttle | None = None
    ) -> None:
        """`throttle` is that of every follower."""
        self.clock = clock or ManualClock()
        self.throttle = throttle
        self.ids = ids
        self.members = {broker_id: Member(self, broker_id) for broker_id in ids}

    def __getitem__(self, broker_id: int) -> Member:
        return self.members[broker_id]

    def elect(self, leader: int, epoch: int, *, tell: tuple[int, ...] | None = None) -> None:
        """`tell` are those who hear of it now; everyone unless given."""
        told = self.ids if tell is None else tell
        for broker_id in told:
            member = self.members[broker_id]
            if broker_id == leader:
                member.lead(epoch, self.ids, self.ids)
            else:
                member.follow(leader, epoch, self.ids)

    async def connect(self, broker_id: int) -> "MemberLink":
        if not self.members[broker_id].is_up:
            raise KafkaError(Errors.NETWORK_EXCEPTION, "down")
        return MemberLink(self.members[broker_id])

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            # Looks at many logs at once, none of which has an event for what is waited for.
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        for member in self.members.values():
            await member.fetchers.close()


class MemberLink:
    client_id = "follower"

    def __init__(self, member: Member) -> None:
        self._member = member
        self.requests: list[object] = []
        self._asking: set[asyncio.Future] = set()

    @property
    def is_open(self) -> bool:
        return self._member.is_up

    def version_of(self, request, at_most=None):
        last = self._member.routes[request.api_key].versions.last
        return last if at_most is None else min(last, at_most)

    async def request(self, request, expected, *, version=None):
        version = self.version_of(type(request)) if version is None else version
        answer = await self._served(encode_request(request, version, 1, self.client_id)[4:])
        _, response = decode_response(answer, type(request), version)
        assert isinstance(response, expected)
        return response

    async def _served(self, frame: bytes) -> bytes:
        header = read_request_header(frame)
        request = decode_request(frame, header)
        peer = Peer("PLAINTEXT", Address("follower", 1), Address("leader", 2))
        route = self._member.routes[request.api_key]
        try:
            answer = route.handler(request, RequestContext(header, peer, arrived=0.0))
            if isinstance(answer, Later):
                answer = await answer
        except KafkaError as error:
            answer = route.failure(request, error)
        if not self._member.is_up:
            raise KafkaError(Errors.NETWORK_EXCEPTION, "down")
        parts = encode_response(answer, header.version, 1)
        data = b"".join(p.read() if isinstance(p, FileSlice) else bytes(p) for p in parts)
        return data[4:]

    def send_then(self, request, on_answer, *, version=None):
        self._begin(self.request(request, Response, version=version), on_answer)

    def exchange(self, frame_of, on_frame, kind):
        self._begin(self._garbled(self._served(frame_of(1)[4:])), on_frame)

    async def _garbled(self, served) -> bytes:
        answer = await served
        if self._member.garbled:
            self._member.garbled -= 1
            return answer[:9]
        return answer

    def _begin(self, asking, on_answer):
        asking = asyncio.ensure_future(asking)
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        asking.add_done_callback(lambda done: on_answer(done.exception() or done.result()))

    def close(self) -> None:
        """There is nothing to close."""


def play(scene) -> None:
    asyncio.run(scene())


def _view() -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=WHERE.topic,
                topic_id=TOPIC_ID,
                partition_states=[
                    UpdateMetadataPartitionState(
                        partition_index=0,
                        controller_epoch=1,
                        leader=1,
                        leader_epoch=0,
                        isr=[1],
                        zk_version=0,
                        replicas=[1],
                    )
                ],
            )
        ],
        live_brokers=[],
    )
