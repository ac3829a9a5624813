"""The composition root: one broker, put together from its configuration.

Several brokers may live in one process, each with its own configuration, clock and files; what
belongs to the process as a whole (signals, the event loop, garbage collection) is in `process`.

Order of a start: the directories are locked; the metadata store is opened and says who we are;
logs are loaded; listeners are bound, so that their ports are known; the broker registers; the
controller tells it what to host; clients are let in. A stop goes the other way round.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from odradek.broker.adoption import adopt_topics
from odradek.broker.auto_topics import AutoTopics
from odradek.broker.cleaner import Cleaner
from odradek.broker.config import BrokerConfig
from odradek.broker.coordinator.internal_topics import internal_topics
from odradek.broker.data_dirs import refuse_foreign
from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.failures import CannotStart
from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.flushing import Flusher
from odradek.broker.group_service import GroupService
from odradek.broker.handlers.configs import ConfigsHandler
from odradek.broker.handlers.fetch import FetchHandler
from odradek.broker.handlers.log_dirs import LogDirsHandler
from odradek.broker.handlers.metadata import Identity, MetadataHandler
from odradek.broker.handlers.offsets import OffsetsHandler
from odradek.broker.handlers.produce import ProduceHandler
from odradek.broker.handlers.producer_ids import ProducerIdsHandler
from odradek.broker.handlers.topics import TopicsHandler
from odradek.broker.maintenance import Maintenance
from odradek.broker.metadata_cache import ClusterView, MetadataCache
from odradek.broker.network.peer import Address
from odradek.broker.orders import Orders
from odradek.broker.routes import AnyRoute, table_of
from odradek.broker.server import Server
from odradek.broker.wanted_topics import WantedTopic, make_topics
from odradek.controller.channels import ControlResponse
from odradek.controller.controller import Controller
from odradek.controller.desk import ControllerSettings
from odradek.controller.image import Broker as Registered
from odradek.controller.producer_ids import ProducerIds, next_block
from odradek.controller.propagation import ControlRequest
from odradek.controller.registration import BrokerIdTaken, Registration, cluster_id, prepare
from odradek.controller.store import MetadataStore, StoreError
from odradek.controller.store_embedded import EmbeddedStore
from odradek.controller.topic_creation import create_topic
from odradek.controller.topics import NewTopic, TopicRules
from odradek.controller.znodes import BrokerRegistration
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.settings import SettingsError
from odradek.protocol.types import TopicPartition, id_to_text, random_id
from odradek.replication.replicas import Replicas
from odradek.storage.directory import LogDirectory
from odradek.storage.files import Files
from odradek.storage.log_config import LogConfig
from odradek.storage.logs import Logs, LogsSettings
from odradek.storage.properties_files import LogDirectoryError, MetaProperties, read_meta

_log = logging.getLogger(__name__)

METADATA_FILE: Final = "metadata.db"
FIRST_BROKER_ID: Final = 0
READY_SECONDS: Final = 30.0
CLOSING_THREADS: Final = 16
SESSION_IDLE_SECONDS: Final = 120.0


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        files: Files,
        random: Random,
        on_fatal: Callable[[str], None],
        max_open_files: int | None = None,
    ) -> None:
        """`on_fatal` is called when the broker cannot go on, with the reason."""
        self._static = config
        self._loop = loop
        self._clock = clock
        self._files = files
        self._random = random
        self._on_fatal = on_fatal
        self._max_open_files = max_open_files
        self._threads = ThreadPoolExecutor(config.background_threads, "odradek")
        self._undo: list[Callable[[], object]] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> Address:
        return self._server.address

    # Start ----------------------------------------------------------------------------------

    async def start(self, topics: Sequence[WantedTopic] = ()) -> None:
        """Returns when clients are served. Raises CannotStart or CannotListen, all undone."""
        try:
            await self._start(topics)
        except BaseException as error:
            await self._undo_all()
            if isinstance(error, LogDirectoryError | BrokerIdTaken):
                raise CannotStart(f"{error}.".replace("..", ".")) from error
            raise

    async def _start(self, topics: Sequence[WantedTopic]) -> None:
        meta = self._take_directories()
        await self._open_store()
        await self._find_identity(meta)
        self._configs = DynamicConfigs(
            self._static, broker_id=self.id, store=self._store, clock=self._clock
        )
        await self._configs.start()
        await self._load_logs()
        await adopt_topics(self._store, self._logs, self.id, self._internal_settings)
        self._metadata = MetadataCache()
        self._replicas = Replicas(
            logs=self._logs, local_id=self.id, clock=self._clock, is_known=self._is_known
        )
        self._groups = GroupService(
            self._static,
            replicas=self._replicas,
            metadata=self._metadata,
            clock=self._clock,
            loop=self._loop,
        )
        self._make_controller()
        self._server = Server(
            self._static, loop=self._loop, clock=self._clock, routes=self._routes()
        )
        self._server.open()
        self._undo.append(self._server.stop)
        await self._join_cluster()
        self._follow_configs()
        self._start_chores()
        await make_topics(topics, table_of(self._server.routes), self._server.local_peer())
        self._server.accept()

    def _take_directories(self) -> MetaProperties:
        """Lock the directories before anything in them is read; gives what they say of us."""
        config = self._static
        self._logs = Logs(
            config.data_dirs,
            files=self._files,
            clock=self._clock,
            random=self._random,
            settings=LogsSettings(
                config_of=lambda topic: self._configs.log_config(topic),
                producer_expiration_ms=config.producer_id_expiration_ms,
                recovery_threads_per_directory=config.num_recovery_threads_per_data_dir,
                max_open_files=self._max_open_files,
            ),
            on_offline=self._directory_failed,
        )
        known = MetaProperties(None, None, None)
        for directory in self._logs.directories:
            try:
                directory.lock()
            except OSError as error:
                raise CannotStart(
                    f"The data directory {directory.path} cannot be used: {error.strerror}."
                ) from error
            self._undo.append(directory.unlock)
            known = read_meta(self._files, directory.path) or known
        refuse_foreign(config.data_dirs, self._files)
        return known

    async def _open_store(self) -> None:
        if not self._static.is_single:
            raise CannotStart("zookeeper.connect is set, but clusters are not built yet.")
        path = Path(self._static.data_dirs[0]) / METADATA_FILE
        self._embedded = EmbeddedStore(clock=self._clock, path=path)
        self._undo.append(self._embedded.close)
        self._store: MetadataStore = self._embedded.session()
        await prepare(self._store)

    async def _find_identity(self, meta: MetaProperties) -> None:
        """The directories' word counts; a broker that was never started chooses."""
        wanted = self._static.broker_id
        self.id = wanted if wanted >= 0 else _known(meta.broker_id, FIRST_BROKER_ID)
        chosen = meta.cluster_id or id_to_text(random_id())
        self.cluster_id = await cluster_id(self._store, lambda: chosen)

    async def _load_logs(self) -> None:
        self._logs.open(self.id, self.cluster_id)
        await self._loop.run_in_executor(self._threads, self._logs.load)
        self._undo.append(self._close_logs)
        if not self._logs.online:
            raise CannotStart("No log directory can be used.")

    def _internal_settings(self, topic: str) -> Mapping[str, str]:
        internal = internal_topics(self._static).get(topic)
        return {} if internal is None else internal.configs

    async def _close_logs(self) -> None:
        epoch = getattr(self, "epoch", -1)
        close = partial(self._logs.close, epoch, threads=CLOSING_THREADS)
        await self._loop.run_in_executor(self._threads, close)

    def _is_known(self, where: TopicPartition) -> bool:
        return self._metadata.view.partition(where) is not None

    # The cluster ----------------------------------------------------------------------------

    def _make_controller(self) -> None:
        config = self._static
        self._rules = TopicRules(
            default_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            check_config=self._check_topic_config,
        )
        self._controller = Controller(
            store=self._store,
            settings=ControllerSettings(
                broker_id=self.id,
                inter_broker_listener=config.listener_endpoints.inter_broker,
                unclean_election=config.log_defaults.unclean_leader_election_enable,
                delete_topics=config.delete_topic_enable,
                rebalance_leaders=config.auto_leader_rebalance_enable,
                rebalance_interval_seconds=config.leader_imbalance_check_interval_seconds,
                imbalance_percentage=config.leader_imbalance_per_broker_percentage,
            ),
            rules=self._rules,
            send=self._send,
            clock=self._clock,
            random=self._random,
            new_id=random_id,
        )
        self._orders = Orders(
            replicas=self._replicas,
            metadata=self._metadata,
            configs=self._configs,
            store=self._store,
        )

    def _check_topic_config(self, texts: Mapping[str, str]) -> None:
        try:
            self._configs.broker.log_defaults.checked(texts)
        except SettingsError as error:
            raise KafkaError(Errors.INVALID_CONFIG, str(error)) from error

    async def _send(self, broker: Registered, request: ControlRequest) -> ControlResponse:
        """Deliver a control request; there is nobody but ourselves to send it to."""
        assert broker.id == self.id, "a single broker"
        return await self._orders.obey(request)

    async def _join_cluster(self) -> None:
        """Register, take part in the election, wait until the controller has told us all."""
        advertised = self._static.listener_endpoints.advertised_at(
            socket.gethostname(), self._server.network.ports
        )
        registration = Registration(self._store, broker_id=self.id)
        self.epoch = await registration.register(
            BrokerRegistration(advertised, self._clock.now_ms(), self._static.broker_rack),
            patience_seconds=self._static.zookeeper_session_timeout_ms / 1000,
        )
        self._replicas.broker_epoch = self.epoch
        self._undo.append(registration.unregister)
        self._controller.start()
        self._undo.append(self._controller.close)
        self._tasks.append(self._loop.create_task(self._watch_controller()))
        try:
            await asyncio.wait_for(self._until_told(), READY_SECONDS)
        except TimeoutError:
            raise CannotStart("No controller told this broker what to host in time.") from None

    async def _watch_controller(self) -> None:
        """A store that failed cannot be told from one that lost something: stop."""
        try:
            await self._controller.wait()
        except StoreError as error:
            self._on_fatal(f"the metadata store failed: {error}")

    async def _until_told(self) -> None:
        """Wait for the view, and for our roles in it, which the controller sends right behind."""
        await self._metadata.wait_until(lambda view: self.id in view.brokers, READY_SECONDS)
        if self._has_replicas(self._metadata.view):
            await self._orders.hosting.wait()

    def _has_replicas(self, view: ClusterView) -> bool:
        return any(
            self.id in partition.replicas
            for topic in view.topics.values()
            for partition in topic.partitions.values()
        )

    # Clients --------------------------------------------------------------------------------

    def _routes(self) -> Iterator[AnyRoute]:
        config = self._static
        auto_topics = AutoTopics(
            create=self._create_topic, metadata=self._metadata, configs=self._configs
        )
        self._flusher = Flusher(threads=self._threads)
        identity = Identity(
            self.id, self.cluster_id, answers_dialled_address=config.advertised_listeners is None
        )
        yield from ProduceHandler(
            replicas=self._replicas,
            metadata=self._metadata,
            flusher=self._flusher,
            loop=self._loop,
        ).routes()
        yield from FetchHandler(
            replicas=self._replicas,
            metadata=self._metadata,
            sessions=FetchSessions(
                max_slots=config.max_incremental_fetch_session_cache_slots,
                eviction_seconds=SESSION_IDLE_SECONDS,
                clock=self._clock,
                random=self._random,
            ),
            max_bytes=config.fetch_max_bytes,
            loop=self._loop,
        ).routes()
        yield from OffsetsHandler(
            replicas=self._replicas, live_brokers=lambda: list(self._metadata.view.brokers)
        ).routes()
        yield from MetadataHandler(
            metadata=self._metadata,
            identity=identity,
            create_missing=auto_topics.create_missing,
            max_partitions_described=config.max_request_partition_size_limit,
        ).routes()
        yield from TopicsHandler(
            controller=self._controller, configs=self._configs, metadata=self._metadata
        ).routes()
        yield from ConfigsHandler(
            configs=self._configs,
            metadata=self._metadata,
            store=self._store,
            broker_id=self.id,
        ).routes()
        yield from LogDirsHandler(logs=self._logs, files=self._files).routes()
        ids = ProducerIds(lambda: next_block(self._store, self.id))
        yield from ProducerIdsHandler(ids=ids).routes()
        yield from self._groups.routes(identity, auto_topics.ensure)

    async def _create_topic(self, new: NewTopic) -> object:
        racks = {broker.id: broker.rack for broker in self._metadata.view.brokers.values()}
        return await create_topic(
            self._store,
            new,
            topic_id=random_id(),
            racks=racks,
            rules=self._rules,
            random=self._random,
        )

    # Background -----------------------------------------------------------------------------

    def _follow_configs(self) -> None:
        self._configs.listen(
            broker=self._server.network.apply,
            topic=self._use_topic_config,
            topic_defaults=self._use_topic_defaults,
        )
        self._tasks.append(self._loop.create_task(self._configs.run()))

    def _use_topic_config(self, topic: str, config: LogConfig) -> None:
        for log in self._logs:
            if log.topic_partition.topic == topic:
                log.use_config(config)

    def _use_topic_defaults(self) -> None:
        for log in self._logs:
            log.use_config(self._configs.log_config(log.topic_partition.topic))

    def _start_chores(self) -> None:
        maintenance = Maintenance(
            logs=self._logs,
            configs=self._configs,
            flusher=self._flusher,
            clock=self._clock,
            threads=self._threads,
        )
        cleaner = Cleaner(
            logs=self._logs,
            configs=self._configs,
            files=self._files,
            clock=self._clock,
            threads=self._threads,
        )
        maintenance.start()
        cleaner.start()
        self._undo += [maintenance.stop, cleaner.stop]
        self._groups.start()
        self._undo.append(self._groups.close)

    def _directory_failed(self, directory: LogDirectory) -> None:
        """From any thread that met the failure."""
        self._loop.call_soon_threadsafe(self._leave_directory, directory)

    def _leave_directory(self, directory: LogDirectory) -> None:
        self._replicas.fail(list(directory.logs))
        if not self._logs.online:
            self._on_fatal("no log directory is left")

    # Stop -----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answer what has begun, make everything durable, leave."""
        await self._undo_all()

    async def _undo_all(self) -> None:
        """Undo the steps of the start, last one first; a failure does not stop the rest."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._undo:
            undo = self._undo.pop()
            try:
                done = undo()
                if asyncio.iscoroutine(done):
                    await done
            except Exception:
                _log.exception("A step of the stop failed: %s", undo)
        self._threads.shutdown(wait=False)


def _known(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
