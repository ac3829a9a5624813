"""Requests go through the queue in order and in fair turns; failures become answers here alone."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps

import pytest
from odradek.broker.context import RequestContext
from odradek.broker.dispatch import Dispatcher
from odradek.broker.handlers.versions import VersionsHandler
from odradek.broker.later import Later
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.conversation import Conversation
from odradek.broker.network.framing import FrameReader
from odradek.broker.network.peer import Address, Peer
from odradek.broker.routes import Answer, Route, table_of
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.frames import decode_response, encode_request
from odradek.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.protocol.schema import versions_of

Handler = Callable[[SaslAuthenticateRequest, RequestContext], Answer]


def failure(request: SaslAuthenticateRequest, why: KafkaError) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=why.error, error_message=None, auth_bytes=b"")


def response(data: bytes) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=data)


class Client:
    """A conversation with its driver: what a connection does, without a socket."""

    def __init__(self, dispatcher: Dispatcher, budget: MemoryBudget, name: str = "a") -> None:
        self._dispatcher = dispatcher
        reader = FrameReader(memoryview(bytearray(65_536)), 65_536)
        peer = Peer("PLAINTEXT", Address(name, 1), Address("broker", 9092))
        self.conversation = Conversation(peer, reader, budget)
        self.conversation.driver = self
        self.answers: list[bytes] = []

    def send(self, *texts: str) -> None:
        frames = [
            encode_request(SaslAuthenticateRequest(auth_bytes=text.encode()), 2, number, "test")
            for number, text in enumerate(texts)
        ]
        self.send_bytes(b"".join(frames))

    def send_bytes(self, data: bytes) -> None:
        reader = self.conversation.reader
        reader.space()[: len(data)] = data
        reader.received(len(data))
        self.advance()

    def advance(self) -> None:
        self._dispatcher.serve(self.conversation)
        while self.conversation.outgoing:
            self.flush()
            self._dispatcher.serve(self.conversation)
        self.conversation.settle()

    def flush(self) -> None:
        outgoing = self.conversation.outgoing
        self.answers += [bytes(part) for part in outgoing]  # type: ignore[call-overload]
        outgoing.clear()
        self.conversation.unsent_bytes = 0

    def texts(self) -> list[str]:
        decoded = (
            decode_response(answer[4:], SaslAuthenticateRequest, 2)[1] for answer in self.answers
        )
        return [
            f"error {each.error_code}" if each.error_code else each.auth_bytes.decode()
            for each in decoded
            if isinstance(each, SaslAuthenticateResponse)
        ]


class Scene:
    """A dispatcher with one route, and the order in which its handler was called."""

    def __init__(
        self, handler: Handler, *, handlers: int = 8, max_queued: int = 500, budget: int = -1
    ) -> None:
        self.begun: list[str] = []
        self.budget = MemoryBudget(budget)
        self._handler = handler
        route = Route(SaslAuthenticateRequest, versions_of("0-2"), self._called, failure)
        self.dispatcher = Dispatcher(
            VersionsHandler([route]).routes,
            loop=asyncio.get_running_loop(),
            budget=self.budget,
            handlers=handlers,
            max_queued=max_queued,
        )

    def client(self, name: str = "a") -> Client:
        return Client(self.dispatcher, self.budget, name)

    def _called(self, request: SaslAuthenticateRequest, context: RequestContext) -> Answer:
        self.begun.append(context.peer_address.host + request.auth_bytes.decode())
        return self._handler(request, context)


def echo(request: SaslAuthenticateRequest, context: RequestContext) -> Answer:
    return response(request.auth_bytes)


def on_a_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@on_a_loop
async def test_a_lone_request_is_answered_without_waiting_for_a_turn() -> None:
    client = Scene(echo).client()
    client.send("now")
    assert client.texts() == ["now"]


@on_a_loop
async def test_requests_beyond_one_go_wait_in_the_queue_in_their_order() -> None:
    scene = Scene(echo, handlers=2)
    client = scene.client()
    client.send(*"123456")
    assert scene.begun == ["a1", "a2"]
    assert scene.dispatcher.queued_requests == 4
    await turns()
    assert client.texts() == list("123456")
    assert scene.begun == [f"a{number}" for number in "123456"]


@on_a_loop
async def test_a_connection_with_many_requests_does_not_hold_up_another() -> None:
    scene = Scene(echo, handlers=1)
    busy, modest = scene.client("a"), scene.client("b")
    busy.send(*"12345678")
    modest.send("1")
    await turns()
    # One at once, at most eight in the queue: the other's request is behind these and no more.
    assert scene.begun.index("b1") <= 8
    busy.send(*"12345678" * 10)
    modest.send("2")
    await turns(200)
    assert scene.begun.index("b2") - scene.begun.index("b1") <= 16
    assert len(busy.answers) == 88


@on_a_loop
async def test_a_full_queue_stops_the_reading_until_there_is_room() -> None:
    scene = Scene(echo, handlers=1, max_queued=4)
    clients = [scene.client(name) for name in "abc"]
    for client in clients:
        client.send(*"123456")
    assert scene.dispatcher.queued_requests == 4
    assert not clients[2].conversation.wants_input
    await turns(100)
    assert [client.texts() for client in clients] == [list("123456")] * 3
    assert all(client.conversation.wants_input for client in clients)


@on_a_loop
async def test_a_parked_request_lets_the_next_begin_and_holds_its_answer() -> None:
    gate: asyncio.Future[SaslAuthenticateResponse] = asyncio.get_running_loop().create_future()

    def handler(request: SaslAuthenticateRequest, context: RequestContext) -> Answer:
        return gate if request.auth_bytes == b"1" else response(request.auth_bytes)

    scene = Scene(handler)
    client = scene.client()
    client.send(*"123")
    await turns()
    assert scene.begun == ["a1", "a2", "a3"]
    assert client.texts() == []
    gate.set_result(response(b"1"))
    await turns()
    assert client.texts() == list("123")


@on_a_loop
async def test_a_later_answer_that_nothing_can_go_with_is_sent_in_that_moment() -> None:
    answer: Later[SaslAuthenticateResponse] = Later()
    client = Scene(lambda request, context: answer).client()
    client.send("a")
    assert client.texts() == []
    answer.set(response(b"done"))
    assert client.texts() == ["done"]


@on_a_loop
async def test_later_answers_of_one_connection_go_together_when_the_last_is_there() -> None:
    answers: list[Later[SaslAuthenticateResponse]] = [Later() for _ in range(3)]
    left = iter(answers)
    client = Scene(lambda request, context: next(left)).client()
    client.send(*"123")
    answers[0].set(response(b"1"))
    answers[2].set(response(b"3"))
    assert client.texts() == []
    answers[1].set(response(b"2"))
    assert client.texts() == list("123")


@on_a_loop
async def test_a_later_answer_before_which_others_are_due_is_sent_in_the_next_turn() -> None:
    answers: list[Later[SaslAuthenticateResponse]] = [Later() for _ in range(2)]
    left = iter(answers)
    client = Scene(lambda request, context: next(left)).client()
    client.send(*"12")
    answers[0].set(response(b"1"))
    assert client.texts() == []
    await turns()
    assert client.texts() == ["1"]


@on_a_loop
async def test_answers_that_become_ready_together_are_sent_together() -> None:
    gates: list[asyncio.Future[SaslAuthenticateResponse]] = []

    def handler(request: SaslAuthenticateRequest, context: RequestContext) -> Answer:
        gates.append(asyncio.get_running_loop().create_future())
        return gates[-1]

    scene = Scene(handler)
    client = scene.client()
    advances = []
    client.send(*"12345")
    advance, client.advance = client.advance, lambda: advances.append(advance())  # type: ignore
    for gate in gates:
        gate.set_result(response(b"x"))
    await turns()
    assert len(client.answers) == 5
    assert len(advances) == 1


@on_a_loop
async def test_failures_become_answers_or_the_end() -> None:
    def handler(request: SaslAuthenticateRequest, context: RequestContext) -> Answer:
        async def fail() -> SaslAuthenticateResponse:
            raise KafkaError(Errors.NOT_CONTROLLER)

        match request.auth_bytes:
            case b"now":
                raise KafkaError(Errors.NOT_COORDINATOR)
            case b"bug":
                raise ZeroDivisionError
            case _:
                return fail()

    client = Scene(handler).client()
    client.send("now", "bug", "later")
    await turns()
    assert client.texts() == ["error 16", "error -1", "error 41"]


@on_a_loop
async def test_a_cancelled_stage_two_ends_the_connection() -> None:
    gate: asyncio.Future[SaslAuthenticateResponse] = asyncio.get_running_loop().create_future()
    client = Scene(lambda request, context: gate).client()
    client.send("x")
    gate.cancel()
    await turns()
    assert client.conversation.ending is not None
    assert client.conversation.is_finished


@on_a_loop
async def test_a_failure_that_cannot_be_told_ends_the_connection() -> None:
    def handler(request: SaslAuthenticateRequest, context: RequestContext) -> Answer:
        raise KafkaError("no such row")  # type: ignore[arg-type]

    client = Scene(handler).client()
    client.send("x")
    assert client.answers == []
    assert client.conversation.is_finished


@on_a_loop
async def test_memory_of_a_request_is_free_when_its_handler_let_go_of_it() -> None:
    loop = asyncio.get_running_loop()
    gate: asyncio.Future[SaslAuthenticateResponse] = loop.create_future()

    async def slowly() -> SaslAuthenticateResponse:
        return await gate

    def handler(request: SaslAuthenticateRequest, context: RequestContext) -> Answer:
        return {b"now": response(b""), b"future": gate}.get(request.auth_bytes) or slowly()

    scene = Scene(handler)
    client = scene.client()
    client.send("now", "future")
    assert scene.budget.used_bytes == 0
    client.send("coroutine")
    held = scene.budget.used_bytes
    assert held > 0
    gate.set_result(response(b""))
    await turns()
    assert scene.budget.used_bytes == 0
    client.send_bytes(b"\0\0\0\x04\x7f\xff\0\0")
    assert scene.budget.used_bytes == 0


@on_a_loop
async def test_two_routes_for_one_request_are_a_bug() -> None:
    route = Route(SaslAuthenticateRequest, versions_of("0-2"), echo, failure)
    with pytest.raises(AssertionError, match="two routes"):
        table_of([route, route])
    beyond = Route(SaslAuthenticateRequest, versions_of("0-3"), echo, failure)
    with pytest.raises(AssertionError, match="no version 3"):
        table_of([beyond])
