"""The brokers that the suites are pointed at: Odradek, or Apache Kafka, with the same settings.

P1 is one broker, P3 three brokers in three racks on a real ZooKeeper. `HOST:PORT` in place of a
name is a cluster that somebody else runs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.parts import KAFKA_ON_KRAFT
from tests.support.cluster_processes import ALARM_LINES, ALARMS
from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker
from tests.support.processes import Process
from tests.support.zookeeper import ZooKeeper

Settings = Mapping[str, object]

ANY: Settings = {
    "auto.create.topics.enable": "true",
    "group.min.session.timeout.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
# Only where ACLs are: with an authorizer that lets everybody in, the tests of ACLs can run too.
AUTHORIZER: Settings = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@dataclass(frozen=True, slots=True)
class Profile:
    brokers: int
    settings: Settings


PROFILES = {
    "P1": Profile(
        1,
        {
            **ANY,
            "num.partitions": 2,
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        },
    ),
    "P3": Profile(
        3,
        {
            **ANY,
            "num.partitions": 4,
            "default.replication.factor": 3,
            "offsets.topic.replication.factor": 3,
            "transaction.state.log.replication.factor": 3,
            "transaction.state.log.min.isr": 2,
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where clients begin, and the processes behind it where we started them."""

    seeds: Sequence[str]
    processes: Sequence[Process] = ()

    @property
    def bootstrap(self) -> str:
        return ",".join(self.seeds)

    def alarms(self) -> list[str]:
        """Whatever brokers said that no client may bring them to say."""
        return [
            "\n".join(output[number : number + ALARM_LINES])
            for output in (process.output for process in self.processes)
            for number, line in enumerate(output)
            if any(alarm in line for alarm in ALARMS)
        ]

    def ended(self) -> list[str]:
        return [process.name for process in self.processes if not process.is_running]


Starter = Callable[[ExitStack, Profile, Path], Sequence[OdradekBroker] | Sequence[KafkaBroker]]


@contextmanager
def cluster(on: str, profile: Profile, folder: Path, extra: Settings) -> Iterator[Cluster]:
    if ":" in on:
        yield Cluster(on.split(","))
        return
    starters: Mapping[str, Starter] = {
        "odradek": _odradek,
        "kafka": _kafka,
        "kafka4": _kafka_on_kraft,
    }
    with ExitStack() as stack:
        brokers = starters[on](
            stack, Profile(profile.brokers, {**profile.settings, **extra}), folder
        )
        processes = [broker.process for broker in brokers if broker.process is not None]
        # Only ours are watched: Kafka may log what it likes.
        yield Cluster(
            [broker.bootstrap for broker in brokers], processes if on == "odradek" else ()
        )


def _odradek(stack: ExitStack, profile: Profile, folder: Path) -> Sequence[OdradekBroker]:
    where: dict[str, object] = {}
    if profile.brokers > 1:
        zookeeper = stack.enter_context(ZooKeeper(folder / "zookeeper"))
        where = {"zookeeper.connect": f"{zookeeper.connect}/odradek"}
    return [
        stack.enter_context(
            OdradekBroker(
                folder / f"broker-{number}",
                overrides={**profile.settings, **where, **_place(number)},
            )
        )
        for number in range(profile.brokers)
    ]


def _kafka(stack: ExitStack, profile: Profile, folder: Path) -> Sequence[KafkaBroker]:
    zookeeper = stack.enter_context(ZooKeeper(folder / "zookeeper"))
    return [
        stack.enter_context(
            KafkaBroker(
                folder / f"broker-{number}",
                zookeeper=zookeeper,
                broker_id=number,
                overrides={**profile.settings, **AUTHORIZER, **_place(number)},
            )
        )
        for number in range(profile.brokers)
    ]


def _kafka_on_kraft(stack: ExitStack, profile: Profile, folder: Path) -> Sequence[KafkaBroker]:
    if profile.brokers > 1:
        raise ValueError("Kafka 4 is there as one broker alone")
    broker = KafkaBroker(folder / "broker", version=KAFKA_ON_KRAFT, overrides=profile.settings)
    return [stack.enter_context(broker)]


def _place(number: int) -> Settings:
    return {"broker.id": number, "broker.rack": f"RACK{number + 1}"}
