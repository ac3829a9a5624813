"""The composition root: one broker, put together from its configuration.

Several brokers may live in one process, each with its own configuration, clock and files; what
belongs to the process as a whole (signals, the event loop, garbage collection) is in `process`.

Order of a start: the directories are locked; the metadata store is opened and says who we are;
logs are loaded; listeners are bound, so that their ports are known; the broker registers; the
controller tells it what to host; clients are let in. A stop goes the other way round. In a cluster
clients are let in as soon as the broker is registered: the controller comes in by the same door.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Final

from odradek.broker.adoption import adopt_topics
from odradek.broker.chores import Chores
from odradek.broker.client_routes import ClientServices, client_routes
from odradek.broker.config import BrokerConfig
from odradek.broker.control_plane import Courier, controller_settings
from odradek.broker.coordinator.internal_topics import internal_settings
from odradek.broker.coordinators import Coordinators
from odradek.broker.data_dirs import lock_all
from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.failures import CannotStart
from odradek.broker.fault_routes import FaultPoint
from odradek.broker.handlers.cluster import ClusterHandler
from odradek.broker.handlers.metadata import Identity
from odradek.broker.links import Links
from odradek.broker.membership import Membership, find_broker_id
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.metadata_stores import open_store
from odradek.broker.network.acceptor import MakeSocket
from odradek.broker.network.peer import Address
from odradek.broker.network.readiness import Readers
from odradek.broker.orders import Orders
from odradek.broker.replication_service import ReplicationService
from odradek.broker.routes import AnyRoute, table_of
from odradek.broker.server import Server
from odradek.broker.wanted_topics import WantedTopic, make_topics
from odradek.client.connection import ConnectionOptions
from odradek.controller import paths
from odradek.controller.controller import Controller
from odradek.controller.registration import BrokerIdTaken, cluster_id, prepare
from odradek.controller.store import StoreError
from odradek.controller.store_embedded import EmbeddedStore
from odradek.controller.topics import TopicRules
from odradek.controller.znodes import BrokerRegistration, encode_log_dir_event
from odradek.protocol.clock import Clock
from odradek.protocol.endpoints import Endpoint
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.settings import SettingsError
from odradek.protocol.types import TopicPartition, id_to_text, random_id
from odradek.replication.replicas import Replicas
from odradek.storage.directory import LogDirectory
from odradek.storage.files import Files
from odradek.storage.log_config import LogConfig
from odradek.storage.logs import Logs, LogsSettings
from odradek.storage.properties_files import LogDirectoryError, MetaProperties

_log = logging.getLogger(__name__)

READY_SECONDS: Final = 30.0
CLOSING_THREADS: Final = 16


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
        shared_store: EmbeddedStore | None = None,
        make_socket: MakeSocket = socket.socket,
        readers: Readers | None = None,
    ) -> None:
        """`on_fatal` hears why a broker cannot go on. Brokers that share a store are a cluster."""
        self._static = config
        self._loop = loop
        self._clock = clock
        self._files = files
        self._random = random
        self._on_fatal = on_fatal
        self._max_open_files = max_open_files
        self._shared_store = shared_store
        self._make_socket = make_socket
        self._readers = readers
        self._is_clustered = shared_store is not None or not config.is_single
        self.epoch = -1
        self._is_hosting = False
        self._threads = ThreadPoolExecutor(config.background_threads, "odradek")
        self._undo: list[Callable[[], object]] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> Address:
        return self._server.address

    @property
    def is_controller(self) -> bool:
        return self._controller.is_active

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
            self._static, broker_id=self.id, store=self.store, clock=self._clock
        )
        await self._configs.start()
        await self._load_logs()
        self._metadata = MetadataCache()
        self.replicas = await self._make_replicas()
        self._is_hosting = True
        self._coordinators = Coordinators(
            lambda: self._configs.broker,
            broker_id=self.id,
            store=self.store,
            replicas=self.replicas,
            metadata=self._metadata,
            links=self._links,
            clock=self._clock,
            loop=self._loop,
        )
        self._make_controller()
        self._server = Server(
            self._static,
            loop=self._loop,
            clock=self._clock,
            routes=self._routes(),
            make_socket=self._make_socket,
            features=self._coordinators.features,
            readers=self._readers,
        )
        self._server.open()
        self._undo.append(self._server.stop)
        await self._join_cluster()
        self._follow_configs()
        self._start_chores()
        await self.make_topics(topics)
        if not self._is_clustered:
            self._server.accept()

    async def make_topics(self, topics: Sequence[WantedTopic]) -> None:
        """Make those that are not there yet; asked of the controller's broker."""
        await make_topics(topics, table_of(self._server.routes), self._server.local_peer())

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
        return lock_all(self._logs.directories, self._files, self._undo)

    async def _open_store(self) -> None:
        self.store, close = await open_store(self._static, self._shared_store, self._clock)
        self._undo.append(close)
        await prepare(self.store)

    async def _find_identity(self, meta: MetaProperties) -> None:
        """The directories' word counts; a broker that was never started chooses."""
        self.id = await find_broker_id(
            self._static, meta, self.store, is_clustered=self._is_clustered
        )
        chosen = meta.cluster_id or id_to_text(random_id(self._random.randbytes))
        self.cluster_id = await cluster_id(self.store, lambda: chosen)

    async def _load_logs(self) -> None:
        self._logs.open(self.id, self.cluster_id)
        await self._loop.run_in_executor(self._threads, self._logs.load)
        self._undo.append(self._close_logs)
        if not self._logs.online:
            raise CannotStart("No log directory can be used.")

    async def _close_logs(self) -> None:
        close = partial(self._logs.close, self.epoch, threads=CLOSING_THREADS)
        await self._loop.run_in_executor(self._threads, close)

    async def _make_replicas(self) -> Replicas:
        """A broker alone takes over what lies in its directories; one of many has followers."""
        self._replication: ReplicationService | None = None
        self._links: Links | None = None
        if not self._is_clustered:
            settings_of = partial(internal_settings, self._static)
            await adopt_topics(self.store, self._logs, self.id, settings_of)
            return Replicas(
                logs=self._logs, local_id=self.id, clock=self._clock, is_known=self._is_known
            )
        self._links = Links(
            locate=self._locate,
            options=ConnectionOptions(
                client_id=f"broker-{self.id}",
                request_timeout_s=self._static.replica_socket_timeout_ms / 1000,
            ),
        )
        self._undo.append(self._links.close)
        self._replication = ReplicationService(
            lambda: self._configs.broker,
            broker_id=self.id,
            metadata=self._metadata,
            links=self._links,
            clock=self._clock,
        )
        self._undo.append(self._replication.close)
        return Replicas(
            logs=self._logs,
            local_id=self.id,
            clock=self._clock,
            is_known=self._is_known,
            rules=self._replication.rules,
            wants_isr_change=self._replication.propose,
        )

    def _locate(self, broker_id: int) -> Endpoint | None:
        listener = self._static.listener_endpoints.inter_broker
        return self._metadata.view.endpoint(broker_id, listener)

    def _is_known(self, where: TopicPartition) -> bool:
        """Until the controller has told, nobody here can say that something is not."""
        view = self._metadata.view
        return not view.is_told or view.partition(where) is not None

    # The cluster ----------------------------------------------------------------------------

    def _make_controller(self) -> None:
        config = self._static
        self._rules = TopicRules(
            default_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            check_config=self._check_topic_config,
        )
        self._orders = Orders(
            replicas=self.replicas,
            metadata=self._metadata,
            configs=self._configs,
            store=self.store,
        )
        courier = Courier(config, broker_id=self.id, orders=self._orders, links=self._links)
        self._controller = Controller(
            store=self.store,
            settings=controller_settings(config, self.id),
            rules=self._rules,
            send=courier.send,
            clock=self._clock,
            random=self._random,
            new_id=partial(random_id, self._random.randbytes),
        )

    def _check_topic_config(self, texts: Mapping[str, str]) -> None:
        try:
            self._configs.broker.log_defaults.checked(texts)
        except SettingsError as error:
            raise KafkaError(Errors.INVALID_CONFIG, str(error)) from error

    async def _join_cluster(self) -> None:
        """Register, take part in the election, wait until the controller has told us all."""
        # Nodes of brokers that were killed, be it ours or the controller's, outlive them so long.
        patience = self._static.zookeeper_session_timeout_ms / 1000 * 2
        membership = Membership(
            self.store,
            broker_id=self.id,
            node=self._registration_node,
            patience_seconds=patience,
            joined=self._has_joined,
        )
        if self._replication is not None:
            self._replication.start(self.replicas, self._controller)
        await membership.join()
        if self._is_clustered:
            # Not sooner: what the controller still sends to our last life is not for this one.
            self._server.accept()
        # Whoever is controller next must not count on a broker that is on its way out.
        self._undo += [self._controller.close, membership.leave]
        self._controller.start()
        self._tasks.append(self._loop.create_task(self._watch_controller()))
        try:
            told = self._orders.until_told(self.id)
            await asyncio.wait_for(told, max(READY_SECONDS, patience))
        except TimeoutError:
            raise CannotStart("No controller told this broker what to host in time.") from None

    def _registration_node(self) -> BrokerRegistration:
        advertised = self._static.listener_endpoints.advertised_at(
            socket.gethostname(), self._server.network.ports
        )
        return BrokerRegistration(advertised, self._clock.now_ms(), self._static.broker_rack)

    def _has_joined(self, epoch: int) -> None:
        self.epoch = epoch
        self.replicas.broker_epoch = epoch

    async def _watch_controller(self) -> None:
        """A store that failed cannot be told from one that lost something: stop."""
        try:
            await self._controller.wait()
        except StoreError as error:
            self._on_fatal(f"the metadata store failed: {error}")

    # Clients --------------------------------------------------------------------------------

    def _routes(self) -> Iterator[AnyRoute]:
        self._chores = Chores(
            self._configs,
            logs=self._logs,
            replicas=self.replicas,
            files=self._files,
            clock=self._clock,
            threads=self._threads,
        )
        services = ClientServices(
            config=self._static,
            identity=Identity(
                self.id,
                self.cluster_id,
                answers_dialled_address=(
                    not self._is_clustered and self._static.advertised_listeners is None
                ),
            ),
            replicas=self.replicas,
            metadata=self._metadata,
            configs=self._configs,
            controller=self._controller,
            rules=self._rules,
            store=self.store,
            logs=self._logs,
            coordinators=self._coordinators,
            flusher=self._chores.flusher,
            moves=self._chores.moves,
            files=self._files,
            clock=self._clock,
            random=self._random,
            loop=self._loop,
        )
        yield from client_routes(services)
        if self._is_clustered:
            yield from ClusterHandler(orders=self._orders, controller=self._controller).routes()

    def fault_point(self) -> FaultPoint:
        """Where faults are let in; until one is asked for, requests pass nothing of the kind."""
        return FaultPoint(self._server, self._metadata)

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
        self._chores.start()
        self._coordinators.start()
        self._undo += [self._chores.stop, self._coordinators.close]

    def _directory_failed(self, directory: LogDirectory) -> None:
        self._loop.call_soon_threadsafe(self._leave_directory, directory)

    def _leave_directory(self, directory: LogDirectory) -> None:
        if not self._is_hosting:
            return  # whoever loads the logs sees it
        self.replicas.fail(list(directory.logs))
        if not self._logs.online:
            self._on_fatal("no log directory is left")
        elif self._is_clustered:
            self._tasks.append(self._loop.create_task(self._tell_of_failed_directory()))

    async def _tell_of_failed_directory(self) -> None:
        """The controller then asks which replicas still work, and elects others."""
        try:
            await self.store.create(
                paths.LOG_DIR_EVENT_PREFIX, encode_log_dir_event(self.id), sequential=True
            )
        except StoreError as error:
            _log.error("The controller could not be told of the failed directory: %s", error)

    # Stop -----------------------------------------------------------------------------------

    async def stop(self, *, hand_over: bool = True, is_clean: bool = True) -> None:
        """Hand over, answer what has begun, make everything durable, leave. Unless it is clean:
        then connections break, and the logs are left as by a process that was killed."""
        if not is_clean:
            self._undo.remove(self._close_logs)
            await self._server.stop(drain_seconds=0)
        if self._replication is not None and hand_over:
            await self._replication.hand_over()
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
