"""`odradek api-versions` and `odradek health`: what a cluster speaks, and whether it is well."""

import click
from odradek.client.admin import Admin
from odradek.client.admin_cluster import ClusterDescription
from odradek.client.cli import Common, common_options, opened, run
from odradek.client.cli_output import print_json, print_rows
from odradek.client.view import PartitionView, TopicView
from odradek.protocol.registry import API_KEYS, api
from odradek.protocol.schema import Versions


@click.command()
@common_options
def api_versions(common: Common) -> None:
    """Show which APIs each broker speaks, in which versions, and what this client uses.

    \b
    odradek api-versions -b broker:9092
    """

    async def work() -> list[tuple[object, ...]]:
        async with opened(Admin(common.admin())) as admin:
            rows: list[tuple[object, ...]] = []
            for broker, server in sorted((await admin.api_versions()).items()):
                for key, offered in sorted(server.ranges.items()):
                    rows.append((broker, key, *_row(key, offered)))
            return rows

    columns = ("BROKER", "KEY", "API", "OFFERED", "USED")
    print_rows(common.as_json, columns, run(work()))


def _row(key: int, offered: Versions) -> tuple[str, str, object]:
    if key not in API_KEYS:
        return f"api {key}", str(offered), None
    known = api(key)
    ours = known.versions.last
    assert ours is not None, "requests have a last version"
    assert offered.last is not None, "brokers offer closed ranges"
    used = min(ours, offered.last)
    return known.name, str(offered), used if used >= offered.first else None


@click.command()
@common_options
def health(common: Common) -> None:
    """Check that a cluster answers, has a controller, and that all replicas are in sync.

    Exit code 0: all is well. 1: it answers, but something is missing. 3: nobody answers.

    \b
    odradek health -b broker:9092 && echo fine
    """

    async def work() -> tuple[ClusterDescription, list[TopicView]]:
        async with opened(Admin(common.admin())) as admin:
            names = await admin.list_topics(include_internal=True)
            topics = await admin.describe_topics(names) if names else {}
            views = [row for row in topics.values() if isinstance(row, TopicView)]
            return await admin.describe_cluster(), views

    cluster, topics = run(work())
    troubles = [
        (topic.name, row.index, trouble)
        for topic in topics
        for row in topic.partitions.values()
        if (trouble := _trouble(row)) is not None
    ]
    controller = None if cluster.controller is None else cluster.controller.id
    is_well = controller is not None and not troubles
    if common.as_json:
        print_json(
            {
                "healthy": is_well,
                "cluster_id": cluster.cluster_id,
                "controller": controller,
                "brokers": [str(node) for node in cluster.nodes],
                "topics": len(topics),
                "troubles": [
                    {"topic": name, "partition": index, "trouble": trouble}
                    for name, index, trouble in troubles
                ],
            }
        )
    else:
        click.echo(f"cluster {cluster.cluster_id}, {len(cluster.nodes)} brokers, ", nl=False)
        click.echo(f"controller {controller}, {len(topics)} topics")
        if troubles:
            print_rows(False, ("TOPIC", "PARTITION", "TROUBLE"), troubles)
        click.echo("healthy" if is_well else "not healthy")
    if not is_well:
        raise SystemExit(1)


def _trouble(row: PartitionView) -> str | None:
    if row.leader < 0:
        return "no leader"
    missing = [replica for replica in row.replicas if replica not in row.isr]
    return f"out of sync: {', '.join(map(str, missing))}" if missing else None
