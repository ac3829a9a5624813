"""`odradek container`: a broker as the process of a container, and what else an image needs.

`run` is what the image's entry calls. The environment, a properties file where one is mounted, and
the volumes say what to do (`container`, pure); here it is done. `health` is for the health check,
`ready` and `tool` for scripts that were written for Kafka's images.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from odradek.broker import log_output
from odradek.broker.command_line import busy_poll_option, failures_in_a_sentence
from odradek.broker.container import (
    DATA_DIRECTORY,
    OTHER_VOLUMES,
    Plan,
    log_level,
    notices,
    own_address,
    plan,
    ready_lines,
)
from odradek.client.cli import EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE, fail

if TYPE_CHECKING:
    from odradek.broker.broker import Broker

_log = logging.getLogger(__name__)

# The file that apache/kafka reads under its settings from the environment.
_PROPERTIES: Final = Path("/mnt", "shared", "config", "server.properties")
_TOPICS_SECONDS: Final = 120.0
_AGAIN_SECONDS: Final = 1.0


@click.group()
def container() -> None:
    """Run as a container's process; settings come from KAFKA_* variables."""


@container.command()
@busy_poll_option
def run(busy_poll_us: int) -> None:
    """Serve until SIGTERM."""
    # The first process of a container does not end by a signal that it does not handle. Until the
    # broker handles it, nothing has been promised to anybody.
    signal.signal(signal.SIGTERM, _end_early)
    log_output.configure("text", log_level(os.environ))
    with failures_in_a_sentence():
        wanted = _plan(os.environ)
        for notice in notices(wanted.config):
            _log.warning("%s", notice)
        _prepare(wanted)
        _serve(wanted, busy_poll_us)


def _end_early(number: int, _: object) -> None:
    sys.exit(128 + number)


def _plan(environment: Mapping[str, str]) -> Plan:
    from odradek.broker.config_sources import from_file

    volumes = {path for path in (DATA_DIRECTORY, *OTHER_VOLUMES) if os.path.ismount(path)}
    file = from_file(_PROPERTIES) if _PROPERTIES.is_file() else None
    return plan(environment, file=file, mounted=volumes)


def _prepare(wanted: Plan) -> None:
    """Give an empty directory the cluster's id, as formatting does for a KRaft node."""
    from odradek.storage.files import OsFiles
    from odradek.storage.properties_files import MetaProperties, write_meta

    directory = Path(wanted.config.data_dirs[0])
    if wanted.cluster_id is None or not wanted.config.is_single:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not any(directory.iterdir()):
            write_meta(OsFiles(), str(directory), MetaProperties(None, wanted.cluster_id, None))
    except OSError as error:
        # The broker is about to use the same directory, and says in a sentence what is wrong.
        _log.warning("%s cannot be prepared: %s", directory, error)


def _serve(wanted: Plan, busy_poll_us: int) -> None:
    from odradek.broker.process import run_broker

    first: set[asyncio.Task[None]] = set()

    def announce(broker: "Broker") -> None:
        print(f"Odradek ready on {own_address(wanted.config.listener_endpoints)}")
        print("\n".join(ready_lines(broker.id)), flush=True)
        if not wanted.config.is_single and wanted.topics:
            # Brokers come one by one, and a topic may need them all: this one serves meanwhile.
            first.add(asyncio.get_running_loop().create_task(_make_topics(wanted)))

    topics = wanted.topics if wanted.config.is_single else ()
    run_broker(wanted.config, topics, announce, busy_poll_us=busy_poll_us)


async def _make_topics(wanted: Plan) -> None:
    from odradek.client.admin import Admin, NewTopic
    from odradek.protocol.errors import Errors, KafkaError

    fine = (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS)
    new = [
        NewTopic(topic.name, topic.partitions, topic.replication_factor, topic.configs)
        for topic in wanted.topics
    ]
    servers = own_address(wanted.config.listener_endpoints)
    try:
        async with asyncio.timeout(_TOPICS_SECONDS), Admin(bootstrap_servers=servers) as admin:
            while new:
                answers = await admin.create_topics(new)
                failures = {
                    name: answer
                    for name, answer in answers.items()
                    if isinstance(answer, KafkaError) and answer.error not in fine
                }
                new = [topic for topic in new if topic.name in failures]
                for failure in failures.values():
                    _log.info("not yet made: %s", failure)
                if new:
                    await asyncio.sleep(_AGAIN_SECONDS)
    except (KafkaError, TimeoutError) as error:
        missing = ", ".join(topic.name for topic in new)
        _log.error("These topics could not be made: %s (%s)", missing, error or "it took too long")


@container.command()
def health() -> None:
    """Ask the broker of this container; a cluster that lacks replicas does not make it ill."""
    from odradek.client.cli_cluster import health as of_cluster

    with failures_in_a_sentence():
        address = own_address(_plan(os.environ).config.listener_endpoints)
    try:
        of_cluster.main(["-b", address], standalone_mode=False)
    except SystemExit as ended:
        sys.exit(0 if ended.code == EXIT_REFUSED else ended.code)


@container.command()
@click.argument("count", type=click.IntRange(1))
@click.argument("seconds", type=click.IntRange(1))
@click.option("-b", "servers", required=True, help="Where the cluster is.")
def ready(count: int, seconds: int, servers: str) -> None:
    """Wait until so many brokers are there, as `cub kafka-ready` does."""
    try:
        asyncio.run(_until_there(count, seconds, servers))
    except TimeoutError:
        fail(f"{servers} has fewer than {count} brokers after {seconds} s.", EXIT_UNREACHABLE)


async def _until_there(count: int, seconds: int, servers: str) -> None:
    from odradek.client.admin import Admin
    from odradek.protocol.errors import KafkaError

    async with asyncio.timeout(seconds):
        while True:
            try:
                async with Admin(bootstrap_servers=servers) as admin:
                    cluster = await admin.describe_cluster()
            except KafkaError as error:
                _log.debug("not yet: %s", error)
            else:
                if len(cluster.nodes) >= count:
                    return
            await asyncio.sleep(_AGAIN_SECONDS)


@container.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@click.argument("name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def tool(name: str, words: tuple[str, ...]) -> None:
    """Do what one of Kafka's tools does with these words."""
    from odradek.broker.kafka_tools import UnknownWords, translated
    from odradek.broker.main import main

    try:
        ours = translated(name, words)
    except UnknownWords as error:
        fail(f"{name}: {error}", EXIT_USAGE)
    main.main(ours, prog_name="odradek")
