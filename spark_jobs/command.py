"""`odradek spark`: the jobs as verbs. Spark is imported when one of them is used."""

from typing import ClassVar

import click
from odradek.client.cli import LazyVerbs


class _Jobs(LazyVerbs):
    verbs: ClassVar = {
        "generate": ("odradek.spark_jobs.log_generator", "Write a made-up activity log."),
        "activity": ("odradek.spark_jobs.activity_log", "Events and counts from an activity log."),
        "archive": ("odradek.spark_jobs.archive", "Keep topics as Parquet files."),
        "backfill": ("odradek.spark_jobs.backfill", "Write archived records to a topic."),
        "mirror": ("odradek.spark_jobs.mirror", "Copy topics to another cluster."),
    }

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        try:
            return super().get_command(ctx, name)
        except ModuleNotFoundError as error:
            if error.name not in ("pyspark", "pyarrow"):
                raise
            raise click.ClickException(
                f"{error.name} is not installed: pip install 'odradek[spark]'"
            ) from error


@click.group(cls=_Jobs)
def spark() -> None:
    """Run Spark jobs on topics."""
