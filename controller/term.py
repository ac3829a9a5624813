"""One term of office of a controller: the single task in which everything happens.

It begins with reading the whole store and telling every broker everything, then deals with one
event after the other until it is deposed (`Deposed`), its session ends (`SessionLost`), or it is
cancelled. Whenever store and picture may differ (a compare-and-set failed, or an answer was lost
with the connection), it reads everything again and begins as on its first day, still in office.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Final, TypeVar

from odradek.controller import decide, paths
from odradek.controller.channels import Channels, ControlResponse, Send
from odradek.controller.configs import read_changes
from odradek.controller.desk import ControllerSettings, Desk
from odradek.controller.events import (
    AdminStirred,
    Answer,
    Asked,
    BrokersStirred,
    ConfigsStirred,
    DeletionsStirred,
    DirectoriesStirred,
    Event,
    RebalanceDue,
    TopicsStirred,
    TopicStirred,
)
from odradek.controller.fields import log, readable
from odradek.controller.image import Broker
from odradek.controller.leadership import ElectionType
from odradek.controller.loading import (
    Watches,
    read_brokers,
    read_deletions,
    read_image,
    read_topic,
    read_topics,
)
from odradek.controller.office import Deposed, Office
from odradek.controller.propagation import ControlRequest
from odradek.controller.store import (
    ConnectionLost,
    DataTooLarge,
    MetadataStore,
    NoNode,
    SessionLost,
    StoreError,
    StoreFailed,
    Watch,
)
from odradek.controller.topics import TopicRules
from odradek.controller.znodes import decode_log_dir_event, decode_partitions, decode_reassignment
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.replicas import (
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from odradek.protocol.types import TopicPartition

Value = TypeVar("Value")

CONFLICT_PAUSE_SECONDS: Final = 0.02

# What ends a term: no use in trying again.
ENDS: Final = (Deposed, SessionLost, StoreFailed)


class Term:
    def __init__(
        self,
        *,
        store: MetadataStore,
        office: Office,
        settings: ControllerSettings,
        rules: TopicRules,
        send: Send,
        random: Random,
        new_id: Callable[[], bytes],
        connected: asyncio.Event,
    ) -> None:
        self._store = store
        self._settings = settings
        self._connected = connected
        self._channels = Channels(send=send, answered=self._answered)
        self.desk = Desk(
            store=store,
            office=office,
            settings=settings,
            rules=rules,
            random=random,
            new_id=new_id,
            channels=self._channels,
        )
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._is_over = False
        self._last_config_change = -1
        self._timers: list[asyncio.TimerHandle] = []
        # One watch per thing, so that setting it again is no second watch.
        self._watches: dict[Event, Watch] = {}

    async def serve(self) -> None:
        """Hold the office until it ends, by an exception."""
        try:
            await self._survive(self._begin)
            self._schedule(self._settings.rebalance_interval_seconds, RebalanceDue())
            while True:
                await self._deal_with(await self._events.get())
        finally:
            self._is_over = True
            for timer in self._timers:
                timer.cancel()
            self._refuse_waiting()
            await self._channels.close()

    async def ask(self, act: Callable[[Desk], Awaitable[Value]]) -> Value:
        """Have something done in the term's task. KafkaError when it is refused or undone."""
        if self._is_over:
            raise KafkaError(Errors.NOT_CONTROLLER)
        future: asyncio.Future[Value] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            value = await act(self.desk)
            if not future.done():
                future.set_result(value)

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        self._events.put_nowait(Asked(run, fail))
        return await future

    async def _begin(self) -> None:
        """Read everything, put it right, tell everyone, and take up what was left unfinished."""
        desk = self.desk
        changes = await read_changes(
            self._store, self._last_config_change, self._watch(ConfigsStirred())
        )
        self._last_config_change = changes.last
        watches = Watches(
            brokers=self._watch(BrokersStirred()),
            topics=self._watch(TopicsStirred()),
            topic=lambda name: self._watch(TopicStirred(name)),
            deletions=self._watch(DeletionsStirred()),
        )
        desk.begin_with(await read_image(self._store, watches))
        await desk.give_ids()
        await desk.carry_out(decide.take_office(desk.image, desk.terms))
        await desk.take_up()
        await self._directories_stirred()
        await self._admin_stirred()

    async def _survive(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something; if it fails on the way, begin again until that succeeds."""
        while True:
            try:
                await act()
                return
            except ENDS:
                raise
            except ConnectionLost:
                await self._connected.wait()
            except StoreError as error:
                log.warning("the store has moved on, reading everything again: %s", error)
                await asyncio.sleep(CONFLICT_PAUSE_SECONDS)
            act = self._begin

    async def _deal_with(self, event: Event) -> None:
        match event:
            case Asked():
                await self._answer_asker(event)
            case Answer():
                await self._survive(partial(self._take_answer, event))
            case TopicStirred():
                await self._survive(partial(self._topic_stirred, event.name))
            case BrokersStirred():
                await self._survive(self._brokers_stirred)
            case TopicsStirred():
                await self._survive(self._topics_stirred)
            case DeletionsStirred():
                await self._survive(self._deletions_stirred)
            case ConfigsStirred():
                await self._survive(self._configs_stirred)
            case DirectoriesStirred():
                await self._survive(self._directories_stirred)
            case AdminStirred():
                await self._survive(self._admin_stirred)
            case RebalanceDue():
                await self._survive(self._rebalance_due)

    async def _answer_asker(self, asked: Asked) -> None:
        """Do what was asked; after a conflict again, on a fresh picture."""
        try:
            # Without the store nothing can be done: better wait than fail, the asker has a timeout.
            await self._connected.wait()
            for _ in range(3):
                if await self._attempt(asked):
                    return
            asked.fail(KafkaError(Errors.REQUEST_TIMED_OUT, "The metadata store keeps changing."))
        finally:
            # Cancelled or deposed half-way: whoever is controller next may be asked again.
            asked.fail(KafkaError(Errors.NOT_CONTROLLER))

    async def _attempt(self, asked: Asked) -> bool:
        """Whether the asker has an answer."""
        try:
            await asked.act()
        except KafkaError as error:
            asked.fail(error)
        except ENDS:
            raise
        except DataTooLarge as error:
            asked.fail(KafkaError(Errors.POLICY_VIOLATION, str(error)))
        except ConnectionLost:
            # Perhaps done, perhaps not: the asker must find out.
            asked.fail(KafkaError(Errors.REQUEST_TIMED_OUT, "The metadata store is away."))
            await self._connected.wait()
            await self._survive(self._begin)
        except StoreError as error:
            log.warning("the store has moved on, reading everything again: %s", error)
            await self._survive(self._begin)
            return False
        except Exception as error:
            # One request must not end the term; the picture may have suffered, so read it anew.
            log.exception("a request to the controller failed")
            asked.fail(KafkaError(Errors.UNKNOWN_SERVER_ERROR, type(error).__name__))
            await self._survive(self._begin)
        return True

    async def _brokers_stirred(self) -> None:
        await self.desk.members_are(await read_brokers(self._store, self._watch(BrokersStirred())))

    async def _topics_stirred(self) -> None:
        names = await self._store.children(paths.TOPICS, watch=self._watch(TopicsStirred()))
        desk = self.desk
        gone = desk.image.topics.keys() - set(names)
        desk.image = desk.image.without_topics(gone)
        for name in gone:
            self._watches.pop(TopicStirred(name), None)
        new = [name for name in names if name not in desk.image.topics]
        if new:
            topics = await read_topics(
                self._store, new, lambda name: self._watch(TopicStirred(name))
            )
            await desk.adopt(topics)

    async def _topic_stirred(self, name: str) -> None:
        topic = await read_topic(self._store, name, self._watch(TopicStirred(name)))
        known = self.desk.image.topics.get(name)
        if topic is not None and known is not None and topic.version > known.version:
            await self.desk.adopt([topic])

    async def _deletions_stirred(self) -> None:
        names = await read_deletions(self._store, self._watch(DeletionsStirred()))
        if self._settings.delete_topics:
            await self.desk.delete(names)
            return
        for name in sorted(names):
            log.info("topic %s is not deleted: delete.topic.enable is false", name)
            await self.desk.office.remove(paths.deletion(name))

    async def _configs_stirred(self) -> None:
        changes = await read_changes(
            self._store, self._last_config_change, self._watch(ConfigsStirred())
        )
        for entity in changes.entities:
            kind, _, name = entity.partition("/")
            if kind == "topics":
                await self.desk.reconfigure(name)
        self._last_config_change = changes.last

    async def _directories_stirred(self) -> None:
        watch = self._watch(DirectoriesStirred())
        for name in await self._store.children(paths.LOG_DIR_EVENTS, watch=watch):
            path = f"{paths.LOG_DIR_EVENTS}/{name}"
            broker_id = await self._read(path, decode_log_dir_event)
            if broker_id is not None and broker_id in self.desk.image.brokers:
                await self.desk.carry_out(decide.probe_replicas(self.desk.image, broker_id))
            await self.desk.office.remove(path)

    async def _admin_stirred(self) -> None:
        """Requests that tools leave in the store: done first, removed then."""
        watch = self._watch(AdminStirred())
        if await self._store.exists(paths.REASSIGN_PARTITIONS, watch=watch) is not None:
            moves = await self._read(paths.REASSIGN_PARTITIONS, decode_reassignment)
            refused = await self.desk.begin_moves(moves or {})
            for where, error in refused.items():
                log.error("%s is not moved: %s", where, error)
            await self.desk.office.remove(paths.REASSIGN_PARTITIONS)
        if await self._store.exists(paths.PREFERRED_ELECTION, watch=watch) is not None:
            elections = await self._read(paths.PREFERRED_ELECTION, decode_partitions)
            await self.desk.elect(elections or [], ElectionType.PREFERRED)
            await self.desk.office.remove(paths.PREFERRED_ELECTION)

    async def _read(self, path: str, decode: Callable[[bytes], Value]) -> Value | None:
        try:
            data, _ = await self._store.get(path)
        except NoNode:
            return None
        return readable(path, data, decode)

    async def _rebalance_due(self) -> None:
        self._schedule(self._settings.rebalance_interval_seconds, RebalanceDue())
        if self._settings.rebalance_leaders:
            await self.desk.rebalance()

    def _answered(self, broker: Broker, request: ControlRequest, response: ControlResponse) -> None:
        self._events.put_nowait(Answer(broker, request, response))

    async def _take_answer(self, answer: Answer) -> None:
        broker = self.desk.image.brokers.get(answer.broker.id)
        if broker is None or broker.epoch != answer.broker.epoch:
            return
        if answer.response.error_code:
            error = Errors.of(answer.response.error_code).name
            name = type(answer.request).__name__
            log.warning("broker %d answers %s to %s", broker.id, error, name)
            if isinstance(answer.request, StopReplicaRequest):
                self._schedule(self._settings.deletion_retry_seconds, DeletionsStirred())
            return
        match answer.response:
            case StopReplicaResponse() as stopped:
                await self._replicas_stopped(broker.id, stopped)
            case LeaderAndIsrResponse() as led:
                await self._roles_taken(broker.id, led)

    async def _replicas_stopped(self, broker_id: int, response: StopReplicaResponse) -> None:
        failed = self.desk.deletions.answered(broker_id, response, self.desk.image)
        if failed:
            log.warning("broker %d could not delete %s", broker_id, ", ".join(map(str, failed)))
            self._schedule(self._settings.deletion_retry_seconds, DeletionsStirred())
        await self.desk.finish_deletions()

    async def _roles_taken(self, broker_id: int, response: LeaderAndIsrResponse) -> None:
        """Replicas a broker cannot serve, for its directory failed, are offline; others are not."""
        desk = self.desk
        names = {topic.id: topic.name for topic in desk.image.topics.values()}
        failed: set[TopicPartition] = set()
        served: set[TopicPartition] = set()
        for topic in response.topics:
            for answer in topic.partition_errors if topic.topic_id in names else ():
                where = TopicPartition(names[topic.topic_id], answer.partition_index)
                is_lost = answer.error_code == Errors.KAFKA_STORAGE_ERROR
                (failed if is_lost else served).add(where)
        offline = desk.image.offline.get(broker_id, frozenset())
        if offline & served:
            desk.image = desk.image.with_offline(broker_id, offline - served)
        if failed - offline:
            await desk.carry_out(decide.directory_failed(desk.image, broker_id, failed, desk.terms))

    def _watch(self, event: Event) -> Watch:
        watch = self._watches.get(event)
        if watch is None:
            watch = self._watches[event] = lambda _: self._events.put_nowait(event)
        return watch

    def _schedule(self, seconds: float, event: Event) -> None:
        loop = asyncio.get_running_loop()
        self._timers = [timer for timer in self._timers if timer.when() > loop.time()]
        self._timers.append(loop.call_later(seconds, self._events.put_nowait, event))

    def _refuse_waiting(self) -> None:
        while not self._events.empty():
            event = self._events.get_nowait()
            if isinstance(event, Asked):
                event.fail(KafkaError(Errors.NOT_CONTROLLER))
