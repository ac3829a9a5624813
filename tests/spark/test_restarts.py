"""A driver that is killed with everything it started goes on from its checkpoint: nothing is lost,
and with our sink and in the archive nothing is there twice.

ODRADEK_SPARK_RECORDS and ODRADEK_SPARK_KILLS make it as large as one likes; `make spark-test` does.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.spark.driver import Driver
from tests.spark.room import (
    Pair,
    fill_with_log,
    fingerprint,
    make_topic,
    pairs_in,
)
from tests.support.cluster_processes import ProcessCluster
from tests.support.odradek import OdradekBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = int(os.environ.get("ODRADEK_SPARK_RECORDS", "20000"))
KILLS = int(os.environ.get("ODRADEK_SPARK_KILLS", "1"))
PARTITIONS = 3
# Enough batches for every kill to fall into the middle of the work.
BATCHES = 8 * KILLS
LONGEST_BATCH_S = 1.0

pytestmark = [pytest.mark.needs("spark", "spark-connector"), pytest.mark.timeout(600 + 180 * KILLS)]


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


def filled(broker: OdradekBroker, topic: str) -> list[Pair]:
    make_topic(broker.bootstrap, topic, PARTITIONS)
    return fill_with_log(broker.bootstrap, topic, RECORDS)


def test_our_sink_loses_nothing_and_writes_nothing_twice_under_killed_drivers(
    broker: OdradekBroker, tmp_path: Path
):
    servers, topic = broker.bootstrap, "killed-ours"
    written = filled(broker, topic)
    run_with_kills(
        lambda: mirror(servers, topic, tmp_path, "odradek", BATCHES), tmp_path / "checkpoint"
    )
    assert fingerprint(pairs_in(servers, f"odradek.{topic}")) == fingerprint(written)


def test_the_official_sink_loses_nothing_under_killed_drivers(
    broker: OdradekBroker, tmp_path: Path
):
    servers, topic = broker.bootstrap, "killed-official"
    written = filled(broker, topic)
    run_with_kills(
        lambda: mirror(servers, topic, tmp_path, "kafka", BATCHES), tmp_path / "checkpoint"
    )
    # It may write what it wrote before: at least once.
    copies = Counter(pairs_in(servers, f"kafka.{topic}"))
    assert Counter(written) <= copies
    assert copies.keys() == set(written)


def test_the_archive_has_every_record_once_under_killed_drivers(
    broker: OdradekBroker, spark: "SparkSession", tmp_path: Path
):
    topic, folder = "killed-archive", str(tmp_path / "archive")
    written = filled(broker, topic)
    run_with_kills(
        lambda: job(["archive", topic, folder, "-b", broker.bootstrap], tmp_path, BATCHES),
        tmp_path / "checkpoint",
    )
    text = spark.read.parquet(folder).selectExpr("CAST(key AS STRING) k", "CAST(value AS STRING) v")
    archived = text.toArrow()
    found = zip(archived["k"].to_pylist(), archived["v"].to_pylist(), strict=True)
    assert fingerprint(found) == fingerprint(written)


@pytest.mark.needs("kafka-3.9.1")
def test_a_leader_that_is_killed_in_the_middle_of_queries_is_not_missed(zookeeper, tmp_path: Path):
    """A query of each format, both at work when the leader dies."""
    topic = "led"
    with ProcessCluster(tmp_path / "cluster", f"{zookeeper.connect}/spark", 3) as cluster:
        for name in (topic, f"odradek.{topic}", f"kafka.{topic}"):
            cluster.make(name, partitions=PARTITIONS, replicas=3, **{"min.insync.replicas": "2"})
        servers = cluster.bootstrap
        written = fill_with_log(servers, topic, RECORDS)
        ours, theirs = (tmp_path / format for format in ("odradek", "kafka"))
        with (
            mirror(servers, topic, ours, "odradek", 10) as our_driver,
            mirror(servers, topic, theirs, "kafka", 10) as their_driver,
        ):
            for driver, folder in ((our_driver, ours), (their_driver, theirs)):
                driver.wait_until(lambda: commits(folder / "checkpoint") >= 1)  # noqa: B023
            cluster.kill(cluster.partitions(topic)[0].leader)
            our_driver.finish()
            their_driver.finish()
        assert fingerprint(pairs_in(servers, f"odradek.{topic}")) == fingerprint(written)
        copies = Counter(pairs_in(servers, f"kafka.{topic}"))
        assert Counter(written) <= copies
        assert copies.keys() == set(written)
