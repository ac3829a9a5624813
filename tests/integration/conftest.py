"""Fixtures of the tests on real servers: a cluster to talk to, and names of one's own on it."""

from collections.abc import Callable, Iterator
from itertools import count
from uuid import uuid4

import pytest

from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker

# Alone and for tests: small internal topics, groups that do not wait for latecomers, and retention
# that looks all the time: a test whose records are too old for their topic fails at once, and not
# only when it happens to run while a broker looks.
SMALL = {
    "log.initial.task.delay.ms": 0,
    "log.retention.check.interval.ms": 50,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
}

_numbers = count(1)


@pytest.fixture(scope="session")
def odradek(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    """A broker of ours as a process, shared: let each test use topics and groups of its own."""
    with OdradekBroker(tmp_path_factory.mktemp("odradek"), overrides=SMALL) as broker:
        yield broker


@pytest.fixture(params=["kafka_on_zookeeper", "kafka_on_kraft", "odradek"])
def server(request: pytest.FixtureRequest) -> KafkaBroker | OdradekBroker:
    """Each broker the client must get along with."""
    broker: KafkaBroker | OdradekBroker = request.getfixturevalue(request.param)
    return broker


@pytest.fixture
def bootstrap(server: KafkaBroker | OdradekBroker) -> str:
    return server.bootstrap


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Names that no other test uses: `fresh("topic")`."""
    run = uuid4().hex[:8]
    return lambda kind: f"{kind}-{run}-{next(_numbers)}"


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("real servers"))
