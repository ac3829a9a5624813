"""`odradek cluster`: several brokers at once, for a laptop or a test.

Without ZooKeeper all of them live in this process, on one metadata store; with it each is a process
of its own. Either way they replicate through their sockets.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from odradek.broker import log_output
from odradek.broker.command_line import failures_in_a_sentence, give_up, temporary_directory

if TYPE_CHECKING:
    from odradek.broker.network.peer import Address

DEFAULT_DIRECTORY: Final = "odradek-cluster"
FIRST_ID: Final = 1
FIRST_PORT: Final = 9092


@click.command()
@click.option("--brokers", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=FIRST_PORT,
    show_default=True,
    help="Port of the first broker, the others follow; 0 is any free ones.",
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where everything is kept.")
@click.option("--ephemeral", is_flag=True, help="Keep data in a temporary directory.")
@click.option(
    "--zookeeper",
    metavar="HOST:PORT|local",
    help="One process per broker on this ZooKeeper; `local` starts one.",
)
@click.option("-o", "options", multiple=True, metavar="KEY=VALUE", help="For all; repeatable.")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME:PARTITIONS", help="Made at start; repeatable."
)
@click.option("--log-format", type=click.Choice(log_output.FORMATS), default="text")
@click.option("--log-level", type=click.Choice(log_output.LEVELS), default="warning")
def cluster(
    brokers: int,
    host: str,
    port: int,
    data_dir: Path | None,
    ephemeral: bool,
    zookeeper: str | None,
    options: tuple[str, ...],
    topics: tuple[str, ...],
    log_format: str,
    log_level: str,
) -> None:
    """Run a whole cluster until Ctrl-C or SIGTERM."""
    if data_dir is not None and ephemeral:
        give_up("Give either --data-dir or --ephemeral, not both.")
    if zookeeper is not None and topics:
        give_up("--topic is for clusters without --zookeeper: create topics with a client.")
    log_output.configure(log_format, log_level)
    with ExitStack() as stack, failures_in_a_sentence():
        directory = data_dir or Path(DEFAULT_DIRECTORY)
        if ephemeral:
            directory = stack.enter_context(temporary_directory())
        given = [
            list(_options(number, brokers, host, port, directory, options))
            for number in range(brokers)
        ]
        if zookeeper is None:
            _run_here(given, directory, topics)
        else:
            _run_processes(given, directory, zookeeper, log_level)


def _options(
    number: int, brokers: int, host: str, port: int, directory: Path, given: Sequence[str]
) -> Iterator[str]:
    """The settings of one broker as `-o` takes them, those of the caller last."""
    from odradek.broker.local_cluster import cluster_settings

    shown = f"[{host}]" if ":" in host else host
    own_port = port + number if port else 0
    yield from (f"{name}={value}" for name, value in cluster_settings(brokers).items())
    yield f"broker.id={FIRST_ID + number}"
    yield f"listeners=PLAINTEXT://{shown}:{own_port}"
    yield f"log.dirs={directory / f'broker-{FIRST_ID + number}'}"
    yield from given


def _run_here(given: Sequence[Sequence[str]], directory: Path, topics: tuple[str, ...]) -> None:
    from odradek.broker.cluster_process import run_cluster
    from odradek.broker.config_sources import load
    from odradek.broker.wanted_topics import parse_wanted

    try:
        wanted = [parse_wanted(text) for text in topics]
    except ValueError as error:
        give_up(f"--topic: {error}.")
    configs = [load(file=None, environment=os.environ, options=options) for options in given]
    directory.mkdir(parents=True, exist_ok=True)
    run_cluster(configs, directory, wanted, _announce_here)


def _announce_here(addresses: "Sequence[Address]") -> None:
    _announce([str(address) for address in addresses])


def _announce(addresses: Sequence[str]) -> None:
    print(f"Odradek ready on {','.join(addresses)}", flush=True)


def _run_processes(
    given: Sequence[Sequence[str]], directory: Path, zookeeper: str, log_level: str
) -> None:
    from odradek.broker.process_cluster import Plan, run_processes

    brokers = [
        ["--log-level", log_level, *(word for option in options for word in ("-o", option))]
        for options in given
    ]
    run_processes(Plan(brokers, zookeeper, directory), _announce_processes)


def _announce_processes(
    addresses: Sequence[str], pids: Sequence[int], zookeeper_pid: int | None
) -> None:
    if zookeeper_pid is not None:
        print(f"zookeeper: process {zookeeper_pid}")
    for number, (address, pid) in enumerate(zip(addresses, pids, strict=True)):
        print(f"broker {FIRST_ID + number}: process {pid} on {address}")
    _announce(addresses)
