"""Mirror: topics of one cluster into another, exactly once, under the same names.

Keys, values, headers, times and partitions stay, so the order in every partition does too; offsets
are the other cluster's own. Topics must be there, with at least as many partitions.
"""

import click
from odradek.spark_jobs.job import Job, job_options, run_queries
from pyspark.sql import functions as F


@click.command()
@job_options("mirror")
@click.argument("topics")
@click.option("--to", "target", required=True, help="Bootstrap servers of the other cluster.")
@click.option("--prefix", default="", help="Put before the names of topics over there.")
def mirror(job: Job, topics: str, target: str, prefix: str) -> None:
    """Copy TOPICS (names with commas) to the cluster at --to."""
    session = job.session()
    records = job.source(session, topics)
    name = F.concat(F.lit(prefix), F.col("topic")).alias("topic")
    copies = records.select(name, "partition", "key", "value", "headers", "timestamp")
    writer = job.query(copies, "mirror").format(job.format)
    if job.format == "odradek":
        writer = writer.option("keepTimestamps", "true")
    run_queries(job, session, [writer.option("kafka.bootstrap.servers", target).start])


if __name__ == "__main__":
    mirror()
