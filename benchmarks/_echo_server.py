"""Servers for benchmarks/network.py: ours with an echo route, and the least a server can do.

    python -m benchmarks._echo_server odradek|bare uvloop|asyncio

Prints its port and serves until it is killed. The bare one sends back whatever it receives: one
`recv`, one `send` and the event loop. What ours costs above it is the price of the protocol.
"""

import asyncio
import gc
import socket
import sys

from odradek.broker.config import BrokerConfig
from odradek.broker.context import RequestContext
from odradek.broker.routes import Route
from odradek.broker.server import Server
from odradek.protocol.clock import SystemClock
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.schema import versions_of

HOST = "127.0.0.1"


def echo(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=request.auth_bytes)


def failure(request: SaslAuthenticateRequest, why: KafkaError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=why.error, error_message=None, auth_bytes=b"")


ECHO_ROUTE = Route(SaslAuthenticateRequest, versions_of("0-2"), echo, failure)


def serve_odradek(loop: asyncio.AbstractEventLoop) -> int:
    config = BrokerConfig.of({"listeners": f"PLAINTEXT://{HOST}:0"})
    server = Server(config, loop=loop, clock=SystemClock(), routes=[ECHO_ROUTE])
    server.open()
    server.accept()
    return server.address.port


def serve_bare(loop: asyncio.AbstractEventLoop) -> int:
    listening = socket.create_server((HOST, 0))
    listening.setblocking(False)
    buffer = memoryview(bytearray(65_536))

    def on_acceptable() -> None:
        connected, _ = listening.accept()
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def on_readable() -> None:
            count = connected.recv_into(buffer)
            if count:
                connected.send(buffer[:count])
            else:
                loop.remove_reader(connected.fileno())
                connected.close()

        loop.add_reader(connected.fileno(), on_readable)

    loop.add_reader(listening.fileno(), on_acceptable)
    return int(listening.getsockname()[1])


async def main(kind: str) -> None:
    loop = asyncio.get_running_loop()
    port = serve_odradek(loop) if kind == "odradek" else serve_bare(loop)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[2] == "uvloop":
        import uvloop

        uvloop.run(main(sys.argv[1]))
    else:
        asyncio.run(main(sys.argv[1]))
