"""Backfill: records out of Parquet files, as `archive` made them, back into a topic.

The files are read as a stream, in the order in which they were written, so a run that was
interrupted goes on where it was, and new files are followed. Keys, headers and times come back as
they were; partitions are chosen anew unless asked for.
"""

import click
from odradek.spark_jobs.columns import schema_of
from odradek.spark_jobs.job import Job, folder_url, job_options, run_queries

ARCHIVED = f"{schema_of(includes_headers=True)}, date DATE"


@click.command()
@job_options("backfill")
@click.argument("folder")
@click.argument("topic")
@click.option("--keep-partitions", is_flag=True, help="Write each record to its old partition.")
def backfill(job: Job, folder: str, topic: str, keep_partitions: bool) -> None:
    """Write the records archived in FOLDER, a folder or URL, to TOPIC."""
    session = job.session()
    files = session.readStream.schema(ARCHIVED).parquet(folder_url(folder))
    columns = ["key", "value", "headers", "timestamp"]
    records = files.select(*columns, *(["partition"] if keep_partitions else []))
    writer = job.query(records, "backfill").format(job.format)
    if job.format == "odradek":
        writer = writer.option("keepTimestamps", "true")
    target = writer.option("kafka.bootstrap.servers", job.servers).option("topic", topic)
    run_queries(job, session, [target.start])


if __name__ == "__main__":
    backfill()
