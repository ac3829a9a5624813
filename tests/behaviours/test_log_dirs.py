"""Replicas that move between the log directories of a broker (KIP-113)."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)

from tests.behaviours.asking import Asker, batch
from tests.support.kafka import KafkaBroker
from tests.support.network import HOST
from tests.support.odradek import PROGRAM
from tests.support.processes import Process
from tests.support.zookeeper import ZooKeeper

BROKER, SET = 4, 0
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
RECORDS, RECORD_BYTES = 40, 200_000
SECONDS = 60.0


class Place(NamedTuple):
    """Where a replica is, as DescribeLogDirs tells it."""

    path: str
    is_future: bool


class Stage:
    """A broker with two log directories and a topic of its own."""

    def __init__(self, asker: Asker, directories: tuple[str, str], topic: str) -> None:
        self.asker = asker
        self.directories = directories
        self.topic = topic

    def alter(self, path: str, *, topic: str | None = None, partition: int = 0) -> int:
        moved = AlterReplicaLogDirTopic(name=topic or self.topic, partitions=[partition])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[moved])])
        (result,) = self.asker.ask(request, 2).results
        (answer,) = result.partitions
        assert (result.topic_name, answer.partition_index) == (moved.name, partition)
        return answer.error_code

    def places(self) -> dict[Place, int]:
        """All replicas of the topic's partition, and how far each lags."""
        wanted = DescribableLogDirTopic(topic=self.topic, partitions=[0])
        answer = self.asker.ask(DescribeLogDirsRequest(topics=[wanted]), 4)
        return {
            Place(result.log_dir, partition.is_future_key): partition.offset_lag
            for result in answer.results
            for topic in result.topics
            for partition in topic.partitions
        }

    @property
    def home(self) -> str:
        (path,) = [place.path for place in self.places() if not place.is_future]
        return path

    @property
    def elsewhere(self) -> str:
        (path,) = set(self.directories) - {self.home}
        return path

    def wait_for(self, *places: Place) -> None:
        deadline = time.monotonic() + SECONDS
        while self.places().keys() != set(places):
            assert time.monotonic() < deadline, self.places()
            time.sleep(0.02)

    def throttle(self, bytes_per_second: int) -> None:
        (broker,) = self.asker.metadata([]).brokers
        config = IncrementalAlterConfigsAlterableConfig(
            name=THROTTLE, config_operation=SET, value=str(bytes_per_second)
        )
        resource = IncrementalAlterConfigsAlterConfigsResource(
            resource_type=BROKER, resource_name=str(broker.node_id), configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        assert self.asker.ask(request, 1).responses[0].error_code == 0

    def fill(self) -> None:
        for number in range(RECORDS):
            value = b"%d" % number
            answer = self.asker.produce(self.topic, batch(value.ljust(RECORD_BYTES)))
            assert (answer.error_code, answer.base_offset) == (0, number)

    def check_records(self) -> None:
        for number in range(RECORDS):
            found = self.asker.fetch(self.topic, number)
            assert found.error_code == 0
            assert (b"%d " % number) in bytes(found.records)[:200]


@pytest.fixture(scope="module")
def two_directories(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, tuple[str, str]]]:
    folder = tmp_path_factory.mktemp("directories")
    directories = (str(folder / "one"), str(folder / "two"))
    settings = {"log.dirs": ",".join(directories)}
    if request.config.getoption("--on") == "kafka":
        with (
            ZooKeeper(folder / "zookeeper") as zookeeper,
            KafkaBroker(folder / "broker", zookeeper=zookeeper, overrides=settings) as broker,
        ):
            yield broker.port, directories
        return
    command = [
        PROGRAM,
        "serve",
        "--host",
        HOST,
        "--port",
        "0",
        f"-olog.dirs={settings['log.dirs']}",
    ]
    with Process(command, name="odradek") as served:
        ready = served.wait_for_line("^Odradek ready on ")
        yield int(ready.rpartition(":")[2]), directories


@pytest.fixture
def stage(two_directories: tuple[int, tuple[str, str]], name: str) -> Iterator[Stage]:
    port, directories = two_directories
    asker = Asker(port)
    assert asker.create(name).error_code == 0
    yield Stage(asker, directories, name)
    asker.close()


def test_a_replica_moves_to_another_directory_with_all_its_records(stage: Stage) -> None:
    stage.fill()
    old, new = stage.home, stage.elsewhere
    assert stage.alter(new) == 0
    stage.wait_for(Place(new, is_future=False))
    stage.check_records()
    answer = stage.asker.produce(stage.topic, batch(b"more"))
    assert (answer.error_code, answer.base_offset) == (0, RECORDS)
    assert (Path(new) / f"{stage.topic}-0").is_dir()
    assert not (Path(old) / f"{stage.topic}-0").exists()


def test_a_move_under_way_is_told_and_can_be_ended(stage: Stage) -> None:
    stage.fill()
    home, elsewhere = stage.home, stage.elsewhere
    stage.throttle(1)
    try:
        assert stage.alter(elsewhere) == 0
        stage.wait_for(Place(home, is_future=False), Place(elsewhere, is_future=True))
        assert 0 < stage.places()[Place(elsewhere, is_future=True)] <= RECORDS
        assert stage.places()[Place(home, is_future=False)] == 0
        assert stage.alter(elsewhere) == 0
        assert stage.alter(home) == 0
        stage.wait_for(Place(home, is_future=False))
        stage.check_records()
    finally:
        stage.throttle(2**62)


def test_a_move_to_where_the_replica_is_changes_nothing(stage: Stage) -> None:
    home = stage.home
    assert stage.alter(home) == 0
    assert stage.places() == {Place(home, is_future=False): 0}


def test_an_unknown_directory_is_refused(stage: Stage) -> None:
    assert stage.alter("/no/such/directory") == Errors.LOG_DIR_NOT_FOUND


def test_an_unknown_partition_is_refused(stage: Stage) -> None:
    assert stage.alter(stage.home, topic="nobody.knows") == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.alter(stage.home, partition=9) == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_request_without_partitions_is_answered(stage: Stage) -> None:
    for version in range(3):
        assert stage.asker.ask(AlterReplicaLogDirsRequest(dirs=[]), version).results == []
