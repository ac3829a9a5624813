"""Makes a broker obey the rules of `faults`: routes that let requests go wrong.

Where a rule applies, the route of its API is swapped for one that looks at each request first; all
other routes stay the handlers' own. Without rules every route is, and a request meets nothing.

What goes wrong goes wrong as Kafka would tell it: an error of a topic stands in that topic's rows,
and the others of the same request are served. A delay holds the answer back, not the work, so that
a connection's requests are still done in their order.

While a rule may fail some partitions of a fetch, fetch sessions are refused: an incremental fetch
does not name its partitions. Clients then send full fetches, which they must be able to do anyway.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.fault_targets import (
    changed,
    has_topics,
    joined,
    named_groups,
    named_partitions,
    parted,
)
from odradek.broker.faults import Drop, Rule
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import Answer, AnyRoute, Route
from odradek.broker.server import Server
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Request, Response

REASON: Final = "a fault was asked for"
MESSAGE: Final = "This fault was asked for."
NO_SESSION: Final = 0
SESSIONLESS: Final = -1
NO_OFFSET: Final = -1
SESSION_ERRORS: Final = frozenset(
    {
        Errors.FETCH_SESSION_ID_NOT_FOUND,
        Errors.INVALID_FETCH_SESSION_EPOCH,
        Errors.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FaultPoint:
    """The routes of one broker as the rules leave them."""

    def __init__(self, server: Server, metadata: MetadataCache) -> None:
        self._server = server
        self._metadata = metadata
        self._held_back: set[asyncio.Future[None]] = set()

    def obey(self, rules: Sequence[Rule], set_spent_aside: Callable[[], None]) -> None:
        """Take over these rules instead of those before. Safe from any thread."""
        self._set_spent_aside = set_spent_aside
        routes = [self._faulty(route, rules) for route in self._server.routes]
        self._server.dispatcher.use(routes)

    def let_go(self) -> None:
        """Send the answers that a delay holds back. Safe from any thread."""
        for held in list(self._held_back):
            held.get_loop().call_soon_threadsafe(_release, held)

    def _faulty(self, route: AnyRoute, rules: Sequence[Rule]) -> AnyRoute:
        name = route.request.__name__.removesuffix("Request")
        about = [rule for rule in rules if rule.api in (None, name)]
        if not about:
            return route
        handler = partial(self._handle, route, about)
        return Route(route.request, route.versions, handler, route.failure, route.unsupported)

    # Requests -------------------------------------------------------------------------------

    def _handle(
        self, route: AnyRoute, rules: Sequence[Rule], request: Request, context: RequestContext
    ) -> Answer:
        rules = [rule for rule in rules if _is_for(rule, request, context)]
        if isinstance(request, FetchRequest) and any(map(_needs_partitions, rules)):
            if request.session_id != NO_SESSION and request.session_epoch > 0:
                return route.failure(request, KafkaError(Errors.FETCH_SESSION_ID_NOT_FOUND))
            without = {"session_id": NO_SESSION, "session_epoch": SESSIONLESS}
            request = changed(request, without)
        for rule in rules:
            if self._is_about(rule, request) and rule.strikes():
                if rule.is_spent:
                    self._set_spent_aside()
                return self._strike(rule, route, request, context)
        return route.handler(request, context)

    def _is_about(self, rule: Rule, request: Request) -> bool:
        if rule.group is not None and rule.group not in named_groups(request):
            return False
        if not rule.names_partitions:
            return True
        if isinstance(request, MetadataRequest) and not request.topics:
            return rule.partition is None
        return any(rule.is_about(*named) for named in named_partitions(request, self._name_of))

    def _name_of(self, topic_id: bytes) -> str | None:
        return self._metadata.view.names_by_id.get(topic_id)

    def _strike(
        self, rule: Rule, route: AnyRoute, request: Request, context: RequestContext
    ) -> Answer:
        answer: Answer
        if rule.drop is Drop.CONNECTION:
            context.hang_up(REASON)
            answer = None
        elif rule.error is not None:
            answer = self._fail(rule, rule.error, route, request, context)
        else:
            answer = route.handler(request, context)
        if rule.drop is Drop.ANSWER:
            answer = _lost(answer, context)
        return self._later(answer, rule.delay_ms / 1000) if rule.delay_ms > 0 else answer

    async def _later(self, answer: Answer, seconds: float) -> Response | None:
        response = answer if answer is None or isinstance(answer, Response) else await answer
        loop = asyncio.get_running_loop()
        held = loop.create_future()
        self._held_back.add(held)
        timer = loop.call_later(seconds, _release, held)
        try:
            await held
        finally:
            timer.cancel()
            self._held_back.discard(held)
        return response

    # Errors ---------------------------------------------------------------------------------

    def _fail(
        self,
        rule: Rule,
        error: Errors,
        route: AnyRoute,
        request: Request,
        context: RequestContext,
    ) -> Answer:
        failure = KafkaError(error, MESSAGE)
        if isinstance(request, MetadataRequest):
            return _after(route.handler(request, context), partial(_spoil_metadata, rule, error))
        fail: Callable[[Request, KafkaError], Response] = route.failure
        if isinstance(request, FetchRequest) and error not in SESSION_ERRORS:
            fail = _fetch_failed
        elif not rule.names_partitions:
            return _unless_silent(fail(request, failure), request, context)
        hit, rest = parted(request, rule.is_about, self._name_of)
        failed = None if hit is None else fail(hit, failure)
        if failed is None or not has_topics(failed):
            return _unless_silent(fail(request, failure), request, context)
        if rest is None:
            return _unless_silent(failed, request, context)
        if isinstance(rest, FetchRequest):
            # An error is told at once, as by a broker that meets one.
            rest = changed(rest, {"max_wait_ms": 0})
        served = self._serve_rest(route, rest, context)
        answer = _after(served, lambda served: joined(served, failed))
        return _unless_silent(answer, request, context)

    def _serve_rest(self, route: AnyRoute, rest: Request, context: RequestContext) -> Answer:
        try:
            return route.handler(rest, context)
        except KafkaError as error:
            return route.failure(rest, error)


def _is_for(rule: Rule, request: Request, context: RequestContext) -> bool:
    """Replication goes wrong only where a rule names it by its client id."""
    if rule.client_id is None:
        return not _is_of_a_broker(request)
    return rule.client_id == context.client_id


def _needs_partitions(rule: Rule) -> bool:
    return rule.names_partitions or rule.error is not None


def _is_of_a_broker(request: Request) -> bool:
    if not isinstance(request, FetchRequest):
        return False
    state = request.replica_state
    return (request.replica_id if state is None else state.replica_id) >= 0


def _unless_silent(answer: Answer, request: Request, context: RequestContext) -> Answer:
    """A producer that wants no answers learns of an error by losing its connection."""
    if isinstance(request, ProduceRequest) and request.acks == 0:
        context.hang_up(REASON)
        return None
    return answer


def _fetch_failed(request: Request, error: KafkaError) -> FetchResponse:
    assert isinstance(request, FetchRequest)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    FetchPartitionData(
                        partition_index=partition.partition,
                        error_code=error.error,
                        high_watermark=NO_OFFSET,
                        records=b"",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _spoil_metadata(rule: Rule, error: Errors, response: Response) -> Response:
    """Brokers are told as they are: a client that knows none could not even ask again."""
    assert isinstance(response, MetadataResponse)
    topics = [
        changed(topic, {"error_code": error, "partitions": []})
        if rule.is_about(topic.name or "", None)
        else topic
        for topic in response.topics
    ]
    return changed(response, {"topics": topics})


def _after(answer: Answer, change: Callable[[Response], Response]) -> Answer:
    if isinstance(answer, Response):
        return change(answer)
    return None if answer is None else _change_later(answer, change)


async def _change_later(
    answer: Awaitable[Response | None], change: Callable[[Response], Response]
) -> Response | None:
    response = await answer
    return None if response is None else change(response)


def _lost(answer: Answer, context: RequestContext) -> Answer:
    if answer is None or isinstance(answer, Response):
        context.hang_up(REASON)
        return None
    return _lose_later(answer, context)


async def _lose_later(answer: Awaitable[Response | None], context: RequestContext) -> None:
    try:
        await answer
    finally:
        context.hang_up(REASON)


def _release(held: "asyncio.Future[None]") -> None:
    if not held.done():
        held.set_result(None)
