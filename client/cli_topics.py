"""`odradek topic …`: topics from the command line."""

import click
from odradek.client.admin import (
    Admin,
    Change,
    NewTopic,
    Operation,
    Resource,
    ResourceType,
    raise_failures,
)
from odradek.client.cli import Common, common_options, fail, opened, pair, run
from odradek.client.cli_output import print_json, print_rows, print_table
from odradek.client.view import TopicView
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.settings import Source
from odradek.protocol.types import id_to_text


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics.

    \b
    odradek topic create orders -p 6
    odradek topic describe orders
    """


@topic.command()
@click.argument("name")
@click.option("-p", "--partitions", type=int, default=-1, help="Else the broker's default.")
@click.option("-r", "--replication-factor", type=int, default=-1, help="Else the broker's default.")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already will do.")
@common_options
def create(
    common: Common,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create a topic.

    \b
    odradek topic create orders -p 6
    odradek topic create users -p 3 -c cleanup.policy=compact --if-not-exists
    """
    new = NewTopic(name, partitions, replication_factor, dict(pair(text) for text in configs))

    async def work() -> bool:
        async with opened(Admin(common.admin())) as admin:
            result = (await admin.create_topics([new]))[name]
            if isinstance(result, KafkaError):
                exists = result.error is Errors.TOPIC_ALREADY_EXISTS
                if not (exists and if_not_exists):
                    raise result
                return False
            # The next command may use it.
            await admin.wait_for_topics([name])
            return True

    created = run(work())
    if common.as_json:
        print_json({"name": name, "created": created})
    else:
        click.echo(f"Created topic {name}." if created else f"Topic {name} is there already.")


@topic.command(name="list")
@click.option("--internal", is_flag=True, help="Also those of Kafka itself.")
@common_options
def list_(common: Common, internal: bool) -> None:
    """List topics.

    \b
    odradek topic list
    odradek topic list --json -b broker:9092
    """

    async def work() -> list[str]:
        async with opened(Admin(common.admin())) as admin:
            return await admin.list_topics(include_internal=internal)

    names = run(work())
    if common.as_json:
        print_json(names)
    else:
        for name in names:
            click.echo(name)


@topic.command()
@click.argument("names", nargs=-1)
@common_options
def describe(common: Common, names: tuple[str, ...]) -> None:
    """Show partitions and settings, of all topics unless some are named.

    \b
    odradek topic describe orders
    """

    async def work() -> list[tuple[TopicView, dict[str, str | None]]]:
        async with opened(Admin(common.admin())) as admin:
            chosen = list(names) or await admin.list_topics()
            if not chosen:
                return []
            views = raise_failures(await admin.describe_topics(chosen))
            resources = [Resource(ResourceType.TOPIC, name) for name in chosen]
            configs = raise_failures(await admin.describe_configs(resources))
            return [
                (
                    views[resource.name],
                    {
                        entry.name: entry.value
                        for entry in configs[resource].values()
                        if entry.source is Source.TOPIC
                    },
                )
                for resource in resources
            ]

    described = run(work())
    if common.as_json:
        print_json([_as_json(view, configs) for view, configs in described])
        return
    for place, (view, configs) in enumerate(described):
        if place:
            click.echo()
        shown = " ".join(f"{key}={value}" for key, value in configs.items())
        click.echo(f"{view.name}  {id_to_text(view.id)}  {shown}".rstrip())
        print_table(
            ("  PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR"),
            [
                (f"  {row.index}", row.leader, row.leader_epoch, row.replicas, row.isr)
                for row in view.partitions.values()
            ],
        )


def _as_json(view: TopicView, configs: dict[str, str | None]) -> dict[str, object]:
    return {
        "name": view.name,
        "id": id_to_text(view.id),
        "configs": configs,
        "partitions": [
            {
                "partition": row.index,
                "leader": row.leader,
                "leader_epoch": row.leader_epoch,
                "replicas": row.replicas,
                "isr": row.isr,
            }
            for row in view.partitions.values()
        ],
    }


@topic.command()
@click.argument("name")
@click.option("-p", "--partitions", type=int, help="Grow to this many.")
@click.option(
    "-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set; repeatable."
)
@click.option("-d", "--delete-config", "deleted", multiple=True, metavar="KEY", help="Repeatable.")
@common_options
def alter(
    common: Common,
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Grow a topic, or change its settings.

    \b
    odradek topic alter orders -p 12
    odradek topic alter orders -c retention.ms=3600000 -d max.message.bytes
    """
    changes = [Change(*pair(text)) for text in configs]
    changes += [Change(key, None, Operation.DELETE) for key in deleted]
    if partitions is None and not changes:
        fail("nothing to alter: give -p, -c or -d", 2)

    async def work() -> None:
        async with opened(Admin(common.admin())) as admin:
            if partitions is not None:
                raise_failures(await admin.create_partitions({name: partitions}))
            if changes:
                resource = Resource(ResourceType.TOPIC, name)
                raise_failures(await admin.alter_configs({resource: changes}))

    run(work())
    if not common.as_json:
        click.echo(f"Altered topic {name}.")


@topic.command()
@click.argument("names", nargs=-1, required=True)
@common_options
def delete(common: Common, names: tuple[str, ...]) -> None:
    """Delete topics with all their records.

    \b
    odradek topic delete orders users
    """

    async def work() -> list[tuple[str, str]]:
        async with opened(Admin(common.admin())) as admin:
            results = await admin.delete_topics(names)
            return [(name, str(results.get(name) or "deleted")) for name in names]

    rows = run(work())
    print_rows(common.as_json, ("TOPIC", "RESULT"), rows)
    if any(result != "deleted" for _, result in rows):
        raise SystemExit(1)
