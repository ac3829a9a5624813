"""What an image must show before it may stand in for Kafka's: each function is one story.

All run inside the lab, on images that `verify` has built there.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final

from scripts.docker.tools import (
    Compose,
    Failed,
    Writer,
    inspected,
    read_from_container,
    read_from_host,
    require,
    require_all,
    run,
    tell,
    wait_until,
)
from scripts.parts import ROOT

EXAMPLES: Final = ROOT / "docker" / "examples"
HOST_SERVERS: Final = "localhost:9092,localhost:9093,localhost:9094"
INNER_SERVERS: Final = "broker-1:29092,broker-2:29092,broker-3:29092"
BROKERS: Final = ("broker-1", "broker-2", "broker-3")
RECORDS: Final = 30_000
STOP_SECONDS: Final = 30.0
MEGABYTE: Final = 1_000_000
MOST_OVER_BASE: Final = 150


@dataclass(frozen=True, slots=True)
class Images:
    base: str
    broker: str
    zookeeper: str
    spark: str

    def variables(self) -> dict[str, str]:
        """For compose files: ours name the images one by one, people's say KAFKA_IMAGE."""
        return {
            "BASE_IMAGE": self.base,
            "ODRADEK_IMAGE": self.broker,
            "KAFKA_IMAGE": self.broker,
            "ZOOKEEPER_IMAGE": self.zookeeper,
            "SPARK_IMAGE": self.spark,
        }


def image_is_small(images: Images) -> None:
    base, whole = (int(inspected(name, "{{.Size}}")) for name in (images.base, images.broker))
    over = (whole - base) / MEGABYTE
    require(over < MOST_OVER_BASE, f"the image is {over:.0f} MB over its base of {base / 1e6:.0f}")
    require(inspected(images.broker, "{{.Config.User}}") == "appuser", "it does not run as root")
    has_spark = f"{images.broker} python3 -c 'import pyspark'"
    try:
        run(["sh", "-c", f"docker run --rm {has_spark}"], shown=f"docker run --rm {has_spark}")
    except Failed:
        tell("  ok: there is no Spark in it")
    else:
        raise Failed("Spark is in the broker's image")


def cluster(images: Images) -> None:
    """Up, a broker killed under load, stopped and started, the pipeline, down."""
    compose = Compose("docker/compose.yml", images.variables())
    began = time.monotonic()
    compose("up", "-d", "--no-build")
    compose.wait_healthy(*BROKERS)
    compose.wait_done("topics")
    tell(f"  the cluster was up after {time.monotonic() - began:.1f} s")
    acked = _lose_a_broker(compose, images)
    _stop_and_start(compose, images, acked)
    _pipeline(compose)
    compose("--profile", "spark", "down", "--volumes", "--timeout", "30")


def _lose_a_broker(compose: Compose, images: Images) -> list[str]:
    writer = Writer(HOST_SERVERS, "greetings")
    names = [f"greeting {number}" for number in range(RECORDS)]

    def write() -> None:
        for begin in range(0, RECORDS, 500):
            writer.write(names[begin : begin + 500])
            time.sleep(0.1)  # a load that lasts longer than it takes to lose a broker
        writer.flush()

    load = Thread(target=write)
    load.start()
    wait_until(lambda: len(writer.acked) >= RECORDS // 4, "a quarter of the records is acked")
    compose("kill", "-s", "SIGKILL", "broker-2")
    load.join()
    require(
        len(writer.acked) == RECORDS and not writer.failed,
        f"all {RECORDS:,} records were acked, with one broker of three killed on the way",
    )
    require_all(writer.acked, read_from_host(HOST_SERVERS, "greetings"), "on the host")
    inside = read_from_container(images.broker, compose.network, INNER_SERVERS, "greetings")
    require_all(writer.acked, inside, "in another container")
    compose("start", "broker-2")
    compose.wait_healthy("broker-2")
    wait_until(lambda: _is_whole(compose), "every replica is in sync again")
    return writer.acked


def _is_whole(compose: Compose) -> bool:
    try:
        compose("exec", "-T", "broker-1", "odradek", "health", "-b", INNER_SERVERS)
    except Failed:
        return False
    return True


def _stop_and_start(compose: Compose, images: Images, acked: list[str]) -> None:
    began = time.monotonic()
    compose("stop", *BROKERS)
    took = time.monotonic() - began
    codes = [compose.state(broker, "ExitCode") for broker in BROKERS]
    require(codes == ["0"] * len(BROKERS), "every broker ended cleanly when it was told to")
    require(took < STOP_SECONDS, f"all three were down after {took:.1f} s")
    compose("stop", "zookeeper")
    compose("up", "-d", "--no-build")
    compose.wait_healthy(*BROKERS)
    inside = read_from_container(images.broker, compose.network, INNER_SERVERS, "greetings")
    require_all(acked, inside, "after the restart")


def _pipeline(compose: Compose) -> None:
    compose("--profile", "spark", "up", "-d", "--no-build", "pipeline")
    compose.wait_done("activity-log")
    compose.wait_done("pipeline")
    counts = read_from_host(HOST_SERVERS, "activity.counts")
    require(len(counts) > 0, f"the pipeline wrote {len(counts)} counts")
    events = read_from_host(HOST_SERVERS, "activity.events")
    require(len(events) > 0, f"and {len(events):,} events")


def single(images: Images) -> None:
    """One broker without ZooKeeper; its volume outlives its container."""
    compose = Compose("docker/compose.single.yml", images.variables())
    compose("up", "-d", "--no-build")
    compose.wait_healthy("broker")
    writer = Writer("localhost:9092", "greetings")
    writer.write(f"greeting {number}" for number in range(1_000))
    writer.flush()
    require_all(writer.acked, read_from_host("localhost:9092", "greetings"), "on the host")
    _stops_cleanly(compose, "broker")
    compose("rm", "--force", "broker")
    compose("up", "-d", "--no-build")
    compose.wait_healthy("broker")
    inside = read_from_container(images.broker, compose.network, "broker:9092", "greetings")
    require_all(writer.acked, inside, "in a new container with the same volume")
    compose("down", "--volumes")


def _stops_cleanly(compose: Compose, service: str) -> None:
    began = time.monotonic()
    compose("stop", service)
    took = time.monotonic() - began
    require(compose.state(service, "ExitCode") == "0", f"SIGTERM ended it cleanly in {took:.1f} s")


def file_for_apache_kafka(images: Images) -> None:
    _peoples_file("apache-kafka.yml", images, "localhost:29092", "kafka:9092", ["kafka"])


def file_for_cp_kafka(images: Images) -> None:
    outer = "localhost:19092,localhost:29092,localhost:39092"
    inner = "kafka1:9092,kafka2:9092,kafka3:9092"
    _peoples_file("cp-kafka.yml", images, outer, inner, ["kafka1", "kafka2", "kafka3"])


def _peoples_file(name: str, images: Images, outer: str, inner: str, brokers: list[str]) -> None:
    """Nothing in the file is changed but the names of the images."""
    compose = Compose(f"docker/examples/{name}", images.variables())
    compose("up", "-d")
    compose.wait_done("init-kafka")
    compose.wait_healthy(*brokers)
    writer = Writer(outer, "orders")
    writer.write(f"order {number}" for number in range(1_000))
    writer.flush()
    require_all(writer.acked, read_from_host(outer, "orders"), "on the host")
    inside = read_from_container(images.broker, compose.network, inner, "orders")
    require_all(writer.acked, inside, "in another container")
    compose("down", "--volumes")


def testcontainers(images: Images, python: Path) -> None:
    """KafkaContainer in both of its modes: with a ZooKeeper of its own, and with KRaft."""
    script = EXAMPLES / "testcontainers_kafka.py"
    for mode in ("zookeeper", "kraft"):
        said = run(
            [str(python), str(script), images.broker, mode],
            shown=f"python docker/examples/{script.name} {images.broker} {mode}",
            environment={"TESTCONTAINERS_RYUK_DISABLED": "true"},
        )
        tell("\n".join(f"  {line}" for line in said.splitlines()[-3:]))
