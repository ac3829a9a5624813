"""Fixtures for pytest; installed with Odradek, and idle in runs that use none of them.

    def test_orders(odradek_broker, kafka_topic, kafka_group):
        producer = Producer({"bootstrap.servers": odradek_broker.bootstrap_servers})

    odradek_broker    the broker of the run: one for all tests, under xdist for all workers
    kafka_topic       the name of a topic that only this test has
    kafka_group       the name of a group that only this test has
    kafka_faults      lets requests about this test's topics, groups and clients go wrong
    odradek_cluster   makes clusters for this test: odradek_cluster(3)

pytest loads this module in every run, so everything else is imported when a fixture is used.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from odradek.testing.cluster import Cluster
    from odradek.testing.shared_broker import Owner, OwnerService, SharedBroker, SharedFaults

_ADDRESS: Final = "odradek_address"
_KEY: Final = "odradek_key"
_LONGEST_NAME: Final = 80
_SERVICE: "Final[pytest.StashKey[OwnerService]]" = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka_topic(partitions=1, **settings): how the topic of the fixture kafka_topic is made; "
        "settings have underscores for dots",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist starts a worker: tell it where to ask for the broker."""
    from odradek.testing.shared_broker import OwnerService

    stash = node.config.stash
    if _SERVICE not in stash:
        stash[_SERVICE] = OwnerService()
    node.workerinput[_ADDRESS] = stash[_SERVICE].address
    node.workerinput[_KEY] = stash[_SERVICE].key.hex()


def pytest_unconfigure(config: pytest.Config) -> None:
    service = config.stash.get(_SERVICE, None)
    if service is not None:
        service.close()


@pytest.fixture(scope="session")
def _odradek_owner(request: pytest.FixtureRequest) -> "Iterator[Owner]":
    from odradek.testing.shared_broker import LocalOwner, RemoteOwner

    told: dict[str, str] = getattr(request.config, "workerinput", {})
    owner: Owner
    if _ADDRESS in told:
        owner = RemoteOwner(told[_ADDRESS], bytes.fromhex(told[_KEY]))
    else:
        owner = LocalOwner()
    yield owner
    owner.close()


@pytest.fixture(scope="session")
def odradek_broker(_odradek_owner: "Owner") -> "SharedBroker":
    """A running broker with `bootstrap_servers`, shared by all tests."""
    from odradek.testing.shared_broker import SharedBroker

    return SharedBroker(_odradek_owner)


@pytest.fixture(scope="session")
def _odradek_admin(odradek_broker: "SharedBroker") -> Iterator[Any]:
    from odradek.client.sync import SyncAdmin

    with SyncAdmin(bootstrap_servers=odradek_broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, _odradek_admin: Any) -> str:
    """The name of an empty topic that no other test uses."""
    from odradek.client.admin import NewTopic, raise_failures

    mark = request.node.get_closest_marker("kafka_topic")
    options = dict(mark.kwargs) if mark is not None else {}
    partitions = options.pop("partitions", 1)
    settings = {name.replace("_", "."): str(value) for name, value in options.items()}
    name = _own_name(request)
    new = NewTopic(name, partitions=partitions, configs=settings)
    raise_failures(_odradek_admin.run(lambda admin: admin.create_topics([new])))
    return name


@pytest.fixture
def kafka_group(request: pytest.FixtureRequest) -> str:
    """The name of a consumer group that no other test uses."""
    return _own_name(request)


@pytest.fixture
def kafka_faults(odradek_broker: "SharedBroker") -> "Iterator[SharedFaults]":
    """Faults at the shared broker, taken back at the end of the test."""
    faults = odradek_broker.faults()
    yield faults
    faults.clear()


@pytest.fixture
def odradek_cluster() -> "Iterator[Callable[..., Cluster]]":
    """Makes started clusters, which end with the test: `odradek_cluster(3, num_partitions=6)`."""
    from contextlib import ExitStack

    from odradek.testing.cluster import Cluster

    with ExitStack() as leaving:

        def make(brokers: int = 3, *args: Any, **settings: Any) -> Cluster:
            return leaving.enter_context(Cluster(brokers, *args, **settings))

        yield make


def _own_name(request: pytest.FixtureRequest) -> str:
    """Readable, legal for topics, and unlike all others of all runs."""
    from uuid import uuid4

    readable = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name)[:_LONGEST_NAME].strip("-")
    return f"{readable}-{uuid4().hex[:8]}"
