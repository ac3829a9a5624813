"""`odradek config …`: settings of topics, brokers and groups."""

import click
from odradek.client.admin import (
    Admin,
    Change,
    Operation,
    Resource,
    ResourceType,
    raise_failures,
)
from odradek.client.admin_configs import ConfigEntry
from odradek.client.cli import Common, common_options, fail, opened, pair, run
from odradek.client.cli_output import print_rows
from odradek.protocol.settings import Source

KINDS = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
KIND = click.Choice(list(KINDS))


@click.group()
def config() -> None:
    """Read and change settings of topics and brokers.

    The name of a broker is its id; `default` means all brokers.

    \b
    odradek config describe topic orders
    odradek config alter topic orders -c retention.ms=3600000
    """


def _resource(kind: str, name: str) -> Resource:
    if kind == "broker" and name == "default":
        name = ""
    elif kind == "broker" and not name.isdecimal():
        fail(f"{name!r} is no broker id", 2)
    return Resource(KINDS[kind], name)


@config.command()
@click.argument("kind", type=KIND)
@click.argument("name")
@click.option("-a", "--all", "everything", is_flag=True, help="Also what is as it is by default.")
@common_options
def describe(common: Common, kind: str, name: str, everything: bool) -> None:
    """Show settings and where they come from.

    \b
    odradek config describe topic orders --all
    odradek config describe broker 0
    """
    resource = _resource(kind, name)

    async def work() -> list[ConfigEntry]:
        async with opened(Admin(common.admin())) as admin:
            told = raise_failures(await admin.describe_configs([resource]))
            return sorted(told[resource].values(), key=lambda entry: entry.name)

    rows = [
        (entry.name, None if entry.is_sensitive else entry.value, entry.source.name.lower())
        for entry in run(work())
        if everything or entry.source not in (Source.DEFAULT, Source.STATIC_BROKER)
    ]
    print_rows(common.as_json, ("NAME", "VALUE", "SOURCE"), rows)


@config.command()
@click.argument("kind", type=KIND)
@click.argument("name")
@click.option("-c", "--set", "given", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@click.option("-d", "--delete", "deleted", multiple=True, metavar="KEY", help="Repeatable.")
@click.option("--dry-run", is_flag=True, help="Only ask whether it could be done.")
@common_options
def alter(
    common: Common,
    kind: str,
    name: str,
    given: tuple[str, ...],
    deleted: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change settings; all others stay.

    \b
    odradek config alter topic orders -c retention.ms=3600000
    odradek config alter broker default -d log.retention.ms
    """
    changes = [Change(*pair(text)) for text in given]
    changes += [Change(key, None, Operation.DELETE) for key in deleted]
    if not changes:
        fail("nothing to alter: give -c or -d", 2)
    resource = _resource(kind, name)

    async def work() -> None:
        async with opened(Admin(common.admin())) as admin:
            raise_failures(await admin.alter_configs({resource: changes}, validate_only=dry_run))

    run(work())
    if not common.as_json:
        click.echo(f"{'Could alter' if dry_run else 'Altered'} {kind} {name}.")
