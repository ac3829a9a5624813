"""How the checks speak to Docker, Compose and the brokers; every command is shown before it runs.

Records are written by librdkafka, with acks=all, and read by `odradek consume`, on the host or in
a container of the broker's image.
"""

import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from scripts.docker.lab import docker
from scripts.parts import ROOT

ODRADEK: Final = str(Path(sys.executable).with_name("odradek"))
WAIT_SECONDS: Final = 180.0
DELIVERY_MS: Final = 120_000
LAST_LINES: Final = 30


class Failed(AssertionError):
    """A check did not hold; the text says which."""


def tell(text: str) -> None:
    print(text, flush=True)


def require(condition: bool, claim: str) -> None:
    if not condition:
        raise Failed(claim)
    tell(f"  ok: {claim}")


def run(
    command: list[str],
    *,
    shown: str = "",
    environment: Mapping[str, str] | None = None,
    given: str = "",
) -> str:
    """Run a command and give what it says; a failure shows all of it."""
    tell(f"$ {shown or shlex.join(command)}")
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        tell(done.stdout)
        raise Failed(f"`{shown or shlex.join(command)}` ended with {done.returncode}")
    return done.stdout


def in_docker(*words: str, given: str = "") -> str:
    return run([docker(), *words], shown=f"docker {shlex.join(words)}", given=given)


def inspected(name: str, what: str) -> str:
    asked = [docker(), "inspect", "--format", what, name]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def state_of(container: str, what: str) -> str:
    return inspected(container, f"{{{{.State.{what}}}}}")


def is_healthy(container: str) -> bool:
    status = state_of(container, "Health.Status")
    if status == "unhealthy":
        raise Failed(f"{container} is not healthy")
    return status == "healthy"


def logs_of(container: str) -> str:
    return subprocess.run(
        [docker(), "logs", container],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ).stdout


def show_containers() -> None:
    """What is there after a failure, with the last that each has said."""
    everything = [docker(), "ps", "--all", "--format", "{{.Names}}: {{.Image}}, {{.Status}}"]
    listed = subprocess.run(everything, check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        said = logs_of(line.partition(":")[0]).splitlines()[-LAST_LINES:]
        tell("\n".join(("", f"-- {line}", *said)))


def wait_until(holds: Callable[[], bool], claim: str) -> None:
    began = time.monotonic()
    while not holds():
        if time.monotonic() > began + WAIT_SECONDS:
            raise Failed(f"not within {WAIT_SECONDS:.0f} s: {claim}")
        time.sleep(0.2)
    tell(f"  ok: {claim}, after {time.monotonic() - began:.1f} s")


class Compose:
    """One compose file as one project; `docker-compose` of Debian is its first version."""

    def __init__(self, file: str, variables: Mapping[str, str]) -> None:
        self.project = Path(file).stem.replace(".", "-")
        self._command = ["docker-compose", "-f", file, "-p", self.project]
        self._variables = {**variables, "DOCKER_BUILDKIT": "0", "COMPOSE_DOCKER_CLI_BUILD": "0"}

    @property
    def network(self) -> str:
        return f"{self.project}_default"

    def __call__(self, *words: str) -> str:
        return run([*self._command, *words], environment=self._variables)

    def _quietly(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._command, *words],
            cwd=ROOT,
            env={**os.environ, **self._variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def succeeds(self, *words: str) -> bool:
        return self._quietly(*words).returncode == 0

    def container(self, service: str) -> str:
        done = self._quietly("ps", "--all", "--quiet", service)
        done.check_returncode()
        return done.stdout.strip()

    def exit_code(self, service: str) -> int:
        return int(state_of(self.container(service), "ExitCode"))

    def logs(self, service: str) -> str:
        return logs_of(self.container(service))

    def wait_healthy(self, *services: str) -> None:
        for service in services:
            # Asked for once: Compose takes as long to start as a broker.
            container = self.container(service)
            wait_until(partial(is_healthy, container), f"{service} is healthy")

    def wait_done(self, service: str) -> None:
        container = self.container(service)
        wait_until(lambda: state_of(container, "Status") == "exited", f"{service} has ended")
        require(self.exit_code(service) == 0, f"{service} ended without an error")


class Writer:
    """Writes numbered records and keeps count of those that were acknowledged."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": DELIVERY_MS,
                "log_level": 0,
            }
        )
        self.acked: list[str] = []

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.acked.append(value.decode())

    def write(self, values: Iterable[str]) -> None:
        for value in values:
            while True:
                with suppress(BufferError):
                    self._producer.produce(self._topic, value.encode(), on_delivery=self._delivered)
                    break
                self._producer.poll(0.1)
            self._producer.poll(0)

    def finish(self) -> None:
        """Wait until each record is acknowledged, or given up after `DELIVERY_MS`."""
        self._producer.flush(2 * DELIVERY_MS / 1000)


def read_from_host(servers: str, topic: str) -> list[str]:
    words = ["consume", topic, "-b", servers]
    return run([ODRADEK, *words], shown=f"odradek {shlex.join(words)}").splitlines()


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another container in the network of the brokers, new for each command."""

    image: str
    network: str
    servers: str

    def _run(self, *words: str, given: str = "") -> str:
        there = ("run", "--rm", "-i", "--network", self.network, self.image)
        return in_docker(*there, "odradek", *words, "-b", self.servers, given=given)

    def write(self, topic: str, values: Iterable[str]) -> None:
        self._run("produce", topic, given="".join(f"{value}\n" for value in values))

    def read(self, topic: str) -> list[str]:
        return self._run("consume", topic).splitlines()


def require_all(acked: Iterable[str], read: Iterable[str], where: str) -> None:
    """Writers are idempotent: a record that comes twice is as wrong as one that is missing."""
    written, found = Counter(acked), Counter(read)
    missing, surplus = (written - found).total(), (found - written).total()
    claim = f"{written.total():,} acked records, {missing} missing and {surplus} too many {where}"
    require(not missing and not surplus, claim)
