"""The command line `odradek`. The broker itself is not built yet, and the command says so."""

import click


@click.group()
def main() -> None:
    """Odradek, a Kafka-compatible broker in pure Python."""


@main.command()
def serve() -> None:
    """Run a broker."""
    raise click.ClickException("the broker is not built yet; the wire protocol comes first.")
