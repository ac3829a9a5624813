"""What an image must show before it may stand in for Kafka's: each function is one story.

All run inside the lab, on images that `verify` has built there.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Final

from odradek.broker.settings.unused import KRAFT

from scripts.docker.tools import (
    Compose,
    Neighbour,
    Writer,
    in_docker,
    inspected,
    logs_of,
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
FEW_RECORDS: Final = 1_000
MEGABYTE: Final = 1_000_000
AWAITED_LINES: Final = ("Kafka Server started", "Transitioning from RECOVERY to RUNNING")
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
    user = in_docker("run", "--rm", images.broker, "id", "-u").strip()
    require(user != "0", f"it runs as user {user}, not as root")
    check = inspected(images.broker, "{{json .Config.Healthcheck.Test}}")
    require("health" in check, f"its health check is {check}")
    found = "import importlib.util as it; print(it.find_spec('pyspark'))"
    said = in_docker("run", "--rm", images.broker, "python3", "-c", found)
    require(said.strip() == "None", "there is no Spark in it")


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
        writer.finish()

    load = Thread(target=write)
    load.start()
    wait_until(lambda: len(writer.acked) >= RECORDS // 4, "a quarter of the records is acked")
    compose("kill", "-s", "SIGKILL", "broker-2")
    load.join()
    count = len(writer.acked)
    require(count == RECORDS, f"{count:,} records were acked while one broker of three was killed")
    require_all(writer.acked, read_from_host(HOST_SERVERS, "greetings"), "on the host")
    of_container = [f"inner greeting {number}" for number in range(FEW_RECORDS)]
    there = Neighbour(images.broker, compose.network, INNER_SERVERS)
    there.write("greetings", of_container)
    inside = there.read("greetings")
    require_all([*writer.acked, *of_container], inside, "in another container")
    compose("start", "broker-2")
    compose.wait_healthy("broker-2")
    whole = partial(compose.succeeds, "exec", "-T", "broker-1", "odradek", "health")
    wait_until(partial(whole, "-b", INNER_SERVERS), "every replica is in sync again")
    return [*writer.acked, *of_container]


def _stop_and_start(compose: Compose, images: Images, acked: list[str]) -> None:
    _stop(compose, *BROKERS)
    compose("down")
    compose("up", "-d", "--no-build")
    compose.wait_healthy(*BROKERS)
    inside = Neighbour(images.broker, compose.network, INNER_SERVERS).read("greetings")
    require_all(acked, inside, "in new containers with the same volumes")


def _pipeline(compose: Compose) -> None:
    compose("--profile", "spark", "up", "-d", "--no-build", "pipeline")
    compose.wait_done("activity-log")
    compose.wait_done("pipeline")
    counts = read_from_host(HOST_SERVERS, "activity.counts")
    require(len(counts) > 0, f"the pipeline wrote {len(counts)} counts")
    events = read_from_host(HOST_SERVERS, "activity.events")
    require(len(events) > 0, f"and {len(events):,} events")


def quick_start(images: Images) -> None:
    """The first commands of docs/docker.md."""
    in_docker(
        *("run", "-d", "--name", "broker", "-p", "9092:9092"),
        *("-e", "KAFKA_CREATE_TOPICS=greetings:3", images.broker),
    )
    wait_until(lambda: AWAITED_LINES[0] in logs_of("broker"), "the broker says that it serves")
    in_docker("exec", "-i", "broker", "odradek", "produce", "greetings", given="hello\n")
    said = in_docker("exec", "broker", "odradek", "consume", "greetings")
    require(said == "hello\n", "what was written in the container is read there")
    require(read_from_host("localhost:9092", "greetings") == ["hello"], "and on the host")
    in_docker("rm", "--force", "--volumes", "broker")


def single(images: Images) -> None:
    """One broker without ZooKeeper; its volume outlives its container."""
    compose = Compose("docker/compose.single.yml", images.variables())
    compose("up", "-d", "--no-build")
    compose.wait_healthy("broker")
    topics = compose("exec", "-T", "broker", "odradek", "topic", "list").splitlines()
    made = sorted(line.split()[0] for line in topics)
    require(made == ["greetings", "users"], "the topics of its variable are made")
    writer = Writer("localhost:9092", "greetings")
    _write_some(writer)
    require_all(writer.acked, read_from_host("localhost:9092", "greetings"), "on the host")
    _stop(compose, "broker")
    compose("rm", "--force", "broker")
    compose("up", "-d", "--no-build")
    compose.wait_healthy("broker")
    inside = Neighbour(images.broker, compose.network, "broker:9092").read("greetings")
    require_all(writer.acked, inside, "in a new container with the same volume")
    compose("down", "--volumes")


def _write_some(writer: Writer) -> None:
    writer.write(f"record {number}" for number in range(FEW_RECORDS))
    writer.finish()
    count = len(writer.acked)
    require(count == FEW_RECORDS, f"{count:,} records were acked on the host")


def _stop(compose: Compose, *services: str) -> None:
    """By SIGTERM; a container that Docker has to kill in the end gives another exit code."""
    began = time.monotonic()
    compose("stop", *services)
    took = time.monotonic() - began
    codes = {compose.exit_code(service) for service in services}
    require(codes == {0}, f"SIGTERM ended {', '.join(services)} cleanly, after {took:.1f} s")


@dataclass(frozen=True, slots=True)
class PeoplesFile:
    """A compose file written for Kafka, and what it promises."""

    name: str
    outer: str
    inner: str
    brokers: tuple[str, ...]
    lines_about_kraft: int


FOR_APACHE_KAFKA: Final = PeoplesFile(
    name="apache-kafka.yml",
    outer="localhost:29092",
    inner="kafka:9092",
    brokers=("kafka",),
    lines_about_kraft=1,
)
FOR_CP_KAFKA: Final = PeoplesFile(
    name="cp-kafka.yml",
    outer="localhost:19092,localhost:29092,localhost:39092",
    inner="kafka1:9092,kafka2:9092,kafka3:9092",
    brokers=("kafka1", "kafka2", "kafka3"),
    lines_about_kraft=0,
)


def peoples_file(file: PeoplesFile, images: Images) -> None:
    """Nothing in the file is changed but the names of the images."""
    compose = Compose(f"docker/examples/{file.name}", images.variables())
    compose("up", "-d")
    compose.wait_done("init-kafka")
    compose.wait_healthy(*file.brokers)
    writer = Writer(file.outer, "orders")
    _write_some(writer)
    require_all(writer.acked, read_from_host(file.outer, "orders"), "on the host")
    inside = Neighbour(images.broker, compose.network, file.inner).read("orders")
    require_all(writer.acked, inside, "in another container")
    _stop(compose, *file.brokers)
    for broker in file.brokers:
        said = compose.logs(broker)
        missing = [line for line in AWAITED_LINES if line not in said]
        require(not missing, f"{broker} said what Testcontainers' modules wait for")
        lines = said.count(KRAFT)
        require(lines == file.lines_about_kraft, f"and {lines} line(s) about settings of KRaft")
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
        own = (line for line in said.splitlines() if line.startswith(mode))
        tell("\n".join(f"  {line}" for line in own))
