"""Archive: topics into partitioned Parquet files, every record exactly once.

Files lie in `topic=<name>/date=<day>/`. Spark's file sink writes down which files belong to which
batch (`_spark_metadata`), so a batch that is repeated after a crash adds nothing twice; read the
folder with Spark, or with what knows that log.
"""

import click
from odradek.spark_jobs.job import Job, folder_url, job_options, run_queries
from pyspark.sql import functions as F


@click.command()
@job_options("archive")
@click.argument("topics")
@click.argument("folder")
def archive(job: Job, topics: str, folder: str) -> None:
    """Keep TOPICS (names with commas) as Parquet files in FOLDER, a folder or URL."""
    session = job.session()
    records = job.source(session, topics).withColumn("date", F.to_date("timestamp"))
    query = job.query(records, "archive").format("parquet").partitionBy("topic", "date")
    run_queries(job, session, [lambda: query.start(folder_url(folder))])


if __name__ == "__main__":
    archive()
