"""What every test may ask for: parts by mark, real servers by fixture, logs when it fails.

The servers are real Java processes, made once for each test session. Under xdist every worker has
a session of its own, so all tests that use a real server form one group (`--dist loadgroup`
keeps a group on one worker) and no server is started twice.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER
from tests.support.kafka import KafkaBroker
from tests.support.parts import require
from tests.support.processes import Process
from tests.support.zookeeper import ZooKeeper

REAL_SERVERS = {"zookeeper", "kafka_on_zookeeper", "kafka_on_kraft", "each_kafka"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--on",
        default="odradek",
        help="what tests/clients and tests/behaviours are held against: odradek, kafka (3.9), "
        "kafka4, or for clients a HOST:PORT",
    )
    parser.addoption(
        "--usage",
        action="store_true",
        help="note which APIs the clients use, in tests/clients/usage.json",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The same examples in every run, however slow the machine: a test that fails once in a while
    # says nothing. Longer searches run with ODRADEK_THOROUGH and seeds of their own.
    settings.register_profile(
        "odradek",
        deadline=None,
        derandomize=True,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("odradek")
    config.addinivalue_line("markers", "needs(*parts): skip, or on CI fail, without these parts")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if REAL_SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("real servers"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    Process.forget_ended()
    for mark in item.iter_markers("needs"):
        require(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the last words of the processes that ran in the test beside its failure."""
    report = yield
    if report.failed:
        for process in Process.known:
            report.sections.append((f"output of {process.name}", process.tail()))
    return report


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A real ZooKeeper, shared: let each test use a path of its own below `connect`."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_on_zookeeper(
    zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """A real Apache Kafka 3.9, shared: let each test use topics and groups of its own."""
    connect = f"{zookeeper.connect}/kafka"
    data_dir = tmp_path_factory.mktemp("kafka-on-zookeeper")
    with KafkaBroker(data_dir, version=KAFKA_ON_ZOOKEEPER, zookeeper=connect) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_on_kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A real Apache Kafka 4, shared: let each test use topics and groups of its own."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka-on-kraft"), version=KAFKA_ON_KRAFT) as broker:
        yield broker


@pytest.fixture(params=["kafka_on_zookeeper", "kafka_on_kraft"])
def each_kafka(request: pytest.FixtureRequest) -> KafkaBroker:
    """Each real Kafka in turn: what a test says of this one must hold for all of them."""
    broker: KafkaBroker = request.getfixturevalue(request.param)
    return broker
