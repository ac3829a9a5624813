"""Fetches ahead of the application: one request under way to each broker that leads something.

Fetching goes on while records are being handed out, up to a bound of bytes for each partition, so
that the network does not wait for the application nor the application for the network. Positions
are validated and looked up elsewhere (`positions`); here only partitions that have one are fetched.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.fetch_session import FetchPlan, FetchSession, Wanted
from odradek.client.nodes import Channel
from odradek.client.partition_state import FetchedBatch, PartitionState
from odradek.client.settings import ConsumerSettings
from odradek.client.subscription import Subscription
from odradek.client.view import Node
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.messages.fetch import (
    FetchForgottenTopic,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.records import iter_headers
from odradek.protocol.schema import Response
from odradek.protocol.types import NO_ID, TopicPartition

log = logging.getLogger(__name__)

NEWEST_WITH_NAMES: Final = 12
# A broker keeps a fetch no longer than this beyond its wait.
GRACE_S: Final = 30.0

STALE_METADATA: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.INCONSISTENT_TOPIC_ID,
        Errors.OFFSET_NOT_AVAILABLE,
    }
)
SESSION_LOST: Final = frozenset(
    {
        Errors.FETCH_SESSION_ID_NOT_FOUND,
        Errors.INVALID_FETCH_SESSION_EPOCH,
        Errors.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

Eras = dict[TopicPartition, tuple[PartitionState, int, int]]


class Fetcher:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        subscription: Subscription,
        on_news: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._subscription = subscription
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[int, FetchSession] = {}
        self._busy: set[int] = set()
        self._pauses: dict[int, asyncio.TimerHandle] = {}
        self._failures: dict[int, int] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._missed: set[int] = set()
        self._is_closed = False
        self._isolation = int(settings.isolation_level == "read_committed")

    async def close(self) -> None:
        self._is_closed = True
        for pause in self._pauses.values():
            pause.cancel()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def pump(self) -> None:
        """Send a fetch to every broker that has none under way and something to give."""
        if self._is_closed:
            return
        for node, states in self._wanted_by_node().items():
            if node.id in self._busy or node.id in self._pauses:
                continue
            connection = self._cluster.nodes.connected(node, Channel.DATA)
            if connection is not None:
                self._fetch(node, connection, states)
            elif node.id not in self._connecting:
                self._connecting[node.id] = self._loop.create_task(self._connect(node))

    def _wanted_by_node(self) -> dict[Node, list[PartitionState]]:
        view = self._cluster.view
        now = self._loop.time()
        most = self._settings.max_partition_fetch_bytes
        nodes: dict[Node, list[PartitionState]] = {}
        for partition, state in self._subscription.partitions.items():
            if not state.has_position or state.is_paused or state.error or state.needs_validation:
                continue
            if state.buffered_bytes >= most or now < state.fetch_after:
                continue
            leader = view.leader_of(partition)
            if state.preferred_replica >= 0:
                near = view.nodes.get(state.preferred_replica)
                if near is not None and now < state.preferred_until:
                    leader = near
                else:
                    state.preferred_replica = -1
            if leader is None:
                self._cluster.refresh_soon()
            else:
                nodes.setdefault(leader, []).append(state)
        return nodes

    async def _connect(self, node: Node) -> None:
        try:
            await self._cluster.nodes.connect(node, Channel.DATA)
            self._missed.discard(node.id)
        except KafkaError as error:
            # Said once for each time that it is away.
            log.log(logging.DEBUG if node.id in self._missed else logging.WARNING, "%s", error)
            self._missed.add(node.id)
            self._cluster.refresh_soon()
        finally:
            del self._connecting[node.id]
        self.pump()

    def _fetch(self, node: Node, connection: Connection, states: list[PartitionState]) -> None:
        view = self._cluster.view
        session = self._sessions.setdefault(node.id, FetchSession())
        wanted: dict[TopicPartition, Wanted] = {}
        eras: Eras = {}
        for state in states:
            known = view.partition(state.partition)
            assert known is not None, "only partitions with a leader are fetched"
            wanted[state.partition] = Wanted(
                view.topics[state.partition.topic].id,
                state.fetch_offset,
                known.leader_epoch,
                self._settings.max_partition_fetch_bytes,
            )
            eras[state.partition] = (state, state.era, state.fetch_offset)
        plan = session.plan(wanted)
        try:
            has_ids = all(row.topic_id != NO_ID for row in (wanted | plan.forget).values())
            version = connection.version_of(FetchRequest, None if has_ids else NEWEST_WITH_NAMES)
            connection.send_then(
                self._request(plan),
                partial(self._answered, node.id, eras),
                version=version,
                timeout_s=self._settings.fetch_max_wait_ms / 1000 + GRACE_S,
            )
        except KafkaError as error:
            session.failed(is_known=False)
            self._pause(node.id, error)
            return
        self._busy.add(node.id)

    def _request(self, plan: FetchPlan) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (name, index), row in plan.send.items():
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(topic=name, topic_id=row.topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=row.leader_epoch,
                    fetch_offset=row.fetch_offset,
                    partition_max_bytes=row.max_bytes,
                )
            )
        forgotten: dict[str, FetchForgottenTopic] = {}
        for (name, index), row in plan.forget.items():
            gone = forgotten.get(name)
            if gone is None:
                gone = FetchForgottenTopic(topic=name, topic_id=row.topic_id, partitions=[])
                forgotten[name] = gone
            gone.partitions.append(index)
        return FetchRequest(
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=self._isolation,
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
            rack_id=self._settings.client_rack,
        )

    def _answered(self, node_id: int, eras: Eras, answer: Response | KafkaError) -> None:
        self._busy.discard(node_id)
        if self._is_closed:
            return
        session = self._sessions[node_id]
        if isinstance(answer, KafkaError):
            session.failed(is_known=False)
            self._cluster.refresh_soon()
            self._pause(node_id, answer)
            return
        assert isinstance(answer, FetchResponse)
        if answer.error_code:
            code = Errors.of(answer.error_code)
            session.failed(is_known=code is not Errors.FETCH_SESSION_ID_NOT_FOUND)
            if code not in SESSION_LOST:
                self._pause(node_id, KafkaError(code))
        else:
            session.answered(answer.session_id)
            self._failures.pop(node_id, None)
            self._read(answer, eras)
        self.pump()

    def _pause(self, node_id: int, error: BaseException) -> None:
        """Leave a broker alone for a while."""
        failures = self._failures[node_id] = self._failures.get(node_id, 0) + 1
        log.info("fetching from broker %d: %s", node_id, error)
        pause_s = self._cluster.backoff.pause_s(failures)
        self._pauses[node_id] = self._loop.call_later(pause_s, self._resume, node_id)

    def _resume(self, node_id: int) -> None:
        del self._pauses[node_id]
        self.pump()

    def _read(self, response: FetchResponse, eras: Eras) -> None:
        names: dict[bytes, str] | None = None
        for topic in response.responses:
            name = topic.topic
            if not name:
                names = names or self._cluster.view.topic_ids()
                name = names.get(topic.topic_id, "")
            for row in topic.partitions:
                asked = eras.get(TopicPartition(name, row.partition_index))
                if asked is not None:
                    self._read_partition(row, response, *asked)

    def _read_partition(
        self,
        row: FetchPartitionData,
        response: FetchResponse,
        state: PartitionState,
        era: int,
        fetch_offset: int,
    ) -> None:
        if state.era != era or state.fetch_offset != fetch_offset:
            return
        if row.error_code:
            self._read_error(state, row, response)
            return
        state.high_watermark = row.high_watermark
        state.last_stable_offset = row.last_stable_offset
        state.log_start_offset = row.log_start_offset
        if row.preferred_read_replica >= 0:
            state.preferred_replica = row.preferred_read_replica
            max_age_s = self._settings.metadata_max_age_ms / 1000
            state.preferred_until = self._loop.time() + max_age_s
        data = row.records
        if data is None or not len(data):
            return
        assert isinstance(data, bytes | bytearray | memoryview)
        try:
            batches = [FetchedBatch(data, at, header) for at, header in iter_headers(data)]
        except ProtocolError as error:
            state.error = KafkaError(Errors.CORRUPT_MESSAGE, f"{state.partition}: {error}")
            self._on_news()
            return
        if batches:
            state.add(batches, row.aborted_transactions)
            self._on_news()

    def _read_error(
        self, state: PartitionState, row: FetchPartitionData, response: FetchResponse
    ) -> None:
        error = Errors.of(row.error_code)
        if error in STALE_METADATA:
            self._note_leader(state.partition, row, response)
            self._cluster.refresh_soon()
            # Asked again at once, it would only refuse again at once.
            pause_s = self._settings.retry_backoff_ms / 1000
            state.fetch_after = self._loop.time() + pause_s
            self._loop.call_later(pause_s, self.pump)
            state.preferred_replica = -1
        elif error is Errors.OFFSET_OUT_OF_RANGE and state.preferred_replica >= 0:
            # A follower may be behind; the leader knows.
            state.preferred_replica = -1
        else:
            state.error = KafkaError(error, f"{state.partition} at offset {state.fetch_offset}")
            self._on_news()

    def _note_leader(
        self, partition: TopicPartition, row: FetchPartitionData, response: FetchResponse
    ) -> None:
        hint = row.current_leader
        if hint is None or hint.leader_id < 0:
            return
        for node in response.node_endpoints:
            if node.node_id == hint.leader_id:
                leader = Node(node.node_id, node.host, node.port, node.rack)
                self._cluster.note_leader(partition, leader, hint.leader_epoch)
