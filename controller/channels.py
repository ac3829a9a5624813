"""One queue of control requests per broker: in order, one at a time, again until it is answered.

A request that could not be delivered is repeated for as long as the broker is alive in the life it
was meant for; when that life ends its queue is dropped, for the next one is told everything anew.
Used by `term` alone; how a request reaches a broker is behind `send`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from odradek.controller.fields import log
from odradek.controller.image import Broker
from odradek.controller.propagation import ControlRequest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.replicas import (
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)

ControlResponse = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse

# Delivers a request to a broker and returns its answer; raises OSError or TimeoutError when that
# was not possible. In-process for the local broker, a connection for all others.
Send = Callable[[Broker, ControlRequest], Awaitable[ControlResponse]]

RETRY_SECONDS: Final = 0.1
# A broker's word that it has done nothing, and would later: its own way to the store is cut.
NOT_NOW: Final = Errors.REQUEST_TIMED_OUT


class Answered(Protocol):
    def __call__(
        self, broker: Broker, request: ControlRequest, response: ControlResponse
    ) -> None: ...


class Channels:
    def __init__(self, *, send: Send, answered: Answered) -> None:
        self._send = send
        self._answered = answered
        self._queues: dict[int, asyncio.Queue[ControlRequest | asyncio.Future[None]]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._brokers: dict[int, Broker] = {}

    def follow(self, brokers: Mapping[int, Broker]) -> None:
        """Keep a channel to each of these lives, and to no other."""
        for broker_id, broker in list(self._brokers.items()):
            now = brokers.get(broker_id)
            if now is None or now.epoch != broker.epoch:
                self._drop(broker_id)
        for broker_id, broker in brokers.items():
            self._brokers[broker_id] = broker
            if broker_id not in self._tasks:
                self._open(broker_id)

    def push(self, broker_id: int, request: ControlRequest) -> None:
        self._queues[broker_id].put_nowait(request)

    def told(self, broker_id: int) -> "asyncio.Future[None]":
        """Done when the broker has answered all that was pushed so far, or is gone."""
        mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if broker_id in self._queues:
            self._queues[broker_id].put_nowait(mark)
        else:
            mark.set_result(None)
        return mark

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for broker_id in list(self._tasks):
            self._drop(broker_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _open(self, broker_id: int) -> None:
        self._queues[broker_id] = asyncio.Queue()
        self._tasks[broker_id] = asyncio.get_running_loop().create_task(self._deliver(broker_id))

    def _drop(self, broker_id: int) -> None:
        self._tasks.pop(broker_id).cancel()
        del self._brokers[broker_id]
        queue = self._queues.pop(broker_id)
        while not queue.empty():
            _release(queue.get_nowait())

    async def _deliver(self, broker_id: int) -> None:
        queue = self._queues[broker_id]
        while True:
            request = await queue.get()
            if isinstance(request, asyncio.Future):
                _release(request)
                continue
            response = await self._insist(broker_id, request)
            # A broker may move its listeners within one life: look it up each time.
            self._answered(self._brokers[broker_id], request, response)

    async def _insist(self, broker_id: int, request: ControlRequest) -> ControlResponse:
        name = type(request).__name__
        level = logging.WARNING
        while True:
            reason: object = NOT_NOW.name
            try:
                response = await self._send(self._brokers[broker_id], request)
                if response.error_code != NOT_NOW:
                    return response
            except (OSError, TimeoutError) as error:
                reason = error
            log.log(level, "%s for broker %d is repeated: %s", name, broker_id, reason)
            # Once is enough: a dead broker is tried until its session ends.
            level = logging.DEBUG
            await asyncio.sleep(RETRY_SECONDS)


def _release(item: "ControlRequest | asyncio.Future[None]") -> None:
    if isinstance(item, asyncio.Future) and not item.done():
        item.set_result(None)
