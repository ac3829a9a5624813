"""One Spark for all tests of this folder, and one broker process; each test has its own topics."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.parts import jar_folders
from tests.spark.room import Room
from tests.support.odradek import OdradekBroker
from tests.support.parts import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 900

_numbers = count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One Spark at a time, also under xdist; and time enough for it on a busy machine."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))


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
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
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
