"""The command line `odradek`: `odradek serve` runs a broker, and is what runs without a verb;
`odradek cluster` runs several.

Only what parses the options is imported here; the broker comes with the verb that needs it, so
that help and completion answer at once.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import click
from odradek.broker import log_output
from odradek.broker.cluster_command import cluster
from odradek.broker.command_line import (
    busy_poll_option,
    failures_in_a_sentence,
    give_up,
    nothing_is_garbage,
    profiled,
    temporary_directory,
)
from odradek.client.cli import VERBS, LazyVerbs

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.config import BrokerConfig

_EVERYWHERE: Final = ("0.0.0.0", "::")


class _ServeByDefault(LazyVerbs):
    """`odradek --port 0` means `odradek serve --port 0`."""

    verbs: ClassVar = {
        **VERBS,
        "container": ("odradek.broker.container_command", "Run as a container's process."),
        "dump-log": ("odradek.broker.dump_log", "Show what log segments hold."),
        "spark": ("odradek.spark_jobs.command", "Run Spark jobs on topics."),
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_group = any(word in ("--help", "--version") for word in args[:1])
        # A shell that completes a verb has not chosen one yet.
        asks_for_group |= ctx.resilient_parsing
        if not asks_for_group and (not args or args[0].startswith("-")):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ServeByDefault, no_args_is_help=False)
@click.version_option(package_name="odradek")
def main() -> None:
    """Odradek, a Kafka-compatible broker in pure Python."""


@main.command()
@click.option("--host", help="Address to listen on; every interface unless given.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 is any free one.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where logs are kept.")
@click.option("--ephemeral", is_flag=True, help="Keep data in a temporary directory.")
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="A file of properties."
)
@click.option("-o", "options", multiple=True, metavar="KEY=VALUE", help="A setting; repeatable.")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME:PARTITIONS", help="Made at start; repeatable."
)
@click.option("--log-format", type=click.Choice(log_output.FORMATS), default="text")
@click.option("--log-level", type=click.Choice(log_output.LEVELS), default="info")
@click.option(
    "--profile",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write at the end what every function cost, for `python -m pstats`.",
)
@busy_poll_option
def serve(
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    ephemeral: bool,
    config_file: Path | None,
    options: tuple[str, ...],
    topics: tuple[str, ...],
    log_format: str,
    log_level: str,
    profile: Path | None,
    busy_poll_us: int,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM; a second Ctrl-C ends it at once."""
    if data_dir is not None and ephemeral:
        give_up("Give either --data-dir or --ephemeral, not both.")
    log_output.configure(log_format, log_level)
    with ExitStack() as stack, failures_in_a_sentence():
        directory = stack.enter_context(temporary_directory()) if ephemeral else data_dir
        given = [*options, *_as_options(host, port, directory)]
        config = _load(config_file, given)
        stack.enter_context(profiled(profile))
        _run(config, topics, busy_poll_us)


def _as_options(host: str | None, port: int | None, directory: Path | None) -> Iterator[str]:
    """The options that are short for settings."""
    if host is not None or port is not None:
        shown = f"[{host}]" if host and ":" in host else host or ""
        yield f"listeners=PLAINTEXT://{shown}:{9092 if port is None else port}"
    if directory is not None:
        yield f"log.dirs={directory}"


def _load(config_file: Path | None, options: list[str]) -> "BrokerConfig":
    import logging

    from odradek.broker.config_sources import load

    config = load(file=config_file, environment=os.environ, options=options)
    for notice in config.notices():
        logging.getLogger(__name__).warning("%s", notice)
    return config


def _run(config: "BrokerConfig", topics: tuple[str, ...], busy_poll_us: int) -> None:
    with nothing_is_garbage():
        from odradek.broker.process import run_broker
        from odradek.broker.wanted_topics import parse_wanted

    try:
        wanted = [parse_wanted(text) for text in topics]
    except ValueError as error:
        give_up(f"--topic: {error}.")
    run_broker(config, wanted, _announce, busy_poll_us=busy_poll_us)


def _announce(broker: "Broker") -> None:
    address = broker.address
    if address.host in _EVERYWHERE:
        address = address._replace(host="localhost")
    print(f"Odradek ready on {address}", flush=True)


main.add_command(cluster)
