"""The consumer: records of assigned partitions, alone or as a member of a group.

    async with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            ...

or, in batches, `records = await consumer.poll(timeout_s=1)`. A position is the next offset to come:
with `poll` it moves past all records returned, with `async for` past each one as it is handed out.
Automatic commits happen when the application asks for more, so nothing is committed that it has not
had time to process. Everything runs on one event loop; nothing is thread-safe.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from random import Random
from typing import Self

from odradek.client.cluster import Cluster
from odradek.client.commits import Commits, Offsets
from odradek.client.connection import Dial, dial_tcp
from odradek.client.fetcher import Fetcher
from odradek.client.group_offsets import committed_offsets
from odradek.client.membership import Activity, Membership
from odradek.client.offsets import EARLIEST, LATEST, ends, list_offsets
from odradek.client.partition_state import PartitionState, ReadSettings
from odradek.client.positions import Positions
from odradek.client.settings import ConsumerSettings, Given, configured
from odradek.client.subscription import Pattern, RebalanceListener, Subscription, Topics
from odradek.client.values import (
    ConsumerInterceptor,
    ConsumerRecord,
    ConsumerRecords,
    Deserializer,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    as_bytes,
)
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.types import TopicPartition


class Consumer:
    def __init__(
        self,
        config: Mapping[str, Given] | None = None,
        *,
        key_deserializer: Deserializer = as_bytes,
        value_deserializer: Deserializer = as_bytes,
        interceptors: Sequence[ConsumerInterceptor] = (),
        random: Random | None = None,
        dial: Dial = dial_tcp,
        **settings: Given,
    ) -> None:
        self.settings = configured(ConsumerSettings, config, **settings)
        self._reading = ReadSettings(self.settings.check_crcs, key_deserializer, value_deserializer)
        self._interceptors = tuple(interceptors)
        self._timeout_s = self.settings.default_api_timeout_ms / 1000
        self._cluster = Cluster(
            self.settings,
            dial=dial,
            random=random,
            creates_topics=self.settings.allow_auto_create_topics,
        )
        self._subscription = Subscription()
        self._activity = Activity()
        self._membership: Membership | None = None
        self._positions: Positions
        self._commits: Commits
        self._fetcher: Fetcher
        self._turn = 0
        self._has_news = False
        self._news: asyncio.Future[None] | None = None
        self._is_open = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, timeout_s: float | None = None) -> None:
        """Find the cluster. Raises KafkaError when no broker answers in time."""
        self._loop = asyncio.get_running_loop()
        args = (self._cluster, self.settings, self._subscription)
        self._positions = Positions(*args, self._notify)
        self._fetcher = Fetcher(*args, self._notify)
        self._commits = Commits(
            *args,
            interceptors=self._interceptors,
            committer=self.group_metadata,
            on_refusal=self._commit_was_refused,
        )
        self._cluster.on_change(self._fetcher.pump)
        try:
            await self._cluster.start(self._timeout_s if timeout_s is None else timeout_s)
        except BaseException:
            await self._cluster.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Commit if that is automatic, leave the group, let go of everything."""
        if self._is_open:
            self._is_open = False
            self._notify()
            await self._commits.before_revocation()
            await self._positions.close()
            if self._membership is not None:
                await self._membership.close()
            await self._fetcher.close()
        await self._cluster.close()

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics, or all that match the pattern as a whole, with the group."""
        self._check_open()
        if (topics is None) == (pattern is None):
            raise KafkaError(Errors.INVALID_REQUEST, "subscribe takes topics or a pattern")
        if self.settings.group_id is None:
            raise KafkaError(Errors.INVALID_GROUP_ID, "subscribe needs group.id")
        if isinstance(topics, str):
            raise KafkaError(Errors.INVALID_REQUEST, "topics is a list of names, not a name")
        if pattern is not None:
            self._subscription.subscribe(Pattern(re.compile(pattern)), listener)
            self._cluster.follow(None)
        else:
            self._subscription.subscribe(Topics(frozenset(topics or ())), listener)
            self._cluster.follow(topics)
            self._cluster.refresh_soon()
        if self._membership is None:
            self._membership = Membership(
                self._cluster,
                self.settings,
                self._subscription,
                activity=self._activity,
                before_revocation=self._commits.before_revocation,
                on_news=self._notify,
            )
        else:
            self._membership.join_again("the subscription changed")

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without sharing them with anybody."""
        self._check_open()
        chosen = list(partitions)
        self._subscription.assign_by_hand(chosen)
        self._cluster.follow({partition.topic for partition in chosen})
        self._cluster.refresh_soon()
        self._notify()

    async def unsubscribe(self) -> None:
        if self._membership is not None:
            await self._commits.before_revocation()
            await self._membership.close()
            self._membership = None
        self._subscription.clear()

    def assignment(self) -> set[TopicPartition]:
        return set(self._subscription.partitions)

    def subscription(self) -> set[str]:
        uses_group = self._subscription.uses_group
        return self._subscription.topics(self._cluster.view) if uses_group else set()

    # Reading

    async def poll(self, timeout_s: float = 1.0, max_records: int | None = None) -> ConsumerRecords:
        """Records if there are any, waiting for them until the timeout is over."""
        deadline = self._loop.time() + timeout_s
        most = max_records or self.settings.max_poll_records
        is_last_look = False
        while True:
            await self._look_after()
            by_partition = self._collect(most)
            if by_partition:
                self._fetcher.pump()
                return self._intercepted(ConsumerRecords(by_partition))
            if is_last_look:
                return ConsumerRecords({})
            left_s = deadline - self._loop.time()
            if left_s <= 0:
                # Even a poll that must not wait lets the loop read what has arrived.
                await asyncio.sleep(0)
                is_last_look = True
            elif not self._has_news:
                await self._wait_for_news(left_s)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        if self._interceptors:
            while self._is_open:
                for record in await self.poll():
                    yield record
            return
        activity = self._activity
        while self._is_open:
            await self._look_after()
            state = self._next_ready()
            if state is None:
                await self._wait_for_news(None)
                continue
            self._fetcher.pump()
            ready = state.ready
            while ready:
                record = ready.popleft()
                if ready:
                    state.position = record.offset + 1
                else:
                    state.finish_batch()
                activity.is_fresh = True
                yield record
                if self._has_news:
                    break

    async def _look_after(self) -> None:
        """What has to be done now and then, while the application asks for records."""
        self._check_open()
        self._has_news = False
        self._activity.is_fresh = True
        if self._membership is not None and self._membership.needs_step:
            await self._membership.step()
        for state in self._subscription.partitions.values():
            if state.error is not None:
                self._positions.out_of_range(state)
        self._positions.work()
        self._commits.now_and_then()
        self._fetcher.pump()

    def _collect(self, most: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        while most > 0:
            state = self._next_ready()
            if state is None:
                break
            taken = state.take(most)
            most -= len(taken)
            known = by_partition.get(state.partition)
            if known is None:
                by_partition[state.partition] = taken
            else:
                known += taken
        return by_partition

    def _next_ready(self) -> PartitionState | None:
        """A partition with records that can be handed out; each stays until it is empty, and then
        it is the next one's turn."""
        states = list(self._subscription.partitions.values())
        for step in range(len(states)):
            state = states[(self._turn + step) % len(states)]
            if state.has_data and not state.is_paused and state.reset_to is None:
                try:
                    if state.prepare(self._reading):
                        self._turn += step
                        return state
                except (KafkaError, ProtocolError) as error:
                    self._cannot_read(state, error)
        return None

    def _cannot_read(self, state: PartitionState, error: KafkaError | ProtocolError) -> None:
        """Raised by the next look, and again by each one that meets the same batch: the position
        stays before it until the application seeks past it."""
        state.seek(state.position)
        message = f"{state.partition} at offset {state.position}: {error}"
        state.error = KafkaError(Errors.CORRUPT_MESSAGE, message)
        self._notify()

    def _intercepted(self, records: ConsumerRecords) -> ConsumerRecords:
        for interceptor in self._interceptors:
            records = interceptor.on_consume(records)
        return records

    def _notify(self) -> None:
        self._has_news = True
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _wait_for_news(self, timeout_s: float | None) -> None:
        news = self._news = self._loop.create_future()
        timer = None
        if timeout_s is not None:
            timer = self._loop.call_later(timeout_s, _done, news)
        if self._has_news:
            _done(news)
        try:
            await news
        finally:
            if timer is not None:
                timer.cancel()

    def _check_open(self) -> None:
        if not self._is_open:
            raise KafkaError(Errors.INVALID_REQUEST, "the consumer is not open")

    # Positions

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to come."""
        state = self._subscription.state(partition)
        async with asyncio.timeout(self._timeout_s):
            await self._positions.settle()
        return state.position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if offset < 0:
            raise KafkaError(Errors.INVALID_REQUEST, f"{offset} is no offset")
        self._subscription.state(partition).seek(offset)
        self._notify()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Of these partitions, or of all that are assigned."""
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._seek_to(LATEST, partitions)

    def _seek_to(self, end: int, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions) or list(self._subscription.partitions):
            self._subscription.state(partition).reset(end)
        self._notify()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of these until they are resumed."""
        for partition in partitions:
            self._subscription.state(partition).is_paused = True
        self._notify()

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._subscription.state(partition).is_paused = False
        self._notify()

    def paused(self) -> set[TopicPartition]:
        return {p for p, state in self._subscription.partitions.items() if state.is_paused}

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets lie between the position and what can be read; None if not known."""
        state = self._subscription.state(partition)
        committed = self.settings.isolation_level == "read_committed"
        end = state.last_stable_offset if committed else state.high_watermark
        return end - state.position if end >= 0 and state.has_position else None

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return await ends(self._cluster, partitions, EARLIEST, timeout_s=self._timeout_s)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await ends(
            self._cluster,
            partitions,
            LATEST,
            timeout_s=self._timeout_s,
            read_committed=self.settings.isolation_level == "read_committed",
        )

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time, None where all are older."""
        return await list_offsets(self._cluster, timestamps_ms, timeout_s=self._timeout_s)

    async def partitions_for(self, topic: str) -> list[int]:
        return list((await self._cluster.topic(topic, self._timeout_s)).partitions)

    # Committing

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit these offsets, or the positions of everything that is assigned, and wait for it.

        Raises KafkaError; after ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or REBALANCE_IN_PROGRESS the
        partitions may belong to somebody else.
        """
        await self._commits.commit(offsets)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out."""
        group = self.group_metadata().group_id
        return await committed_offsets(self._cluster, group, partitions, timeout_s=self._timeout_s)

    def group_metadata(self) -> GroupMetadata:
        """Who commits; what `Producer.send_offsets_to_transaction` wants to know."""
        if self._membership is not None:
            return self._membership.metadata()
        if self.settings.group_id is None:
            raise KafkaError(Errors.INVALID_GROUP_ID, "group.id is not set")
        return GroupMetadata(self.settings.group_id)

    def _commit_was_refused(self, error: KafkaError) -> None:
        if self._membership is not None:
            self._membership.commit_refused(error)


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
