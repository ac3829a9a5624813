"""A server process with nothing but the network, dispatch and a few routes made for tests.

    python -m tests.support.network_server [--loop uvloop|asyncio] [--files N] [name=value ...]

Names are broker settings, and `frame.seconds` for the deadline of a frame. On uvloop it asks the
kernel itself who has sent something, as a broker's process does, on asyncio it is told by the loop,
as brokers within a test are. It prints
`ready NAME=PORT …` and serves until SIGTERM. The routes:

    SaslAuthenticate   echo: answers its bytes
    Heartbeat          is parked under its group id, as a future
    SyncGroup          is parked under its group id, as a coroutine
    LeaveGroup         sets free all that is parked under its group id
    FindCoordinator    fails in the way its key names
    Fetch v4           the topic is a file's path, the offset a position: a slice of that file
"""

import argparse
import asyncio
import logging
import resource
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable

from odradek.broker.config import BrokerConfig
from odradek.broker.context import RequestContext
from odradek.broker.dispatch import Dispatcher
from odradek.broker.handlers.versions import VersionsHandler
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.network import Network
from odradek.broker.network.readiness import LoopReaders, Readers, Readiness
from odradek.broker.routes import Answer, AnyRoute, Route
from odradek.protocol.clock import SystemClock
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from odradek.protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from odradek.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.schema import versions_of
from odradek.storage.files import FileSlice, OsFiles


class ProbeHandlers:
    def __init__(self) -> None:
        self._parked: dict[str, list[asyncio.Future[None]]] = defaultdict(list)
        self._files = OsFiles()

    def routes(self) -> list[AnyRoute]:
        return [
            Route(SaslAuthenticateRequest, versions_of("0-2"), self.echo, _echo_failed),
            Route(HeartbeatRequest, versions_of("0-4"), self.park, _park_failed),
            Route(SyncGroupRequest, versions_of("0-5"), self.wait, _wait_failed),
            Route(LeaveGroupRequest, versions_of("0-5"), self.free, _free_failed),
            Route(FindCoordinatorRequest, versions_of("0-4"), self.fail, _fail_failed),
            Route(FetchRequest, versions_of("4-4"), self.read, _read_failed),
        ]

    def echo(
        self, request: SaslAuthenticateRequest, context: RequestContext
    ) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=request.auth_bytes
        )

    def park(
        self, request: HeartbeatRequest, context: RequestContext
    ) -> Awaitable[HeartbeatResponse]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[HeartbeatResponse] = loop.create_future()
        self._gate(request.group_id).add_done_callback(
            lambda _: answer.set_result(HeartbeatResponse(error_code=0))
        )
        return answer

    def wait(
        self, request: SyncGroupRequest, context: RequestContext
    ) -> Awaitable[SyncGroupResponse]:
        gate = self._gate(request.group_id)  # stage one; the coroutine begins only later

        async def answer() -> SyncGroupResponse:
            await gate
            return SyncGroupResponse(error_code=0, assignment=b"")

        return answer()

    def free(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        for gate in self._parked.pop(request.group_id, []):
            gate.set_result(None)
        return LeaveGroupResponse(error_code=0)

    def fail(self, request: FindCoordinatorRequest, context: RequestContext) -> Answer:
        match request.key:
            case "kafka error":
                raise KafkaError(Errors.NOT_COORDINATOR)
            case "bug":
                raise ValueError("a bug in a handler")
            case "bad bytes":
                raise ProtocolError("records that make no sense")
            case "hang up":
                context.hang_up("it asked for it")
            case "silence":
                return None
            case "not encodable":
                return FindCoordinatorResponse(error_code="text")  # type: ignore[arg-type]
            case "later":
                return self._fail_later()
        return FindCoordinatorResponse(error_code=0, host=str(context.local_address.host))

    async def _fail_later(self) -> FindCoordinatorResponse:
        await asyncio.sleep(0)
        raise KafkaError(Errors.NOT_COORDINATOR)

    def read(self, request: FetchRequest, context: RequestContext) -> FetchResponse:
        topics = []
        for topic in request.topics:
            file = self._files.open(topic.topic)
            partitions = [
                FetchPartitionData(
                    partition_index=wanted.partition,
                    error_code=0,
                    high_watermark=0,
                    aborted_transactions=None,
                    records=FileSlice(file, wanted.fetch_offset, wanted.partition_max_bytes),
                )
                for wanted in topic.partitions
            ]
            topics.append(FetchableTopicResponse(topic=topic.topic, partitions=partitions))
        return FetchResponse(responses=topics)

    def _gate(self, name: str) -> asyncio.Future[None]:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked[name].append(gate)
        return gate


def _echo_failed(request: SaslAuthenticateRequest, why: KafkaError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=why.error, error_message=None, auth_bytes=b"")


def _park_failed(request: HeartbeatRequest, why: KafkaError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=why.error)


def _wait_failed(request: SyncGroupRequest, why: KafkaError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=why.error, assignment=b"")


def _free_failed(request: LeaveGroupRequest, why: KafkaError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=why.error)


def _fail_failed(request: FindCoordinatorRequest, why: KafkaError) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=why.error)


def _read_failed(request: FetchRequest, why: KafkaError) -> FetchResponse:
    return FetchResponse(error_code=why.error, responses=[])


async def serve(settings: dict[str, str], make_readers: Callable[..., Readers]) -> None:
    frame_seconds = float(settings.pop("frame.seconds", 30))
    config = BrokerConfig.of({"listeners": "PLAINTEXT://127.0.0.1:0"} | settings)
    loop = asyncio.get_running_loop()
    budget = MemoryBudget(config.queued_max_request_bytes)
    dispatcher = Dispatcher(
        VersionsHandler(ProbeHandlers().routes()).routes,
        loop=loop,
        budget=budget,
        handlers=config.num_io_threads,
        max_queued=config.queued_max_requests,
    )
    network = Network(
        config,
        loop=loop,
        clock=SystemClock(),
        service=dispatcher,
        budget=budget,
        frame_seconds=frame_seconds,
        readers=make_readers(loop),
    )
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    network.open()
    network.start()
    print("ready", *(f"{name}={port}" for name, port in network.ports.items()), flush=True)
    await stop.wait()
    await network.stop(grace_seconds=5)
    print("stopped", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--files", type=int, help="how many descriptors the process may have")
    parser.add_argument("settings", nargs="*")
    arguments = parser.parse_args()
    if arguments.files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (arguments.files, arguments.files))
    settings = dict(text.split("=", 1) for text in arguments.settings)
    logging.basicConfig(level="INFO", format="%(levelname)s %(name)s: %(message)s")
    if arguments.loop == "uvloop":
        import uvloop

        uvloop.run(serve(settings, Readiness))
    else:
        asyncio.run(serve(settings, LoopReaders))


if __name__ == "__main__":
    main()
