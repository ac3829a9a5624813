"""One Spark for the tests of this folder, and one broker process; each test has its own topics.

Side by side (`--dist loadgroup`) the tests on the shared Spark stay together on one worker, those
on a cluster are with the other tests on real servers, and tests of jobs, which are processes with
a Spark of their own, run wherever there is room.
"""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.parts import jar_folders
from tests.spark.driver import SHORT_LIVED
from tests.spark.room import Room
from tests.support.odradek import OdradekBroker
from tests.support.parts import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 900

_numbers = count()


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One group for the shared Spark; and time enough for all on a busy machine."""
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures and "cluster" not in fixtures:
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have found beside that all is well."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{report.nodeid}: {name}: {value}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A task may fail twice before its query does. With the official connector's jars."""
    require("spark", "spark-connector")
    from odradek.spark_jobs.session import JARS_VARIABLE, open_session

    os.environ[JARS_VARIABLE] = str(jar_folders()["spark-connector"])
    session = open_session(
        "tests",
        master="local[2,3]",
        needs_connector=True,
        settings={
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            **SHORT_LIVED,
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    # Records of years ago are written here, and must stay.
    kept = {"log.retention.ms": -1}
    with OdradekBroker(tmp_path_factory.mktemp("broker"), overrides=kept) as made:
        yield made


@pytest.fixture
def room(spark: "SparkSession", broker: OdradekBroker, tmp_path: Path) -> Room:
    return Room(spark, broker.bootstrap, tmp_path, next(_numbers))


@pytest.fixture(params=["kafka", "odradek"])
def format(request: pytest.FixtureRequest) -> str:
    """The official connector and ours: what a test says must hold for both."""
    name: str = request.param
    return name
