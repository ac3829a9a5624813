"""What does a replicated record cost, without sockets? Microseconds of Python for one record.

A leader and its followers in one process: real handlers, dispatch, connections of both sides,
fetchers and logs on disk. Only the sockets are left out: what one side sends, the other receives in
the next turn of the loop. A record with acks=all is appended, copied by every follower, asked
after, and answered; then the next one comes.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from ssl import SSLContext

from odradek.broker.dispatch import Dispatcher
from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.flushing import Flusher
from odradek.broker.handlers.fetch import FetchHandler
from odradek.broker.handlers.produce import ProduceHandler
from odradek.broker.handlers.versions import VersionsHandler
from odradek.broker.metadata_cache import ClusterView, MetadataCache
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.cold_reads import ColdReads
from odradek.broker.network.connection import Connection, Surroundings
from odradek.broker.network.conversation import Conversation
from odradek.broker.network.framing import SCRATCH_BYTES, FrameReader
from odradek.broker.network.peer import Address, Peer
from odradek.broker.network.readiness import LoopReaders
from odradek.client.connection import Connection as Link
from odradek.client.connection import ConnectionOptions, open_connection
from odradek.protocol.clock import SystemClock
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import Record, build_batch
from odradek.protocol.types import TopicPartition, random_id
from odradek.replication.fetch_plan import FetchLimits, Sender
from odradek.replication.fetchers import Fetchers
from odradek.replication.partition import Partition
from odradek.storage.files import Buffer, FileSlice

from benchmarks._logs import new_log

LEADER = 1
TOPIC = "bench"
TOPIC_ID = random_id()
CLOCK = SystemClock()
HERE = Address("127.0.0.1", 1)
ROUND = 100


class Wire:
    """The two ends of a connection: the broker's transport, and the client's."""

    def __init__(self, stream: asyncio.BufferedProtocol) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self.served: Connection

    # The broker's end.

    def fileno(self) -> int:
        return -1

    def receive_into(self, buffer: memoryview, /) -> int:
        count = len(self._received)
        buffer[:count] = self._received
        self._received.clear()
        return count

    def send(self, data: Buffer, /) -> int:
        self._loop.call_soon(self._deliver, bytes(data))
        return len(data)

    def send_all(self, parts: Sequence[Buffer], *, more: bool) -> int:
        return self.send(b"".join(parts))

    def send_slice(self, piece: FileSlice, most: int) -> int:
        return self.send(piece.read())

    def hold_little(self) -> None:
        pass

    def hold_as_before(self) -> None:
        pass

    def is_broken(self) -> bool:
        return False

    def close(self) -> None:
        pass

    # The client's end.

    def write(self, data: bytes) -> None:
        if not self._received:
            self._loop.call_soon(self.served.on_readable)
        self._received += data

    def abort(self) -> None:
        pass

    def _deliver(self, data: bytes) -> None:
        memoryview(self._stream.get_buffer(-1))[: len(data)] = data
        self._stream.buffer_updated(len(data))


class Host:
    """What handlers ask for the partitions of a broker."""

    def __init__(self, broker_id: int, directory: str, replicas: range, partitions: int) -> None:
        self.id = broker_id
        self.partitions = {
            TopicPartition(TOPIC, index): new_partition(broker_id, directory, index)
            for index in range(partitions)
        }
        for each in self.partitions.values():
            if broker_id == LEADER:
                each.become_leader(epoch=0, partition_epoch=0, replicas=replicas, isr=replicas)
            else:
                each.become_follower(
                    leader_id=LEADER, epoch=0, partition_epoch=0, replicas=replicas
                )

    def find(self, where: TopicPartition) -> Partition | None:
        return self.partitions.get(where)

    def hosted(self, where: TopicPartition) -> Partition:
        return self.partitions[where]


def new_partition(broker_id: int, directory: str, index: int) -> Partition:
    where = TopicPartition(TOPIC, index)
    log = new_log(f"{directory}/{broker_id}/{where}", where)
    return Partition(where, TOPIC_ID, log=log, local_id=broker_id, clock=CLOCK)


class Server:
    """The leader as its peers reach it."""

    def __init__(self, host: Host) -> None:
        loop = asyncio.get_running_loop()
        metadata = MetadataCache()
        metadata.view = ClusterView(names_by_id={TOPIC_ID: TOPIC})
        handlers = (
            FetchHandler(
                replicas=host,  # type: ignore[arg-type]  # of which they use two methods
                metadata=metadata,
                sessions=FetchSessions(
                    max_slots=100, eviction_seconds=60, clock=CLOCK, random=random.Random(1)
                ),
                max_bytes=1 << 20,
                loop=loop,
            ),
            ProduceHandler(
                replicas=host,  # type: ignore[arg-type]
                metadata=metadata,
                flusher=Flusher(threads=None),  # type: ignore[arg-type]  # nothing is flushed
                verifier=None,  # type: ignore[arg-type]  # there are no transactions
                loop=loop,
            ),
        )
        routes = [route for handler in handlers for route in handler.routes()]
        self._budget = MemoryBudget(-1)
        dispatcher = Dispatcher(
            VersionsHandler(routes).routes,
            loop=loop,
            budget=self._budget,
            handlers=8,
            max_queued=500,
        )
        self._surroundings = Surroundings(
            loop, CLOCK, dispatcher, ColdReads(loop), LoopReaders(loop)
        )
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))

    async def connect(self, _: int = LEADER) -> Link:
        return await open_connection("leader", 1, ConnectionOptions(dial=self._dial))

    async def _dial(
        self,
        stream: Callable[[], asyncio.BufferedProtocol],
        host: str,
        port: int,
        tls: SSLContext | None,
    ) -> asyncio.Transport:
        wire = Wire(stream())
        reader = FrameReader(self._scratch, SCRATCH_BYTES)
        conversation = Conversation(Peer("PLAINTEXT", HERE, HERE), reader, self._budget)
        served = Connection(wire, conversation, self._surroundings, lambda *_: None)
        served._is_receiving = True  # there is no descriptor to watch
        wire.served = served
        return wire  # type: ignore[return-value]  # of which two methods are used


def produce_request(index: int) -> ProduceRequest:
    records = build_batch([Record(0, 1_700_000_000_000, None, bytes(1000), ())])
    data = PartitionProduceData(index=index, records=bytearray(records))
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )


async def measure(directory: str, replicas: int, partitions: int, records: int) -> float:
    """Microseconds for a record: the best of many short rounds."""
    members = range(LEADER, LEADER + replicas)
    hosts = [Host(broker_id, directory, members, partitions) for broker_id in members]
    server = Server(hosts[0])
    followers = []
    for host in hosts[1:]:
        fetchers = Fetchers(
            sender=partial(Sender, host.id, 1),
            connect=server.connect,
            limits=FetchLimits(),
            backoff_seconds=1.0,
        )
        for each in host.partitions.values():
            fetchers.role_changed(each)
        followers.append(fetchers)
    producer = await server.connect()
    requests = [produce_request(index) for index in range(partitions)]
    best = float("inf")
    for _ in range(records // ROUND):
        began = time.process_time()
        for number in range(ROUND):
            request = requests[number % partitions]
            answer = await producer.request(request, ProduceResponse, version=9)
        best = min(best, (time.process_time() - began) / ROUND)
        assert not answer.responses[0].partition_responses[0].error_code
    for fetchers in followers:
        await fetchers.close()
    return round(best * 1e6, 1)


def results(records: int) -> list[Mapping[str, object]]:
    import uvloop

    found: list[Mapping[str, object]] = []
    for replicas, partitions in ((1, 1), (2, 1), (2, 12), (4, 1), (4, 12), (4, 100)):
        with tempfile.TemporaryDirectory() as directory:
            took = uvloop.run(measure(directory, replicas, partitions, records))
        print(f"RF {replicas}, {partitions:3} partitions: {took:6.1f} us", file=sys.stderr)
        found.append({"replicas": replicas, "partitions": partitions, "us": took})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    print(json.dumps({"following": results(500 if parser.parse_args().quick else 5_000)}))


if __name__ == "__main__":
    main()
