"""Where the official connector is looked for, and that our source registers by itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.driver import SMALL, Driver
from tests.spark.room import Room
from tests.support.network import free_port
from tests.support.parts import require

require("spark")

from odradek.spark_jobs.session import (  # noqa: E402
    CONNECTOR,
    JARS_VARIABLE,
    Jars,
    OnClassPath,
    Package,
    connector_settings,
    find_connector,
    named_jars,
)

JARS = (
    f"org/apache/spark/{CONNECTOR}/4.2.0/{CONNECTOR}-4.2.0.jar",
    "org/apache/spark/spark-token-provider-kafka-0-10_2.13/4.2.0/"
    "spark-token-provider-kafka-0-10_2.13-4.2.0.jar",
    "org/apache/kafka/kafka-clients/3.9.0/kafka-clients-3.9.0.jar",
    "org/apache/kafka/kafka-clients/3.10.1/kafka-clients-3.10.1.jar",
    "org/apache/commons/commons-pool2/2.12.1/commons-pool2-2.12.1.jar",
)


@pytest.fixture
def nothing(tmp_path: Path) -> dict[str, Path]:
    """A machine without any connector."""
    return {"spark_home": tmp_path / "spark", "home": tmp_path / "home"}


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_without_the_connector_spark_is_told_to_fetch_it(nothing):
    found = find_connector(version="4.2.0", **nothing)
    assert found == Package("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0")
    assert connector_settings(found) == {"spark.jars.packages": found.coordinates}


def test_a_connector_among_sparks_own_jars_needs_no_settings(nothing):
    touch(nothing["spark_home"] / "jars" / f"{CONNECTOR}-4.2.0.jar")
    assert find_connector(**nothing) == OnClassPath()
    assert connector_settings(OnClassPath()) == {}


def test_jars_that_the_user_names_come_before_caches(nothing, tmp_path):
    for jar in JARS:
        touch(nothing["home"] / ".m2/repository" / jar)
    mine = touch(tmp_path / "mine" / f"{CONNECTOR}-4.2.0.jar")
    assert find_connector([mine.parent], version="4.2.0", **nothing) == Jars((mine,))
    assert named_jars({"ODRADEK_SPARK_JARS": f"{mine}:{mine.parent}"}) == [mine, mine.parent]


def test_mavens_cache_is_used_when_it_has_the_right_version_of_all(nothing):
    made = [touch(nothing["home"] / ".m2/repository" / jar) for jar in JARS]
    found = find_connector(version="4.2.0", **nothing)
    # The newest client by number, not by letter.
    assert found == Jars((made[0], made[1], made[3], made[4]))
    assert isinstance(find_connector(version="4.3.0", **nothing), Package)


def test_where_nothing_can_be_fetched_a_job_says_which_jars_to_bring(tmp_path: Path):
    """No connector anywhere, and a repository that nobody serves."""
    nowhere = tmp_path / "ivy.xml"
    nowhere.write_text(
        f"""<ivysettings><settings defaultResolver="gone"/><resolvers>
        <ibiblio name="gone" m2compatible="true" root="http://127.0.0.1:{free_port()}/"/>
        </resolvers></ivysettings>"""
    )
    words = ["archive", "topic", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state")]
    ivy = ("-S", f"spark.jars.ivySettings={nowhere}", "-S", f"spark.jars.ivy={tmp_path / 'ivy'}")
    environment = {"HOME": str(tmp_path), JARS_VARIABLE: ""}
    with Driver(
        [*words, "--format", "kafka"], tmp_path / "log", (*SMALL, *ivy), environment
    ) as driver:
        said = driver.fail()
    last = said.splitlines()[-1]
    assert last.startswith("odradek: Spark could not fetch org.apache.spark:spark-sql-kafka-0-10")
    assert JARS_VARIABLE in last
    assert 'format("odradek")' in last


def test_the_source_registers_by_itself_where_it_is_installed(room: Room, tmp_path: Path):
    topic = room.topic()
    room.fill(topic, ["one-01", "two-02"])
    root = Path(__file__).resolve().parents[2]
    program = f"""
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[1]").config("spark.driver.memory", "512m")
    .config("spark.ui.enabled", "false").getOrCreate())
frame = spark.read.format("odradek").option("kafka.bootstrap.servers", "{room.servers}")
print("found", frame.option("subscribe", "{topic}").load().count())
"""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "pyspark_odradek.py").symlink_to(root / "pyspark_odradek.py")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**_environment(), "PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "found 2" in done.stdout, done.stderr[-3000:]


def _environment() -> dict[str, str]:
    import os

    gateway = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    kept = {name: value for name, value in os.environ.items() if name not in gateway}
    return {**kept, "PYSPARK_PYTHON": sys.executable}
