"""Replication in its place: fetchers for what this broker follows, in-sync sets for what it leads.

Only a broker of a cluster has one. The controller is asked wherever it is: in this process when it
is ours, over a connection otherwise.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.broker.config import BrokerConfig
from odradek.broker.links import Links
from odradek.broker.metadata_cache import MetadataCache
from odradek.controller import broker_requests
from odradek.controller.controller import Controller
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.partitions import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.messages.replicas import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from odradek.replication.fetch_plan import FetchLimits, Sender
from odradek.replication.fetchers import Fetchers
from odradek.replication.isr import IsrRules
from odradek.replication.isr_proposals import IsrProposals
from odradek.replication.partition import Partition
from odradek.replication.replicas import Replicas
from odradek.replication.throttle import Throttle, Windows

_log = logging.getLogger(__name__)

# How long the controller may take to answer before it is looked for anew.
CONTROLLER_SECONDS: Final = 5.0
# How often, and after which rest, a broker that stops asks again when nobody answered it.
MAX_FAILURES: Final = 10
FAILURE_SECONDS: Final = 0.3


class ReplicationService:
    """One owner: the event loop."""

    replicas: Replicas
    controller: Controller

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        *,
        broker_id: int,
        metadata: MetadataCache,
        links: Links,
        clock: Clock,
    ) -> None:
        self._config = config
        self._broker_id = broker_id
        self._links = links
        at_start = config()
        windows = Windows(
            at_start.replication_quota_window_num,
            at_start.replication_quota_window_size_seconds,
        )
        self.rules = IsrRules(
            max_lag_seconds=lambda: config().replica_lag_time_max_ms / 1000,
            is_live=lambda id_: id_ in metadata.view.brokers,
            throttle=Throttle(
                broker_id=broker_id,
                limit=lambda: config().leader_replication_throttled_rate,
                clock=clock,
                windows=windows,
            ),
        )
        self._proposals = IsrProposals(
            local_id=broker_id, broker_epoch=self._epoch, ask_controller=self._alter_partition
        )
        self._fetchers = Fetchers(
            sender=lambda: Sender(broker_id, self._epoch()),
            connect=links.dial,
            limits=FetchLimits(
                max_wait_ms=at_start.replica_fetch_wait_max_ms,
                min_bytes=at_start.replica_fetch_min_bytes,
                max_bytes=at_start.replica_fetch_response_max_bytes,
                partition_max_bytes=at_start.replica_fetch_max_bytes,
            ),
            backoff_seconds=at_start.replica_fetch_backoff_ms / 1000,
            throttle=Throttle(
                broker_id=broker_id,
                limit=lambda: config().follower_replication_throttled_rate,
                clock=clock,
                windows=windows,
            ),
            lanes=at_start.num_replica_fetchers,
        )
        self._review: asyncio.Task[None] | None = None

    def propose(self, partition: Partition) -> None:
        self._proposals.send(partition)

    def start(self, replicas: Replicas, controller: Controller) -> None:
        self.replicas = replicas
        self.controller = controller
        replicas.listen(self._fetchers.role_changed)
        self._review = asyncio.get_running_loop().create_task(self._review_in_sync())

    async def close(self) -> None:
        if self._review is not None:
            self._review.cancel()
            await asyncio.gather(self._review, return_exceptions=True)
        await self._fetchers.close()
        await self._proposals.close()

    def _epoch(self) -> int:
        return self.replicas.broker_epoch

    async def _review_in_sync(self) -> None:
        """Look for followers that fell behind, twice within the time they may take; and whether
        the number of fetchers was changed meanwhile."""
        while True:
            await asyncio.sleep(self.rules.max_lag_seconds() / 2)
            self._fetchers.use_lanes(self._config().num_replica_fetchers)
            for partition in self.replicas:
                partition.review_isr()

    # The controller -------------------------------------------------------------------------

    async def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        if self.controller.is_active:
            return await broker_requests.alter_partition(self.controller, request)
        return await self._links.ask(
            self._controller_id(), request, AlterPartitionResponse, timeout_s=CONTROLLER_SECONDS
        )

    def _controller_id(self) -> int:
        found = self.controller.controller_id
        if found is None:
            raise KafkaError(Errors.NOT_CONTROLLER, "no controller is known")
        return found

    # Shutdown -------------------------------------------------------------------------------

    async def hand_over(self) -> None:
        """Let the controller find other leaders before this broker stops."""
        config = self._config()
        if not config.controlled_shutdown_enable:
            return
        self._fetchers.follow_nothing_new()
        retries, failures = config.controlled_shutdown_max_retries, 0
        while failures < MAX_FAILURES:
            try:
                remaining = await self._ask_to_leave()
            except (KafkaError, OSError, TimeoutError) as error:
                # Mostly the controller is just stopping, too, and the next one not there yet.
                _log.info("the controller did not take over: %s", error)
                failures += 1
                await asyncio.sleep(FAILURE_SECONDS)
                continue
            if not remaining or not retries or not self._has_company():
                return
            _log.warning("%d partitions have nobody yet who could lead them", remaining)
            retries -= 1
            await asyncio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)

    def _has_company(self) -> bool:
        """Whether there is anyone to wait for."""
        return any(self.rules.is_live(f) for p in self.replicas if (f := _other(p)) is not None)

    async def _ask_to_leave(self) -> int:
        request = ControlledShutdownRequest(broker_id=self._broker_id, broker_epoch=self._epoch())
        if self.controller.is_active:
            answer = await broker_requests.controlled_shutdown(self.controller, request)
        else:
            answer = await self._links.ask(
                self._controller_id(),
                request,
                ControlledShutdownResponse,
                timeout_s=self._config().controller_socket_timeout_ms / 1000,
            )
        if answer.error_code:
            raise KafkaError(Errors.of(answer.error_code))
        return len(answer.remaining_partitions)


def _other(partition: Partition) -> int | None:
    """Some other replica of a partition."""
    role = partition.role
    if role is None:
        return None
    return next((r for r in role.replicas if r != partition.local_id), None)
