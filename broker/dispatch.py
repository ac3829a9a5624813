"""From frames to handlers and back to answers: the request queue, the pool, the error mapping.

`serve` begins a connection's requests directly as long as nobody waits: up to `num.io.threads` of
them in one go. What a connection has sent beyond that, and what comes while others wait, goes
through the queue (`queued.max.requests` long). The queue is served in turns of the event loop,
`num.io.threads` requests a turn, first come first served, so that a connection with many requests
does not hold up the others, and sockets and timers are looked at between two turns. While the
queue is full, connections are not read.

Requests of one connection begin in their order: they go directly only when the queue is empty.
Stage one of a handler runs to its end before the next request begins; what is left of a request
after that (stage two) is an awaitable that occupies nobody.

Measured by benchmarks/dispatch.py, all Python between `recv` and `send` for a small request alone /
one of five: 8.4 / 8.4 µs in this form; 15.4 / 9.7 with a deque and call_soon for every request;
18.5 / 13.4 with an asyncio.Queue and tasks; 8.7 / 8.2 without any queue, which would let a
connection with a long pipeline hold up all others.

Here alone exceptions become responses: KafkaError what the route's failure builder makes of it,
ProtocolError a closed connection, everything else UNKNOWN_SERVER_ERROR and one traceback.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from odradek.broker.context import RequestContext
from odradek.broker.later import Later
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.conversation import Conversation, Slot
from odradek.broker.routes import AnyRoute, table_of
from odradek.protocol.compiler import Part
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.frames import (
    RequestHeader,
    UnsupportedVersion,
    decode_request,
    encode_response,
    read_request_header,
)
from odradek.protocol.schema import Request, Response

log: Final = logging.getLogger(__name__)

_NOTHING: Final[Sequence[Part]] = ()


class _Begun(NamedTuple):
    """A request whose handler was called, and what is needed to answer it later."""

    route: AnyRoute
    request: Request
    context: RequestContext
    conversation: Conversation


class Dispatcher:
    """Owns the request queue. All calls on the event loop's thread."""

    def __init__(
        self,
        routes: Iterable[AnyRoute],
        *,
        loop: asyncio.AbstractEventLoop,
        budget: MemoryBudget,
        handlers: int,
        max_queued: int,
    ) -> None:
        self.use(routes)
        self._loop = loop
        self._budget = budget
        self._handlers = handlers
        self._burst = range(handlers)
        self._max_queued = max_queued
        self._queue: deque[tuple[Conversation, bytearray]] = deque()
        # Conversations that found the queue full, and those with answers to send.
        self._waiting: dict[Conversation, None] = {}
        self._answered: dict[Conversation, None] = {}
        self._is_scheduled = False
        self._tasks: set[asyncio.Future[Response | None]] = set()

    def use(self, routes: Iterable[AnyRoute]) -> None:
        """Serve these from now on; what has begun ends as it began. Safe from any thread."""
        # Beside each route its versions as a range: testing that is a third of the price.
        self._routes = {
            key: (route, range(*_bounds(route))) for key, route in table_of(routes).items()
        }
        self._shortcuts = {
            key.to_bytes(2): route.shortcut
            for key, (route, _) in self._routes.items()
            if route.shortcut is not None
        }

    @property
    def queued_requests(self) -> int:
        return len(self._queue)

    def serve(self, conversation: Conversation) -> None:
        """Begin or queue what the conversation has to offer."""
        queue = self._queue
        try:
            if not queue:
                for _ in self._burst:
                    frame = conversation.take()
                    if frame is None:
                        return
                    self._begin(conversation, frame)
                    if conversation.is_starved:
                        return
            while len(queue) < self._max_queued:
                frame = conversation.take()
                if frame is None:
                    return
                queue.append((conversation, frame))
                if not self._is_scheduled:
                    self._schedule()
        except ProtocolError as error:
            conversation.hang_up(str(error))
            return
        conversation.is_starved = False
        self._waiting[conversation] = None

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Begin the next requests of the queue, then let all that got answers send them."""
        self._is_scheduled = False
        queue = self._queue
        for _ in range(min(self._handlers, len(queue))):
            conversation, frame = queue.popleft()
            self._begin(conversation, frame)
            self._answered[conversation] = None
        answered, self._answered = self._answered, {}
        if queue:
            self._schedule()
        if self._waiting and len(queue) <= self._max_queued // 2:
            answered.update(self._waiting)
            self._waiting.clear()
        for conversation in answered:
            conversation.driver.advance()

    def _begin(self, conversation: Conversation, frame: bytearray) -> None:
        """Stage one of a request, and its answer if that is ready then."""
        shortcut = self._shortcuts.get(bytes(frame[:2]))
        if shortcut is not None:
            try:
                parts = shortcut.answer(frame, conversation.peer)
            except Exception:
                log.exception("a request of %s failed", conversation.peer)
                self._budget.release(len(frame))
                self._refuse(conversation, "its request failed")
                return
            if isinstance(parts, Later):
                self._budget.release(len(frame))
                parts.then(partial(self._send_soon, conversation, conversation.park()))
                return
            if parts is not None:
                self._answer(conversation, parts, len(frame))
                return
        try:
            route, header = self._route(frame)
            request = decode_request(frame, header)
        except UnsupportedVersion as error:
            self._budget.release(len(frame))
            self._refuse_version(conversation, error)
            return
        except ProtocolError as error:
            self._budget.release(len(frame))
            self._refuse(conversation, str(error))
            return
        context = RequestContext(header, conversation.peer, conversation.arrived_at)
        try:
            answer = route.handler(request, context)
            if shortcut is not None:
                shortcut.learn(frame, header, request)
            if answer is not None and not isinstance(answer, Response):
                self._park(_Begun(route, request, context, conversation), answer, len(frame))
                return
            parts = _NOTHING
            if answer is not None:
                parts = encode_response(answer, header.version, header.correlation_id)
        except Exception as error:
            parts = self._failure(_Begun(route, request, context, conversation), error)
        self._answer(conversation, parts, len(frame))
        if context.ending is not None:
            conversation.hang_up(context.ending)

    def _answer(self, conversation: Conversation, parts: Sequence[Part], frame_bytes: int) -> None:
        conversation.answer(parts)
        budget = self._budget
        budget.used_bytes -= frame_bytes
        if budget.waiting:
            budget.admit()

    def _route(self, frame: bytearray) -> tuple[AnyRoute, RequestHeader]:
        try:
            served = self._routes.get(frame[0] << 8 | frame[1])
        except IndexError:
            raise ProtocolError("request header ends early") from None
        if served is None:
            raise ProtocolError(f"api key {int.from_bytes(frame[:2], signed=True)} is not served")
        route, versions = served
        header = read_request_header(frame)
        if header.version not in versions:
            raise UnsupportedVersion(header.api, header.version, header.correlation_id)
        return route, header

    def _refuse(self, conversation: Conversation, reason: str) -> None:
        conversation.answer(_NOTHING)
        conversation.hang_up(reason)

    def _refuse_version(self, conversation: Conversation, error: UnsupportedVersion) -> None:
        route, _ = self._routes[error.api.key]
        unsupported = route.unsupported
        if unsupported is None:
            self._refuse(conversation, str(error))
        else:
            conversation.answer(encode_response(unsupported(), 0, error.correlation_id))

    def _park(self, begun: _Begun, answer: Awaitable[Response | None], frame_bytes: int) -> None:
        slot = begun.conversation.park()
        if isinstance(answer, Later):
            self._budget.release(frame_bytes)
            answer.then(partial(self._finish_at_once, begun, slot))
            return
        if isinstance(answer, asyncio.Future):
            # The handler has let go of the frame (see Route), so its memory is free.
            self._budget.release(frame_bytes)
            frame_bytes = 0
        else:
            answer = asyncio.ensure_future(answer, loop=self._loop)
            self._tasks.add(answer)
        answer.add_done_callback(partial(self._finish, begun, slot, frame_bytes))

    def _finish(
        self,
        begun: _Begun,
        slot: Slot,
        frame_bytes: int,
        done: asyncio.Future[Response | None],
    ) -> None:
        """Stage two has ended."""
        self._tasks.discard(done)
        if frame_bytes:
            self._budget.release(frame_bytes)
        self._fulfil(begun, slot, self._outcome(begun, done))

    def _finish_at_once(self, begun: _Begun, slot: Slot, response: Response) -> None:
        """Stage two has ended in the midst of something else."""
        try:
            parts = _encode(begun, response)
        except Exception as error:
            parts = self._failure(begun, error)
        self._fulfil(begun, slot, parts)

    def _fulfil(self, begun: _Begun, slot: Slot, parts: Sequence[Part]) -> None:
        if begun.context.ending is not None:
            begun.conversation.hang_up(begun.context.ending)
        self._send_soon(begun.conversation, slot, parts)

    def _send_soon(self, conversation: Conversation, slot: Slot, parts: Sequence[Part]) -> None:
        conversation.fulfil(slot, parts)
        if conversation.is_idle:
            # No other answer could go with it. The one whose request is being served now is never
            # idle, so nobody's work is cut into.
            conversation.driver.flush()
            return
        # Answers that become ready in one turn of the loop are sent together.
        self._answered[conversation] = None
        if not self._is_scheduled:
            self._schedule()

    def _outcome(self, begun: _Begun, done: asyncio.Future[Response | None]) -> Sequence[Part]:
        if done.cancelled():
            begun.context.hang_up("the request was cancelled")
            return _NOTHING
        try:
            response = done.result()
            return _NOTHING if response is None else _encode(begun, response)
        except Exception as error:
            return self._failure(begun, error)

    def _failure(self, begun: _Begun, error: Exception) -> Sequence[Part]:
        """What a peer is told of a failure: an answer, or nothing and the end."""
        if isinstance(error, ProtocolError):
            begun.context.hang_up(str(error))
            return _NOTHING
        if not isinstance(error, KafkaError):
            name = begun.context.header.api.name
            log.error("%s of %s failed", name, begun.context.peer, exc_info=error)
            error = KafkaError(Errors.UNKNOWN_SERVER_ERROR)
        try:
            return _encode(begun, begun.route.failure(begun.request, error))
        except Exception:
            log.exception("the failure of %s cannot be told", begun.context.header.api.name)
            begun.context.hang_up("its request failed")
            return _NOTHING


def _bounds(route: AnyRoute) -> tuple[int, int]:
    assert route.versions.last is not None
    return route.versions.first, route.versions.last + 1


def _encode(begun: _Begun, response: Response) -> Sequence[Part]:
    header = begun.context.header
    return encode_response(response, header.version, header.correlation_id)
