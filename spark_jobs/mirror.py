"""Mirror: topics of one cluster into another, exactly once, under the same names.

Keys, values, headers, times and partitions stay, so the order in every partition does too; offsets
are the other cluster's own. Topics and partitions that are missing over there are made when the job
starts. With --groups, copies note where they came from, and groups find their place among them
(`group_positions`).
"""

from collections import Counter

import click
from odradek.client.admin import Admin, raise_failures
from odradek.client.sync import SyncAdmin
from odradek.spark_jobs.group_positions import GroupPositions, with_origin
from odradek.spark_jobs.job import Job, job_options, make_topics, run_queries
from odradek.spark_jobs.lookup import Lookup
from odradek.spark_jobs.options import SERVERS, source_options
from pyspark.sql import functions as F


@click.command()
@job_options("mirror")
@click.argument("topics")
@click.option("--to", "target", required=True, help="Bootstrap servers of the other cluster.")
@click.option("--prefix", default="", help="Put before the names of topics over there.")
@click.option("--pattern", "is_pattern", is_flag=True, help="TOPICS is a regular expression.")
@click.option("--groups", help="Take along the positions of groups like this regular expression.")
def mirror(
    job: Job, topics: str, target: str, prefix: str, is_pattern: bool, groups: str | None
) -> None:
    """Copy TOPICS (names with commas) to the cluster at --to."""
    if groups is not None and job.format != "odradek":
        raise click.UsageError("--groups needs copies in their order: --format odradek")
    how = "subscribePattern" if is_pattern else "subscribe"
    with Lookup(source_options({SERVERS: job.servers, how: topics}, is_streaming=True)) as lookup:
        make_copies(lookup, target, prefix)
        session = job.session()
        headers = F.col("headers") if groups is None else with_origin()
        copies = job.source(session, topics, how=how).select(
            F.concat(F.lit(prefix), F.col("topic")).alias("topic"),
            *("partition", "key", "value", "timestamp"),
            headers.alias("headers"),
        )
        writer = job.query(copies, "mirror").format(job.format)
        if job.format == "odradek":
            writer = writer.option("keepTimestamps", "true")
        start = writer.option("kafka.bootstrap.servers", target).start
        if groups is None:
            run_queries(job, session, [start])
            return
        with GroupPositions(lookup, job.servers, target, prefix, groups) as positions:
            run_queries(job, session, [start], meanwhile=positions.carry_over_now_and_then)
            positions.carry_over()


def make_copies(lookup: Lookup, target: str, prefix: str) -> None:
    """Topics for the copies, with as many partitions as the originals have now."""
    wanted = Counter(f"{prefix}{partition.topic}" for partition in lookup.partitions())
    for topic, count in wanted.items():
        make_topics(target, [topic], count)

    async def grow(admin: Admin) -> None:
        there = raise_failures(await admin.describe_topics(wanted))
        short = {t: n for t, n in wanted.items() if len(there[t].partitions) < n}
        raise_failures(await admin.create_partitions(short) if short else {})

    if wanted:
        with SyncAdmin(bootstrap_servers=target) as admin:
            admin.run(grow)


if __name__ == "__main__":
    mirror()
