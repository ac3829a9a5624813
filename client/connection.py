"""One connection to one broker: requests go out numbered, answers come back in order.

`open_connection` dials, learns which versions the broker speaks and authenticates; the result is
ready for use. Many requests may be under way; a broker answers a connection in order, so the
oldest one is always the next to be answered, and one timer watches over all of them. A request
that is not answered in time ends the connection, as no later answer could be told from it.

Whatever goes wrong below is raised as KafkaError: NETWORK_EXCEPTION for a connection that broke or
never was, REQUEST_TIMED_OUT for silence, UNSUPPORTED_VERSION where both sides share no version.
Nothing here knows of producers and consumers: brokers talk to each other through it, too.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

from odradek.client.frame_stream import Frame, FrameStream
from odradek.client.negotiation import (
    ServerVersions,
    readable_version,
    version_to_ask_again,
    versions_from,
    versions_request,
)
from odradek.client.security import PLAINTEXT, Security
from odradek.client.settings import ConnectionSettings
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.frames import LENGTH, decode_response, encode_request
from odradek.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from odradek.protocol.messages.versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.schema import Request, Response

# Fetch answers are bounded by what was asked for, but one batch always comes whole.
MAX_FRAME_BYTES: Final = 1 << 30
# Authenticate again when this share of a session's lifetime is over.
REAUTHENTICATE_AFTER: Final = 0.85

R = TypeVar("R", bound=Response)


class Dial(Protocol):
    """How a connection comes to be: the seam for tests and simulations."""

    async def __call__(
        self,
        stream: Callable[[], asyncio.BufferedProtocol],
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
    ) -> asyncio.Transport: ...


async def dial_tcp(
    stream: Callable[[], asyncio.BufferedProtocol],
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(stream, host, port, ssl=tls)
    return transport


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    client_id: str | None = "odradek"
    request_timeout_s: float = 30.0
    setup_timeout_s: float = 10.0
    security: Security = PLAINTEXT
    dial: Dial = dial_tcp

    @classmethod
    def of(
        cls, settings: ConnectionSettings, security: Security, dial: Dial
    ) -> "ConnectionOptions":
        return cls(
            client_id=settings.client_id,
            request_timeout_s=settings.request_timeout_ms / 1000,
            setup_timeout_s=settings.socket_connection_setup_timeout_ms / 1000,
            security=security,
            dial=dial,
        )


OnAnswer = Callable[[Response | KafkaError], None]
OnFrame = Callable[[Frame | KafkaError], None]


class InFlight(NamedTuple):
    correlation_id: int
    request: type[Request]
    version: int
    answer: "asyncio.Future[Response] | OnAnswer"
    deadline: float
    on_frame: OnFrame | None = None
    """Takes the answer as it came, in the place of `answer`."""


class Connection:
    def __init__(self, host: str, port: int, options: ConnectionOptions) -> None:
        self.host = host
        self.port = port
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._in_flight: deque[InFlight] = deque()
        self._correlation_id = 0
        self._versions = ServerVersions()
        self._failure: KafkaError | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._watch: asyncio.TimerHandle | None = None
        self._watch_until = 0.0
        self._reauthentication: asyncio.TimerHandle | asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        return self._failure is None and self._transport is not None

    @property
    def client_id(self) -> str | None:
        return self._options.client_id

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized features of the cluster, by name."""
        return self._versions.features

    @property
    def versions(self) -> ServerVersions:
        return self._versions

    def version_of(self, request: type[Request], at_most: int | None = None) -> int:
        """The newest version that both sides speak. Raises UNSUPPORTED_VERSION."""
        version = self._versions.newest(request, at_most)
        if version is None:
            name = request.__name__.removesuffix("Request")
            raise KafkaError(
                Errors.UNSUPPORTED_VERSION, f"{self} and this client share no version of {name}"
            )
        return version

    def supports(self, request: type[Request], version: int = 0) -> bool:
        newest = self._versions.newest(request, None)
        return newest is not None and newest >= version

    async def request(
        self,
        request: Request,
        expected: type[R],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Ask and wait for the answer, which is of the `expected` class."""
        answer = await self.send(request, version=version, timeout_s=timeout_s)
        assert isinstance(answer, expected), f"{answer!r} does not answer {request!r}"
        return answer

    def send(
        self, request: Request, *, version: int | None = None, timeout_s: float | None = None
    ) -> "asyncio.Future[Response]":
        """Ask; the future brings the answer. Raises only when nothing was sent."""
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._ask(request, answer, version, timeout_s)
        return answer

    def send_then(
        self,
        request: Request,
        on_answer: OnAnswer,
        *,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Ask; `on_answer` is called with the answer as soon as it is read, a turn of the loop
        before any future would tell, or later with what went wrong instead. Raises only when
        nothing was sent."""
        self._ask(request, on_answer, version, timeout_s)

    def exchange(
        self, frame_of: Callable[[int], bytes], on_frame: OnFrame, kind: type[Request]
    ) -> None:
        """Send a frame that was encoded already, but for its correlation id, and hear the answer as
        a frame with its header; otherwise like `send_then`."""
        deadline = self._loop.time() + self._options.request_timeout_s
        correlation_id = self._next_id()
        self._write_frame(frame_of(correlation_id))
        self._in_flight.append(InFlight(correlation_id, kind, -1, _ignore, deadline, on_frame))
        if self._watch is None or deadline < self._watch_until:
            self._watch_over(deadline)

    def _ask(
        self,
        request: Request,
        answer: "asyncio.Future[Response] | OnAnswer",
        version: int | None,
        timeout_s: float | None,
    ) -> None:
        kind = type(request)
        if version is None:
            version = self.version_of(kind)
        correlation_id = self._write(request, version)
        if timeout_s is None:
            timeout_s = self._options.request_timeout_s
        deadline = self._loop.time() + timeout_s
        self._in_flight.append(InFlight(correlation_id, kind, version, answer, deadline))
        if self._watch is None or deadline < self._watch_until:
            self._watch_over(deadline)

    def send_unanswered(self, request: Request, *, version: int | None = None) -> None:
        """Send what a broker never answers: Produce with acks=0."""
        self._write(request, self.version_of(type(request)) if version is None else version)

    def _write(self, request: Request, version: int) -> int:
        correlation_id = self._next_id()
        self._write_frame(encode_request(request, version, correlation_id, self.client_id))
        return correlation_id

    def _next_id(self) -> int:
        if self._failure is not None:
            raise self._failure
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    def _write_frame(self, frame: bytes) -> None:
        assert self._transport is not None, "the connection is not open yet"
        self._transport.write(frame)

    async def open(self) -> None:
        """Dial, agree on versions, authenticate: used by `open_connection`."""
        options = self._options
        try:
            async with asyncio.timeout(options.setup_timeout_s):
                self._transport = await options.dial(
                    self._stream, self.host, self.port, options.security.tls
                )
                self._versions = await self._ask_versions()
                if options.security.credentials is not None:
                    await self._authenticate()
        except TimeoutError:
            self._fail(Errors.NETWORK_EXCEPTION, f"no connection to {self} in time")
        except OSError as error:
            self._fail(Errors.NETWORK_EXCEPTION, f"no connection to {self}: {error}")
        except (KafkaError, asyncio.CancelledError):
            self.close()
            raise
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self._fail(Errors.NETWORK_EXCEPTION, f"the connection to {self} was closed")

    async def wait_closed(self) -> None:
        await asyncio.shield(self._lost)

    def _stream(self) -> FrameStream:
        return FrameStream(
            on_frame=self._receive, on_lost=self._end, max_frame_bytes=MAX_FRAME_BYTES
        )

    def _receive(self, frame: Frame) -> None:
        if not self._in_flight:
            raise ProtocolError("an answer came that nobody asked for")
        asked = self._in_flight.popleft()
        if asked.on_frame is not None:
            (correlation_id,) = LENGTH.unpack_from(frame)
            if correlation_id != asked.correlation_id:
                error = f"answer {correlation_id} came instead of {asked[0]}"
                refusal = KafkaError(Errors.NETWORK_EXCEPTION, f"{self} sent nonsense: {error}")
                asked.on_frame(refusal)
                raise ProtocolError(error)
            asked.on_frame(frame)
            return
        version = asked.version
        if asked.request is ApiVersionsRequest:
            version = readable_version(frame, version)
        try:
            correlation_id, response = decode_response(frame, asked.request, version)
            if correlation_id != asked.correlation_id:
                raise ProtocolError(f"answer {correlation_id} came instead of {asked[0]}")
        except ProtocolError as error:
            refusal = KafkaError(Errors.NETWORK_EXCEPTION, f"{self} sent nonsense: {error}")
            self._refuse(asked.answer, refusal)
            raise
        answer = asked.answer
        if not isinstance(answer, asyncio.Future):
            answer(response)
        elif not answer.done():
            answer.set_result(response)

    def _end(self, error: Exception | None) -> None:
        why = f": {error}" if error else " by the broker"
        self._fail(Errors.NETWORK_EXCEPTION, f"the connection to {self} was closed{why}")
        if not self._lost.done():
            self._lost.set_result(None)

    def _fail(self, error: Errors, message: str) -> None:
        """End the connection and everything that still waits on it; the first reason stays."""
        if self._failure is not None:
            return
        self._failure = KafkaError(error, message)
        if self._transport is None:
            self._lost.set_result(None)
        else:
            self._transport.abort()
        if self._watch is not None:
            self._watch.cancel()
        if self._reauthentication is not None:
            self._reauthentication.cancel()
        while self._in_flight:
            asked = self._in_flight.popleft()
            self._refuse(asked.on_frame or asked.answer, KafkaError(error, message))

    def _refuse(
        self, answer: "asyncio.Future[Response] | OnAnswer | OnFrame", error: KafkaError
    ) -> None:
        if not isinstance(answer, asyncio.Future):
            # Never out of a call of its own, such as the one that closes the connection.
            self._loop.call_soon(answer, error)
        elif not answer.done():
            answer.set_exception(error)
            # Who gave up waiting never looks; that is no news for the log.
            answer.exception()

    def _watch_over(self, deadline: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch_until = deadline
        self._watch = self._loop.call_at(deadline, self._look_for_silence)

    def _look_for_silence(self) -> None:
        self._watch = None
        if not self._in_flight:
            return
        earliest = min(asked.deadline for asked in self._in_flight)
        if earliest > self._loop.time():
            self._watch_over(earliest)
            return
        name = self._in_flight[0].request.__name__.removesuffix("Request")
        self._fail(Errors.REQUEST_TIMED_OUT, f"{self} did not answer {name} in time")

    async def _ask_versions(self) -> ServerVersions:
        version = ApiVersionsRequest.versions.last
        assert version is not None, "requests have a last version"
        while True:
            answer = await self.request(versions_request(), ApiVersionsResponse, version=version)
            if answer.error_code == Errors.UNSUPPORTED_VERSION:
                version = version_to_ask_again(answer, version)
            elif answer.error_code:
                raise KafkaError(Errors.of(answer.error_code), f"{self} answered ApiVersions so")
            else:
                return versions_from(answer)

    async def _authenticate(self) -> None:
        credentials = self._options.security.credentials
        assert credentials is not None
        offer = await self.request(
            SaslHandshakeRequest(mechanism=credentials.mechanism), SaslHandshakeResponse
        )
        if offer.error_code:
            offered = ", ".join(offer.mechanisms)
            raise KafkaError(Errors.of(offer.error_code), f"{self} offers only {offered}")
        exchange = credentials.exchange()
        token = next(exchange)
        while True:
            answer = await self.request(
                SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse
            )
            if answer.error_code:
                raise KafkaError(Errors.of(answer.error_code), answer.error_message)
            try:
                token = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                break
        if answer.session_lifetime_ms > 0:
            self._reauthentication = self._loop.call_later(
                answer.session_lifetime_ms / 1000 * REAUTHENTICATE_AFTER, self._reauthenticate
            )

    def _reauthenticate(self) -> None:
        task = self._loop.create_task(self._authenticate())
        task.add_done_callback(self._reauthenticated)
        self._reauthentication = task

    def _reauthenticated(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(Errors.NETWORK_EXCEPTION, f"authentication at {self} expired: {error}")


def _ignore(_: Response | KafkaError) -> None:
    """Stands where nobody waits."""


async def open_connection(host: str, port: int, options: ConnectionOptions) -> Connection:
    """A connection that is ready for requests. Raises KafkaError."""
    connection = Connection(host, port, options)
    await connection.open()
    return connection
