"""The cluster as a client sees it: where to go with what, kept up to date.

Owns the `view`, which is replaced as a whole by each Metadata answer, and the connections. Topics
are followed from the first time somebody names them. Refreshes are shared by all who ask at the
same time, come by themselves when the view is old, and fall back to the bootstrap servers when no
known broker answers.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import IntEnum
from random import Random
from typing import TypeVar

from odradek.client.connection import Connection, ConnectionOptions, Dial, dial_tcp
from odradek.client.nodes import Channel, Nodes
from odradek.client.retry import Backoff, until_done
from odradek.client.security import Security, security_of
from odradek.client.settings import ClientSettings
from odradek.client.view import ClusterView, Node, TopicView, merged
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import TopicPartition

R = TypeVar("R", bound=Response)


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Cluster:
    def __init__(
        self,
        settings: ClientSettings,
        *,
        security: Security | None = None,
        dial: Dial = dial_tcp,
        random: Random | None = None,
        creates_topics: bool = False,
    ) -> None:
        self.settings = settings
        self.view = ClusterView()
        self.random = random or Random()
        self.backoff = Backoff(
            settings.retry_backoff_ms, settings.retry_backoff_max_ms, self.random
        )
        options = ConnectionOptions.of(settings, security or security_of(settings), dial)
        self.nodes = Nodes(settings, options, self.random)
        self._bootstrap = bootstrap_nodes(settings.bootstrap_servers)
        self._creates_topics = creates_topics
        self._followed: set[str] | None = set()
        self._listeners: list[Callable[[], None]] = []
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_at = float("-inf")
        self._is_stale = False
        # How many answers in a row had topics with errors that pass.
        self._incomplete = 0
        self._renewal: asyncio.TimerHandle | None = None
        self._coordinators: dict[tuple[CoordinatorKind, str], Node] = {}
        self._is_closed = False

    async def start(self, timeout_s: float) -> None:
        """Find a broker that answers. Raises KafkaError when none does in time."""
        await self.refresh_within(timeout_s)

    async def close(self) -> None:
        self._is_closed = True
        if self._renewal is not None:
            self._renewal.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self.nodes.close()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called whenever the view was replaced."""
        self._listeners.append(listener)

    # Topics

    def follow(self, topics: Iterable[str] | None) -> None:
        """Ask for exactly these topics from now on; None: for all there are."""
        self._followed = None if topics is None else set(topics)

    def follow_also(self, topic: str) -> None:
        if self._followed is not None:
            self._followed.add(topic)

    async def topic(self, name: str, timeout_s: float) -> TopicView:
        """A topic that is known to exist. Raises KafkaError when it does not come to be in time."""
        known = self.view.topics.get(name)
        if known is not None and not known.error:
            return known
        self.follow_also(name)

        if self._refreshing is not None:
            # It may have been asked before this topic was followed.
            await asyncio.gather(asyncio.shield(self._refreshing), return_exceptions=True)

        async def ask() -> TopicView:
            await self.refresh()
            return existing(self.view, name)

        return await until_done(ask, backoff=self.backoff, timeout_s=timeout_s)

    # Metadata

    async def refresh(self) -> None:
        """Replace the view by what a broker says now. Raises KafkaError when none answers."""
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
            self._refreshing.add_done_callback(self._refresh_ended)
        await asyncio.shield(self._refreshing)

    async def refresh_within(self, timeout_s: float) -> None:
        """The same, tried again until the time is over."""
        await until_done(self.refresh, backoff=self.backoff, timeout_s=timeout_s)

    def refresh_soon(self) -> None:
        """Refresh without waiting for it, but not more often than the retry pause allows.

        While one is under way, another one follows it: whoever asks may just have been told, by
        the answer of this one, that a leader is missing.
        """
        if self._is_closed:
            return
        if self._refreshing is not None:
            self._is_stale = True
            return
        loop = asyncio.get_running_loop()
        earliest = self._refreshed_at + self.settings.retry_backoff_ms / 1000
        self._renew_at(max(earliest, loop.time()))

    def _renew_at(self, when: float) -> None:
        loop = asyncio.get_running_loop()
        if self._renewal is not None:
            if self._renewal.when() <= when and not self._renewal.cancelled():
                return
            self._renewal.cancel()
        self._renewal = loop.call_at(when, self._renew)

    def _renew(self) -> None:
        self._renewal = None
        if self._refreshing is None and not self._is_closed:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
            self._refreshing.add_done_callback(self._refresh_ended)

    def _refresh_ended(self, task: "asyncio.Task[None]") -> None:
        self._refreshing = None
        loop = asyncio.get_running_loop()
        self._refreshed_at = loop.time()
        is_stale, self._is_stale = self._is_stale, False
        if self._is_closed or task.cancelled():
            return
        failed = task.exception() is not None
        pause_ms = (
            self.settings.retry_backoff_max_ms if failed else self.settings.metadata_max_age_ms
        )
        self._renew_at(loop.time() + pause_ms / 1000)
        if any(Errors.of(topic.error).retriable for topic in self.view.topics.values()):
            # Somebody waits for a topic that is not there yet, or has no leaders.
            self._incomplete += 1
            self._renew_at(loop.time() + self.backoff.pause_s(self._incomplete))
        else:
            self._incomplete = 0
        if is_stale:
            self.refresh_soon()

    async def _refresh(self) -> None:
        last: KafkaError | None = None
        for node in self._candidates():
            try:
                connection = await self.nodes.connect(node)
                await self._ask_metadata(connection)
                return
            except KafkaError as error:
                if not error.error.retriable:
                    raise
                last = error
        raise last or KafkaError(Errors.BROKER_NOT_AVAILABLE, "no bootstrap servers are given")

    def _candidates(self) -> list[Node]:
        """Whom to ask: those with a working connection first, the bootstrap servers last."""
        known = list(self.view.nodes.values())
        self.random.shuffle(known)
        known.sort(key=lambda node: self.nodes.connected(node) is None)
        addresses = {(node.host, node.port) for node in known}
        return known + [n for n in self._bootstrap if (n.host, n.port) not in addresses]

    async def _ask_metadata(self, connection: Connection) -> None:
        followed = None if self._followed is None else sorted(self._followed)
        version = connection.version_of(MetadataRequest)
        topics = None if followed is None else [MetadataRequestTopic(name=t) for t in followed]
        if version == 0:
            # Version 0 says "all" with an empty list, and cannot say "none".
            topics = topics or []
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._creates_topics)
        answer = await connection.request(request, MetadataResponse, version=version)
        if answer.error_code:
            raise KafkaError(Errors.of(answer.error_code))
        if not answer.brokers:
            raise KafkaError(Errors.LEADER_NOT_AVAILABLE, f"{connection} knows no brokers yet")
        asked = set(followed or ())
        keep = (
            None
            if self._followed is None
            else [t for t in self.view.topics if t in self._followed and t not in asked]
        )
        self._replace(merged(self.view, answer, keep=keep))

    def _replace(self, view: ClusterView) -> None:
        self.view = view
        for listener in self._listeners:
            listener()

    def note_leader(self, partition: TopicPartition, leader: Node, leader_epoch: int) -> None:
        """Take over what a broker said of a partition's new leader beside an error."""
        view = self.view.with_leader(partition, leader, leader_epoch)
        if view is not self.view:
            self._replace(view)

    # Connections

    async def connection(self, node_id: int, channel: Channel = Channel.CONTROL) -> Connection:
        node = self.view.nodes.get(node_id)
        if node is None:
            self.refresh_soon()
            raise KafkaError(Errors.LEADER_NOT_AVAILABLE, f"broker {node_id} is not known")
        return await self.nodes.connect(node, channel)

    async def any_connection(self) -> Connection:
        last: KafkaError | None = None
        for node in self._candidates():
            try:
                return await self.nodes.connect(node)
            except KafkaError as error:
                last = error
        raise last or KafkaError(Errors.BROKER_NOT_AVAILABLE, "no bootstrap servers are given")

    async def controller(self) -> Connection:
        """The connection for requests that only the controller answers."""
        node = self.view.nodes.get(self.view.controller_id)
        if node is None:
            await self.refresh()
            node = self.view.nodes.get(self.view.controller_id)
        if node is None:
            raise KafkaError(Errors.NOT_CONTROLLER, "the cluster has no controller right now")
        return await self.nodes.connect(node)

    # Coordinators

    async def coordinator(
        self, kind: CoordinatorKind, key: str, channel: Channel = Channel.GROUP
    ) -> Connection:
        """The connection to whoever coordinates this group or transactional id."""
        node = self._coordinators.get((kind, key))
        if node is None:
            node = await self._find_coordinator(kind, key)
            self._coordinators[kind, key] = node
        try:
            return await self.nodes.connect(node, channel)
        except KafkaError:
            self.forget_coordinator(kind, key)
            raise

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def _find_coordinator(self, kind: CoordinatorKind, key: str) -> Node:
        connection = await self.any_connection()
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer = await connection.request(request, FindCoordinatorResponse)
        if not answer.coordinators:
            _raise(answer.error_code, answer.error_message)
            return Node(answer.node_id, answer.host, answer.port)
        found = answer.coordinators[0]
        _raise(found.error_code, found.error_message)
        return Node(found.node_id, found.host, found.port)

    async def ask_coordinator(
        self, kind: CoordinatorKind, key: str, request: Request, expected: type[R]
    ) -> R:
        """Ask the coordinator once. Forgets it when the connection breaks."""
        connection = await self.coordinator(kind, key)
        try:
            return await connection.request(request, expected)
        except KafkaError:
            self.forget_coordinator(kind, key)
            raise


def existing(view: ClusterView, name: str) -> TopicView:
    topic = view.topics.get(name)
    if topic is None:
        raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    if topic.error:
        raise KafkaError(Errors.of(topic.error), f"topic {name}: {Errors.of(topic.error).message}")
    return topic


def bootstrap_nodes(servers: Iterable[str]) -> list[Node]:
    """The addresses to begin with, as nodes whose ids nobody knows yet."""
    nodes = []
    for index, server in enumerate(servers):
        host, _, port = server.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise KafkaError(Errors.INVALID_CONFIG, f"{server!r} is not of the form host:port")
        nodes.append(Node(-1 - index, host, int(port)))
    return nodes


def _raise(code: int, message: str | None) -> None:
    if code:
        raise KafkaError(Errors.of(code), message)
