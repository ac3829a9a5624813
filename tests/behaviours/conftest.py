"""What clients see of a broker, asked in plain requests.

pytest tests/behaviours                the behaviours of `odradek serve`
pytest tests/behaviours --on kafka     the same tests on Apache Kafka 3.9: they must pass there
pytest tests/behaviours --on kafka4 -m kafka_4
                                       those of what came with Kafka 4, on Apache Kafka 4
"""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.parts import KAFKA_ON_KRAFT
from tests.behaviours.asking import Asker
from tests.support.kafka import KafkaBroker
from tests.support.processes import Process
from tests.support.zookeeper import ZooKeeper

ODRADEK = Path(sys.executable).with_name("odradek")

_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "odradek_only: real Kafka 3.9 on ZooKeeper does not do this")
    config.addinivalue_line("markers", "kafka_4: Kafka does this from version 4 on")


def pytest_runtest_setup(item: pytest.Item) -> None:
    is_beyond = item.get_closest_marker("odradek_only") or item.get_closest_marker("kafka_4")
    if is_beyond and item.config.getoption("--on") == "kafka":
        pytest.skip("Apache Kafka 3.9 on ZooKeeper does not do this")


@pytest.fixture(scope="session")
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where the broker under test listens on the loopback."""
    if request.config.getoption("--on") == "kafka":
        folder = tmp_path_factory.mktemp("kafka")
        with (
            ZooKeeper(folder / "zookeeper") as zookeeper,
            KafkaBroker(folder / "broker", zookeeper=zookeeper) as broker,
        ):
            yield broker.port
        return
    if request.config.getoption("--on") == "kafka4":
        with KafkaBroker(tmp_path_factory.mktemp("kafka"), version=KAFKA_ON_KRAFT) as broker:
            yield broker.port
        return
    with Process([ODRADEK, "serve", "--port", "0", "--ephemeral"], name="odradek") as broker:
        ready = broker.wait_for_line("^Odradek ready on ")
        yield int(ready.rpartition(":")[2])
        assert broker.is_running, "the broker must outlive everything it was asked"
        assert not [line for line in broker.output if "Traceback" in line]


@pytest.fixture
def asker(port: int) -> Iterator[Asker]:
    made = Asker(port)
    yield made
    made.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    return f"{request.node.originalname[5:60]}.{os.getpid()}.{next(_numbers)}"


@pytest.fixture
def topic(asker: Asker, name: str) -> str:
    """A fresh topic of one partition."""
    assert asker.create(name).error_code == 0
    return name
