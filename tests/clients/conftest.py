"""One broker for the whole folder, one program for each client, topics of their own for all tests.

pytest tests/clients                the clients against `odradek serve`
pytest tests/clients --on kafka     the same tests against Apache Kafka 3.9: they must pass there
pytest tests/clients --on HOST:PORT the same tests against a broker that runs already
pytest tests/clients --usage        note in usage.json which versions of which APIs clients use
"""

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.driver import Client, Program
from tests.clients.roster import CODECS, ROSTER, Entry, clients_that
from tests.support.kafka import KafkaBroker
from tests.support.parts import require
from tests.support.processes import Process
from tests.support.tap import Tap
from tests.support.zookeeper import ZooKeeper

REFERENCE = "confluent-kafka"
ODRADEK = Path(sys.executable).with_name("odradek")
USAGE = Path(__file__).parent / "usage.json"

Announce = Callable[[str], None]

_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ability(*names): run for the clients that have them all")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "client" not in metafunc.fixturenames:
        return
    marks = metafunc.definition.iter_markers("ability")
    wanted = {ability for mark in marks for ability in mark.args}
    entries = clients_that(wanted)
    if metafunc.config.getoption("--on") == "kafka":
        entries = [entry for entry in entries if not entry.needs_kafka_4]
    assert entries, f"no client has all of {wanted}"
    if "codec" not in metafunc.fixturenames:
        names = [entry.name for entry in entries]
        metafunc.parametrize("client", entries, indirect=True, ids=names)
        return
    pairs = [(entry, codec) for entry in entries for codec in ("none", *CODECS) if entry.has(codec)]
    names = [f"{entry.name}-{codec}" for entry, codec in pairs]
    metafunc.parametrize(("client", "codec"), pairs, indirect=["client"], ids=names)


class Programs:
    """The driver programs that have been started, by client."""

    def __init__(self, bootstrap: str, announce: Announce) -> None:
        self._bootstrap = bootstrap
        self._announce = announce
        self._running: dict[str, Program] = {}

    def client(self, entry: Entry) -> Client:
        require(*entry.parts)
        program = self._running.get(entry.name)
        if program is None or not program.is_running:
            program = Program(entry.command, name=entry.name)
            self._running[entry.name] = program
        return Client(
            program,
            name=entry.name,
            bootstrap=self._bootstrap,
            settings=entry.settings,
            announce=self._announce,
        )

    def close(self) -> None:
        for program in self._running.values():
            program.close()


@contextmanager
def odradek(*options: str) -> Iterator[str]:
    command = [ODRADEK, "serve", "--port", "0", "--ephemeral", *options]
    with Process(command, name="odradek") as broker:
        yield broker.wait_for_line("^Odradek ready on ").split()[3]
        assert broker.is_running, "the broker must outlive everything it was asked"
        assert not [line for line in broker.output if "Traceback" in line]


@contextmanager
def kafka(folder: Path) -> Iterator[str]:
    with (
        ZooKeeper(folder / "zookeeper") as zookeeper,
        KafkaBroker(folder / "broker", zookeeper=zookeeper) as broker,
    ):
        yield broker.bootstrap


@contextmanager
def tapped_odradek(tap: Tap) -> Iterator[str]:
    """Clients know the tap for the broker; what passed is written down at the end."""
    with odradek("-o", f"advertised.listeners=PLAINTEXT://{tap.address}") as address:
        tap.open_to(address)
        yield tap.address
    USAGE.write_text(json.dumps(tap.usage(), indent=1) + "\n")


@pytest.fixture(scope="session")
def tap(request: pytest.FixtureRequest) -> Iterator[Tap | None]:
    if not request.config.getoption("--usage"):
        yield None
        return
    with Tap() as made:
        yield made


@pytest.fixture(scope="session")
def bootstrap(
    request: pytest.FixtureRequest, tap: Tap | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of the broker under test."""
    match request.config.getoption("--on"):
        case "odradek":
            with tapped_odradek(tap) if tap else odradek() as address:
                yield address
        case "kafka":
            with kafka(tmp_path_factory.mktemp("kafka")) as address:
                yield address
        case address:
            yield address


@pytest.fixture(scope="session")
def announce(tap: Tap | None) -> Announce:
    """Says whose the next connections are."""

    def say(client: str) -> None:
        if tap is not None:
            tap.client = client

    return say


@pytest.fixture(scope="session")
def programs(bootstrap: str, announce: Announce) -> Iterator[Programs]:
    started = Programs(bootstrap, announce)
    yield started
    started.close()


@pytest.fixture
def client(request: pytest.FixtureRequest, programs: Programs) -> Client:
    """The client under test: each one of the roster that has the abilities of the test."""
    return programs.client(request.param)


@pytest.fixture
def reference(programs: Programs) -> Client:
    """A client that prepares what the one under test reads, and reads what it writes."""
    (entry,) = (entry for entry in ROSTER if entry.name == REFERENCE)
    return programs.client(entry)


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    test = request.node.originalname.removeprefix("test_")[:60]
    return f"{test}.{os.getpid()}.{next(_numbers)}"


@pytest.fixture
def topic(reference: Client, new_name: str) -> str:
    """A fresh topic of one partition."""
    reference.create_topic(new_name)
    return new_name
