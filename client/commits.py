"""A consumer's commits: asked for, or automatic when the application comes back for more.

Automatic commits run beside the application and only name partitions whose position moved. Before
partitions are given up, and at the end, the last positions are committed and waited for.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from odradek.client.cluster import Cluster
from odradek.client.group_offsets import commit_offsets
from odradek.client.settings import ConsumerSettings
from odradek.client.subscription import Subscription
from odradek.client.values import ConsumerInterceptor, GroupMetadata, OffsetAndMetadata
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Commits:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscription: Subscription,
        *,
        interceptors: Sequence[ConsumerInterceptor],
        committer: Callable[[], GroupMetadata],
        on_refusal: Callable[[KafkaError], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._subscription = subscription
        self._interceptors = interceptors
        self._committer = committer
        self._on_refusal = on_refusal
        self._loop = asyncio.get_running_loop()
        self._is_automatic = settings.enable_auto_commit and settings.group_id is not None
        self._interval_s = settings.auto_commit_interval_ms / 1000
        self._next_at = self._loop.time() + self._interval_s
        self._known: dict[TopicPartition, int] = {}
        self._under_way: asyncio.Task[None] | None = None

    async def commit(self, offsets: Offsets | None) -> None:
        chosen = self._positions() if offsets is None else dict(offsets)
        if not chosen:
            return
        timeout_s = self._settings.default_api_timeout_ms / 1000
        try:
            await commit_offsets(self._cluster, self._committer(), chosen, timeout_s=timeout_s)
        except KafkaError as error:
            self._on_refusal(error)
            raise
        self._known.update((partition, row.offset) for partition, row in chosen.items())
        for interceptor in self._interceptors:
            interceptor.on_commit(chosen)

    def now_and_then(self) -> None:
        """The application asks for more: what it had before is processed."""
        now = self._loop.time()
        if not self._is_automatic or now < self._next_at:
            return
        self._next_at = now + self._interval_s
        is_busy = self._under_way is not None and not self._under_way.done()
        if not is_busy and (moved := self._moved()):
            self._under_way = self._loop.create_task(self._commit_quietly(moved))

    async def before_revocation(self) -> None:
        """The last chance for what is assigned now."""
        if self._under_way is not None:
            await asyncio.gather(self._under_way, return_exceptions=True)
        if self._is_automatic and (moved := self._moved()):
            await self._commit_quietly(moved)
        self._known.clear()

    def _positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            partition: OffsetAndMetadata(state.position, "", state.position_epoch)
            for partition, state in self._subscription.partitions.items()
            if state.has_position
        }

    def _moved(self) -> dict[TopicPartition, OffsetAndMetadata]:
        own = self._positions()
        return {p: row for p, row in own.items() if self._known.get(p) != row.offset}

    async def _commit_quietly(self, offsets: Offsets) -> None:
        try:
            await self.commit(offsets)
        except KafkaError as error:
            log.warning("automatic commit failed: %s", error)
