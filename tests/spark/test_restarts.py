"""A driver that is killed with everything it started goes on from its checkpoint, and no record is
lost or there twice.

ODRADEK_SPARK_RECORDS and ODRADEK_SPARK_KILLS make it as large as one likes; `make spark-test` does.
"""

import os
from pathlib import Path
from random import Random

import pytest

from tests.spark.driver import Driver
from tests.spark.room import fill, fingerprint, make_topic, read
from tests.support.cluster_processes import ProcessCluster
from tests.support.odradek import OdradekBroker

RECORDS = int(os.environ.get("ODRADEK_SPARK_RECORDS", "20000"))
KILLS = int(os.environ.get("ODRADEK_SPARK_KILLS", "2"))
PARTITIONS = 3

pytestmark = [pytest.mark.needs("spark"), pytest.mark.timeout(600 + 120 * KILLS)]


def commits(checkpoint: Path) -> int:
    """How many batches the query has noted as done."""
    folder = checkpoint / "mirror" / "commits"
    return len([path for path in folder.glob("*") if path.name.isdecimal()])


def mirror(servers: str, topic: str, folder: Path, most_per_batch: int) -> Driver:
    words = ["mirror", topic, "--to", servers, "--prefix", "copy.", "-b", servers, "--once"]
    checkpoint = ["--checkpoint", str(folder / "checkpoint")]
    limit = ["--master", "local[2]", "--most-per-batch", str(most_per_batch)]
    return Driver([*words, *checkpoint, *limit], folder / "driver.log")


def check_copy(servers: str, topic: str, values: list[str]) -> None:
    copies = [(r.key.decode(), r.value.decode()) for r in read(servers, f"copy.{topic}")]
    assert fingerprint(copies) == fingerprint((value[-2:], value) for value in values)


def prepare(servers: str, topic: str) -> list[str]:
    values = [f"{number:08}" for number in range(RECORDS)]
    for name in (topic, f"copy.{topic}"):
        make_topic(servers, name, PARTITIONS)
    fill(servers, topic, values)
    return values


def test_killed_drivers_lose_nothing_and_write_nothing_twice(broker: OdradekBroker, tmp_path: Path):
    topic, random = "killed", Random(1)
    values = prepare(broker.bootstrap, topic)
    # Enough batches for every kill to fall into the middle of the work.
    most_per_batch = RECORDS // (3 * KILLS + 2)
    for _ in range(KILLS):
        done = commits(tmp_path / "checkpoint")
        wanted = done + random.randint(1, 2)
        with mirror(broker.bootstrap, topic, tmp_path, most_per_batch) as driver:
            driver.wait_until(lambda: commits(tmp_path / "checkpoint") >= wanted)  # noqa: B023
            driver.kill()
    with mirror(broker.bootstrap, topic, tmp_path, most_per_batch) as driver:
        driver.finish()
    check_copy(broker.bootstrap, topic, values)


@pytest.mark.needs("kafka-3.9.1")
def test_a_leader_that_is_killed_in_the_middle_of_a_query_is_not_missed(zookeeper, tmp_path: Path):
    connect = f"{zookeeper.connect}/spark"
    with ProcessCluster(tmp_path / "cluster", connect, 3) as cluster:
        topic = "led"
        for name in (topic, f"copy.{topic}"):
            cluster.make(name, partitions=PARTITIONS, replicas=3, **{"min.insync.replicas": "2"})
        values = [f"{number:08}" for number in range(RECORDS)]
        fill(cluster.bootstrap, topic, values)
        with mirror(cluster.bootstrap, topic, tmp_path, RECORDS // 5) as driver:
            driver.wait_until(lambda: commits(tmp_path / "checkpoint") >= 1)
            cluster.kill(cluster.partitions(topic)[0].leader)
            driver.finish()
        check_copy(cluster.bootstrap, topic, values)
