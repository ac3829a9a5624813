"""The machines of a simulation and the brokers on them: real brokers, whole, on virtual parts.

A machine has an address and a disk. Its broker can be stopped cleanly, killed (the disk keeps what
was written), frozen, or lose its power (the disk keeps what was synced, and perhaps some more).
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, cast

from odradek.broker.broker import Broker
from odradek.broker.config import BrokerConfig
from odradek.broker.failures import CannotStart
from odradek.controller import paths
from odradek.controller.store import StoreError
from odradek.controller.store_embedded import EmbeddedStore
from odradek.controller.znodes import PartitionState, TopicAssignment
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition
from odradek.storage.log import Log
from odradek.storage.memory_files import MemoryFiles

from tests.sim.loop import Life, SimLoop
from tests.sim.network import Network
from tests.sim.store import SimStore

PORT: Final = 9092
EPOCH_MS: Final = 1_700_000_000_000
RESTART_SECONDS: Final = 0.5

# Short, so that a story of some seconds has room for everything that takes its time.
SETTINGS: Final = {
    "log.dirs": "/data",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "400",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "num.recovery.threads.per.data.dir": "1",
    "num.network.threads": "1",
    "auto.create.topics.enable": "false",
    "log.index.size.max.bytes": "4096",
    "log.segment.bytes": "16384",
    "unclean.leader.election.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
    "leader.imbalance.check.interval.seconds": "5",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class SkewedClock:
    """A machine's clock: its wall time is off by some, its seconds are everyone's."""

    def __init__(self, loop: SimLoop, skew_ms: int) -> None:
        self._loop = loop
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self._skew_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()


class Machine:
    def __init__(self, world: "World", broker_id: int) -> None:
        self.id = broker_id
        self.address = f"10.0.0.{broker_id}"
        self._world = world
        self._clock = SkewedClock(world.loop, world.random.randint(-5000, 5000))
        self.files = MemoryFiles(self._clock.now_ms)
        self._config = BrokerConfig.of(
            {
                **SETTINGS,
                "broker.id": str(broker_id),
                "listeners": f"PLAINTEXT://{self.address}:{PORT}",
                "zookeeper.session.timeout.ms": str(int(world.store.session_seconds * 1000)),
            }
        )
        self.life: Life | None = None
        self.broker: Broker | None = None
        self._lives = 0
        self.is_ready = False
        self.is_disk_broken = False

    @property
    def is_running(self) -> bool:
        return self.life is not None

    @property
    def is_frozen(self) -> bool:
        return self.life is not None and self.life.is_frozen

    def start(self) -> None:
        assert self.life is None, f"{self.life} runs"
        self._lives += 1
        self.life = Life(f"b{self.id}/{self._lives}", self.address)
        self._world.network.host(self.address).is_up = True
        self._world.note(f"start {self.life}")
        self._world.lives[self.life] = self
        self._world.loop.spawn(self.life, self._run(self.life))

    async def _run(self, life: Life) -> None:
        """The process: a broker that is started again, like any service, when it cannot start."""
        while True:
            broker = Broker(
                self._config,
                loop=self._world.loop,
                clock=self._clock,
                files=self.files,
                random=Random(self._world.random.random()),
                on_fatal=self._gave_up,
                shared_store=cast(EmbeddedStore, self._world.store),
                make_socket=self._world.network.make_socket,
            )
            self.broker = broker
            try:
                await broker.start()
            except (CannotStart, StoreError) as error:
                self._world.note(f"{life} cannot start: {error}")
                await asyncio.sleep(RESTART_SECONDS)
            else:
                self.is_ready = True
                self._world.note(f"{life} is ready")
                return

    def _gave_up(self, reason: str) -> None:
        """The process ends at once; only a broken disk is a reason."""
        if self.is_disk_broken and self.life is not None:
            self.kill()
        else:
            self._world.fail(f"b{self.id} gave up: {reason}")

    def break_disk(self, operation: str, *, on_call: int, error: int) -> None:
        """From so many calls on, an operation fails."""
        self._world.note(f"break the disk of b{self.id}: {operation} fails from call {on_call} on")
        self.is_disk_broken = True
        self.files.fail(operation, on_call=on_call, error=error, sticky=True)

    def repair_disk(self) -> None:
        self.is_disk_broken = False
        self.files.heal()

    def kill(self) -> None:
        self._end(is_power_cut=False)
        self.files.kill()

    def cut_power(self) -> None:
        self._end(is_power_cut=True)
        self._world.network.host(self.address).is_up = False
        self.files.crash(self._world.random)

    def _end(self, *, is_power_cut: bool) -> None:
        assert self.life is not None
        self._world.note(f"{'cut power of' if is_power_cut else 'kill'} {self.life}")
        self.life.is_dead = True
        self.life.held.clear()
        self._world.network.process_died(self.life, is_power_cut=is_power_cut)
        self._forget()

    def _forget(self) -> None:
        self.life = None
        self.broker = None
        self.is_ready = False

    def stop(self) -> None:
        """Begin a clean stop; the machine is not running when it is done."""
        assert self.life is not None
        self.is_ready = False
        self._world.note(f"stop {self.life}")
        self._world.loop.spawn(self.life, self._stop(self.life, self.broker))

    async def _stop(self, life: Life, broker: Broker | None) -> None:
        if broker is not None:
            await broker.stop()
        if self.life is life:
            self._world.note(f"{life} has stopped")
            life.is_dead = True
            self._world.network.process_died(life, is_power_cut=False)
            self.files.kill()
            self._forget()

    def freeze(self) -> None:
        assert self.life is not None
        self._world.note(f"freeze {self.life}")
        self.life.is_frozen = True

    def thaw(self) -> None:
        assert self.life is not None
        self._world.note(f"thaw {self.life}")
        self._world.loop.thaw(self.life)

    def has_log(self, log: Log) -> bool:
        """Whether the log is still kept, with a role or without."""
        return self.broker is not None and self.broker._logs.get(log.topic_partition) is log

    def partitions(self) -> list[Partition]:
        replicas = getattr(self.broker, "replicas", None)
        return [] if replicas is None else list(replicas)


class World:
    """Everything of one run. `note` writes the story down; `fail` ends it."""

    def __init__(self, seed: int, brokers: int, *, trace: Callable[[str], None] | None) -> None:
        self.random = Random(seed)
        self._trace = trace
        self.loop = SimLoop(Random(self.random.random()))
        self.network = Network(self.loop, Random(self.random.random()))
        self.store = SimStore(
            self.network, SkewedClock(self.loop, 0), session_seconds=self.random.choice((2.0, 4.0))
        )
        self.lives: dict[Life, Machine] = {}
        self.failures: list[str] = []
        self.failed = self.loop.create_future()
        self.loop.on_failure = self.fail
        self.machines = {number: Machine(self, number) for number in range(1, brokers + 1)}

    def note(self, text: str) -> None:
        if self._trace is not None:
            self._trace(f"{self.loop.time():9.4f} {text}")

    def fail(self, reason: str) -> None:
        self.note(f"FAILED: {reason}")
        self.failures.append(f"at {self.loop.time():.3f} s: {reason}")
        if not self.failed.done():
            self.failed.set_result(None)

    # What is stored -------------------------------------------------------------------------

    def stored_topics(self) -> dict[str, TopicAssignment]:
        tree = self.store.tree
        return {
            name: TopicAssignment.decode(tree.node(paths.topic(name)).data)
            for name in tree.names(paths.TOPICS) or ()
        }

    def stored_state(self, where: TopicPartition) -> PartitionState | None:
        node = self.store.tree.find(paths.partition_state(where))
        return None if node is None else PartitionState.decode(node.data, node.version)

    def living_topics(self) -> dict[str, TopicAssignment]:
        """Those that are not being deleted: a replica of these is never counted on again."""
        going = self.store.tree.names(paths.DELETE_TOPICS) or ()
        return {name: topic for name, topic in self.stored_topics().items() if name not in going}

    def is_in_sync_anywhere(self, broker_id: int) -> bool:
        for topic, assignment in self.living_topics().items():
            for index in assignment.partitions:
                state = self.stored_state(TopicPartition(topic, index))
                if state is not None and broker_id in state.isr:
                    return True
        return False
