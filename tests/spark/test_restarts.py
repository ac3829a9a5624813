"""On a cluster of three brokers: a driver that is killed with everything it started goes on from
its checkpoint, and a query goes on when a leader is killed. Nothing is lost, and with our sink and
in the archive nothing is there twice.

ODRADEK_SPARK_RECORDS and ODRADEK_SPARK_KILLS make it as large as one likes; `make spark-test` does.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.spark.driver import Driver
from tests.spark.room import (
    Pair,
    fill_with_log,
    fingerprint,
    pairs_in,
)
from tests.support.cluster_processes import ProcessCluster
from tests.support.zookeeper import ZooKeeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = int(os.environ.get("ODRADEK_SPARK_RECORDS", "20000"))
KILLS = int(os.environ.get("ODRADEK_SPARK_KILLS", "1"))
BROKERS = 3
PARTITIONS = 3
# Enough batches for every kill to fall into the middle of the work.
BATCHES = 8 * KILLS
LED_BATCHES = 10
LONGEST_BATCH_S = 1.0
AGAIN = "records there again"

Record = Callable[[str, object], None]

pytestmark = [
    pytest.mark.needs("spark", "spark-connector", "kafka-3.9.1"),
    pytest.mark.timeout(600 + 180 * KILLS),
]


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProcessCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with ProcessCluster(folder, f"{zookeeper.connect}/spark", BROKERS) as started:
        yield started
    assert started.alarms() == []


def make(cluster: ProcessCluster, *topics: str) -> None:
    for topic in topics:
        cluster.make(topic, partitions=PARTITIONS, replicas=BROKERS, **{"min.insync.replicas": "2"})


def filled(cluster: ProcessCluster, topic: str) -> list[Pair]:
    make(cluster, topic)
    return fill_with_log(cluster.bootstrap, topic, RECORDS)


def commits(checkpoint: Path) -> int:
    """How many batches the one query of a job has noted as done."""
    return len([path for path in checkpoint.glob("*/commits/*") if path.name.isdecimal()])


def mirror(servers: str, topic: str, folder: Path, format: str, batches: int) -> Driver:
    words = ["mirror", topic, "--to", servers, "--prefix", f"{format}.", "-b", servers]
    return job(words, folder, batches, format)


def job(words: list[str], folder: Path, batches: int, format: str = "odradek") -> Driver:
    kept = ["--once", "--checkpoint", str(folder / "checkpoint"), "--format", format]
    limit = ["--master", "local[2]", "--most-per-batch", str(RECORDS // batches)]
    folder.mkdir(exist_ok=True)
    return Driver([*words, *kept, *limit], folder / "driver.log")


def run_with_kills(start: Callable[[], Driver], checkpoint: Path) -> None:
    """Kill it at random moments of batches in the middle, then let it come to its end."""
    random = Random(KILLS)
    for _ in range(KILLS):
        wanted = commits(checkpoint) + random.randint(1, 2)
        with start() as driver:
            driver.wait_until(lambda: commits(checkpoint) >= wanted)  # noqa: B023
            time.sleep(random.uniform(0, LONGEST_BATCH_S))
            driver.kill()
    with start() as driver:
        driver.finish()


def check_copies(written: list[Pair], found: list[Pair]) -> int:
    """Everything is there and nothing else, and something may be there again: at least once. How
    many records are."""
    copies = Counter(found)
    assert Counter(written) <= copies
    assert copies.keys() == set(written)
    return len(found) - len(written)


def test_our_sink_loses_nothing_and_writes_nothing_twice_under_killed_drivers(
    cluster: ProcessCluster, tmp_path: Path
):
    servers, topic = cluster.bootstrap, "killed-ours"
    written = filled(cluster, topic)
    make(cluster, f"odradek.{topic}")
    run_with_kills(
        lambda: mirror(servers, topic, tmp_path, "odradek", BATCHES), tmp_path / "checkpoint"
    )
    assert fingerprint(pairs_in(servers, f"odradek.{topic}")) == fingerprint(written)


def test_the_official_sink_loses_nothing_under_killed_drivers(
    cluster: ProcessCluster, tmp_path: Path, record_property: Record
):
    servers, topic = cluster.bootstrap, "killed-official"
    written = filled(cluster, topic)
    make(cluster, f"kafka.{topic}")
    run_with_kills(
        lambda: mirror(servers, topic, tmp_path, "kafka", BATCHES), tmp_path / "checkpoint"
    )
    record_property(AGAIN, check_copies(written, pairs_in(servers, f"kafka.{topic}")))


def test_the_archive_has_every_record_once_under_killed_drivers(
    cluster: ProcessCluster, spark: "SparkSession", tmp_path: Path
):
    topic, folder = "killed-archive", str(tmp_path / "archive")
    written = filled(cluster, topic)
    run_with_kills(
        lambda: job(["archive", topic, folder, "-b", cluster.bootstrap], tmp_path, BATCHES),
        tmp_path / "checkpoint",
    )
    text = spark.read.parquet(folder).selectExpr("CAST(key AS STRING) k", "CAST(value AS STRING) v")
    archived = text.toArrow()
    found = zip(archived["k"].to_pylist(), archived["v"].to_pylist(), strict=True)
    assert fingerprint(found) == fingerprint(written)


def test_a_leader_that_is_killed_in_the_middle_of_a_query_is_not_missed(
    cluster: ProcessCluster, tmp_path: Path, format, record_property: Record
):
    servers, topic = cluster.bootstrap, f"led-{format}"
    written = filled(cluster, topic)
    copies = f"{format}.{topic}"
    make(cluster, copies)
    with mirror(servers, topic, tmp_path, format, LED_BATCHES) as driver:
        driver.wait_until(lambda: commits(tmp_path / "checkpoint") >= 1)
        leader = cluster.partitions(topic)[0].leader
        cluster.kill(leader)
        assert commits(tmp_path / "checkpoint") < LED_BATCHES, "it was over before"
        driver.finish()
    if format == "odradek":
        assert fingerprint(pairs_in(servers, copies)) == fingerprint(written)
    else:
        record_property(AGAIN, check_copies(written, pairs_in(servers, copies)))
    cluster.start(leader)
