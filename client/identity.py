"""Producer ids: asked for once for idempotence, and by every holder of a transactional id.

`Idempotence` is the gate of a producer without transactions; the sender asks it who produces.
"""

import asyncio
from collections.abc import Callable

from odradek.client.batch import Batch
from odradek.client.cluster import Cluster, CoordinatorKind
from odradek.client.queue import Identity
from odradek.client.retry import until_done
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.types import TopicPartition

# Errors after which the coordinator has to be looked for again.
MOVED_COORDINATOR = frozenset(
    {
        Errors.NOT_COORDINATOR,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NETWORK_EXCEPTION,
        Errors.REQUEST_TIMED_OUT,
    }
)


async def new_identity(cluster: Cluster, timeout_s: float) -> Identity:
    """A producer id for idempotence alone; any broker gives one."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)

    async def ask() -> Identity:
        connection = await cluster.any_connection()
        return _identity(await connection.request(request, InitProducerIdResponse))

    return await until_done(ask, backoff=cluster.backoff, timeout_s=timeout_s)


async def transactional_identity(
    cluster: Cluster,
    transactional_id: str,
    transaction_timeout_ms: int,
    timeout_s: float,
    current: Identity | None = None,
) -> Identity:
    """The producer id of a transactional id, under a new epoch that shuts out older holders.

    `current` proves that this producer holds it already and only wants the next epoch.
    """
    known = current or Identity()
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
    )

    async def ask() -> Identity:
        answer = await cluster.ask_coordinator(
            CoordinatorKind.TRANSACTION, transactional_id, request, InitProducerIdResponse
        )
        if answer.error_code in MOVED_COORDINATOR:
            cluster.forget_coordinator(CoordinatorKind.TRANSACTION, transactional_id)
        return _identity(answer)

    return await until_done(ask, backoff=cluster.backoff, timeout_s=timeout_s)


def _identity(answer: InitProducerIdResponse) -> Identity:
    if answer.error_code:
        raise KafkaError(Errors.of(answer.error_code))
    return Identity(answer.producer_id, answer.producer_epoch)


class Idempotence:
    """The gate of a producer without transactions."""

    is_transactional = False
    transactional_id = None
    uses_v2 = False
    gives_up = False

    def __init__(self, cluster: Cluster, timeout_s: float, on_change: Callable[[], None]) -> None:
        self.identity = Identity()
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._on_change = on_change
        self._asking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.identity = await new_identity(self._cluster, self._timeout_s)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def may_send(self, partition: TopicPartition) -> bool:
        return True

    def batch_failed(self, batch: Batch, error: KafkaError) -> None:
        """Only the batch's own partition is concerned."""

    def renew(self) -> None:
        """The next epoch needs no broker's word; only an id that has none left is asked anew."""
        bumped = self.identity.bumped()
        if bumped is not None:
            self.identity = bumped
        elif self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        try:
            await self.start()
        finally:
            self._asking = None
            self._on_change()
