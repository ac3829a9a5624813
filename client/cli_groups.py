"""`odradek group …`: consumer groups from the command line."""

import click
from odradek.client.admin import Admin, raise_failures
from odradek.client.admin_groups import GroupDescription
from odradek.client.cli import Common, common_options, fail, opened, run
from odradek.client.cli_format import FormatError, Start, parse_start
from odradek.client.cli_output import print_json, print_rows
from odradek.client.offsets import EARLIEST, LATEST
from odradek.client.values import OffsetAndMetadata
from odradek.protocol.types import TopicPartition

LAG_COLUMNS = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER")


@click.group()
def group() -> None:
    """Look at consumer groups and move their offsets.

    \b
    odradek group list
    odradek group describe billing
    """


@group.command(name="list")
@click.option("--state", "states", multiple=True, help="Only groups in this state; repeatable.")
@common_options
def list_(common: Common, states: tuple[str, ...]) -> None:
    """List consumer groups.

    \b
    odradek group list
    odradek group list --state Empty
    """

    async def work() -> list[tuple[str, str, str]]:
        async with opened(Admin(common.admin())) as admin:
            groups = await admin.list_groups(states=states)
            return [(row.group_id, row.state or "-", row.type or "-") for row in groups]

    print_rows(common.as_json, ("GROUP", "STATE", "TYPE"), run(work()))


@group.command()
@click.argument("name")
@common_options
def describe(common: Common, name: str) -> None:
    """Show the members of a group, and how far it has read.

    \b
    odradek group describe billing
    """

    async def work() -> tuple[GroupDescription, list[tuple[object, ...]]]:
        async with opened(Admin(common.admin())) as admin:
            told = raise_failures(await admin.describe_groups([name]))[name]
            return told, await _lag(admin, told)

    told, rows = run(work())
    if common.as_json:
        keys = [column.lower() for column in LAG_COLUMNS]
        print_json(
            {
                "group": told.group_id,
                "state": told.state,
                "assignor": told.assignor,
                "members": [
                    {
                        "member_id": member.member_id,
                        "instance_id": member.instance_id,
                        "client_id": member.client_id,
                        "host": member.client_host,
                        "partitions": [str(partition) for partition in member.assignment],
                    }
                    for member in told.members
                ],
                "offsets": [dict(zip(keys, row, strict=True)) for row in rows],
            }
        )
        return
    click.echo(
        f"{told.group_id}  {told.state}  {told.assignor or '-'}  {len(told.members)} members"
    )
    if rows:
        print_rows(False, LAG_COLUMNS, rows)


async def _lag(admin: Admin, told: GroupDescription) -> list[tuple[object, ...]]:
    owners = {p: member.member_id for member in told.members for p in member.assignment}
    committed = await admin.list_group_offsets(told.group_id)
    partitions = sorted({*owners, *committed})
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST)) if partitions else {}
    rows: list[tuple[object, ...]] = []
    for partition in partitions:
        position = committed.get(partition)
        end = ends.get(partition)
        lag = end.offset - position.offset if end and position else None
        rows.append(
            (
                partition.topic,
                partition.partition,
                position.offset if position else None,
                end.offset if end else None,
                lag,
                owners.get(partition),
            )
        )
    return rows


@group.command()
@click.argument("name")
@click.option("-t", "--topic", "topics", multiple=True, required=True, help="Repeatable.")
@click.option("-p", "--partition", "indexes", multiple=True, type=int, help="Else all; repeatable.")
@click.option("--to", "start", required=True, help="beginning, end, @TIMESTAMP_MS or an offset.")
@click.option("--dry-run", is_flag=True, help="Only show what would be committed.")
@common_options
def reset(
    common: Common,
    name: str,
    topics: tuple[str, ...],
    indexes: tuple[int, ...],
    start: str,
    dry_run: bool,
) -> None:
    """Move the committed offsets of a group that has no members now.

    \b
    odradek group reset billing -t orders --to beginning
    odradek group reset billing -t orders -p 0 --to @1700000000000 --dry-run
    """
    try:
        wanted = parse_start(start)
    except FormatError as error:
        fail(str(error), 2)

    async def work() -> dict[TopicPartition, int]:
        async with opened(Admin(common.admin())) as admin:
            views = raise_failures(await admin.describe_topics(topics))
            partitions = [
                TopicPartition(view.name, index)
                for view in views.values()
                for index in view.partitions
                if not indexes or index in indexes
            ]
            offsets = await offsets_at(admin, partitions, wanted)
            if not dry_run:
                positions = {p: OffsetAndMetadata(offset) for p, offset in offsets.items()}
                await admin.alter_group_offsets(name, positions)
            return offsets

    rows = [(p.topic, p.partition, offset) for p, offset in sorted(run(work()).items())]
    print_rows(common.as_json, ("TOPIC", "PARTITION", "OFFSET"), rows)


async def offsets_at(
    admin: Admin, partitions: list[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """The offsets a start stands for; never outside what the logs hold."""
    first = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    last = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    timed = {}
    if start.timestamp_ms is not None:
        timed = await admin.list_offsets(dict.fromkeys(partitions, start.timestamp_ms))
    offsets = {}
    for partition in partitions:
        low, high = first[partition], last[partition]
        assert low is not None, "every log has a beginning"
        assert high is not None, "every log has an end"
        if start.timestamp_ms is not None:
            found = timed[partition]
            chosen = high.offset if found is None else found.offset
        elif start.at_end or start.before_end is not None:
            chosen = high.offset - (start.before_end or 0)
        else:
            chosen = low.offset if start.offset is None else start.offset
        offsets[partition] = min(max(chosen, low.offset), high.offset)
    return offsets


@group.command()
@click.argument("names", nargs=-1, required=True)
@common_options
def delete(common: Common, names: tuple[str, ...]) -> None:
    """Delete groups that have no members, with their offsets.

    \b
    odradek group delete billing
    """

    async def work() -> list[tuple[str, str]]:
        async with opened(Admin(common.admin())) as admin:
            results = await admin.delete_groups(names)
            return [(name, str(results[name] or "deleted")) for name in names]

    rows = run(work())
    print_rows(common.as_json, ("GROUP", "RESULT"), rows)
    if any(result != "deleted" for _, result in rows):
        raise SystemExit(1)
