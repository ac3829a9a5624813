"""`python -m odradek.protocol list` and `… dump FetchRequest 13`: what is declared, and what is
compiled from it."""

import click
from odradek.protocol.compiler import source_of
from odradek.protocol.registry import all_messages
from odradek.protocol.schema import Request, Response


@click.group(help="Look at the declared Kafka messages.")
def main() -> None:
    pass


@main.command("list", help="Print every message with its versions.")
def list_messages() -> None:
    for message in all_messages():
        key = message.api_key if issubclass(message, (Request, Response)) else ""
        click.echo(
            f"{key!s:>3}  {message.__name__:<42} {message.versions!s:<6}"
            f" flexible {message.flexible}"
        )


@main.command(help="Print the source that is compiled for MESSAGE in VERSION.")
@click.argument("message")
@click.argument("version", type=int)
def dump(message: str, version: int) -> None:
    declared = {found.__name__: found for found in all_messages()}
    if message not in declared:
        raise click.UsageError(f"no message is called {message}")
    if version not in declared[message].versions:
        raise click.UsageError(f"{message} has versions {declared[message].versions}")
    click.echo(source_of(declared[message], version), nl=False)


if __name__ == "__main__":
    main(prog_name="python -m odradek.protocol")
