"""The activity-log pipeline: raw lines in; bad lines, events and counts out.

    activity.raw ─ parse ─┬─ bad lines ──────────────────────────► activity.bad
                          └─ events, once each by event id ─┬────► activity.events
                                                            └─ windows: counts and latencies
                                                               ├──► activity.counts
                                                               └──► Parquet

A repeated event is known by its id while the watermark has not passed it; windows are written once
the watermark has. Every output is a query of its own with its own checkpoint, so each is exactly
once by itself and none waits for another.
"""

from typing import Final

import click
from odradek.spark_jobs.job import Job, folder_url, job_options, make_topics, run_queries
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FIELDS: Final = ("time", "event_id", "user", "action", "path", "status", "latency_ms")
LINE: Final = r"^(\S+) ([0-9a-f-]{36}) (\S+) (\w+) (\S+) (\d{3}) (\d{1,9})$"
PERCENTILES: Final = (0.5, 0.95, 0.99)


def parsed(records: DataFrame) -> DataFrame:
    """Every record with the fields of its line; `problem` says what is wrong with a bad one."""
    line = F.col("value").cast("string")
    fields = {name: F.regexp_extract(line, LINE, i) for i, name in enumerate(FIELDS, 1)}
    return (
        records.withColumn("line", line)
        .withColumns(fields)
        .withColumn("time", F.try_to_timestamp("time"))
        .withColumn("status", F.expr("try_cast(status AS INT)"))
        .withColumn("latency_ms", F.expr("try_cast(latency_ms AS INT)"))
        .withColumn("problem", problem(F.col("line")))
    )


def problem(line: Column) -> Column:
    """Why a line is no event; null when it is one."""
    return (
        F.when(line.isNull(), "the record has no value")
        .when(F.trim(line) == "", "the line is empty")
        .when(~line.rlike(LINE), "the line does not have the seven fields of an event")
        .when(F.col("time").isNull(), "the time is no time")
    )


def bad_records(records: DataFrame) -> DataFrame:
    """Bad lines as they came, with the reason and their place of origin in headers."""

    def header(name: str, value: Column) -> Column:
        return F.struct(
            F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value")
        )

    origin = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    return parsed(records).where("problem IS NOT NULL").select(
        "key",
        "value",
        F.array(
            header("problem", F.col("problem")),
            header("origin", F.concat_ws(":", origin, F.col("offset").cast("string"))),
        ).alias("headers"),
    )  # fmt: skip


def events(records: DataFrame, watermark: str) -> DataFrame:
    """Good lines, each event once."""
    return (
        parsed(records)
        .where("problem IS NULL")
        .select(*FIELDS)
        .withWatermark("time", watermark)
        .dropDuplicatesWithinWatermark(["event_id"])
    )


def windows(found: DataFrame, length: str) -> DataFrame:
    """Counts, errors and latencies of each action in each window of time."""
    percentiles = F.percentile_approx("latency_ms", list(PERCENTILES), 10_000)
    return (
        found.groupBy(F.window("time", length), "action")
        .agg(
            F.count("*").alias("events"),
            F.count_if(F.col("status") >= 500).alias("errors"),
            percentiles.alias("percentiles"),
        )
        .select(
            F.col("window.start").alias("start"),
            F.col("window.end").alias("end"),
            "action",
            "events",
            "errors",
            *(
                F.col("percentiles")[i].alias(f"latency_p{int(share * 100)}_ms")
                for i, share in enumerate(PERCENTILES)
            ),
        )
    )


def as_records(rows: DataFrame, key: str) -> DataFrame:
    """Rows as JSON documents, keyed by one of their columns."""
    document = F.to_json(F.struct(*rows.columns)).cast("binary")
    return rows.select(F.col(key).cast("binary").alias("key"), document.alias("value"))


@click.command()
@job_options("activity-log")
@click.option("--prefix", default="activity", show_default=True, help="What topics begin with.")
@click.option("--parquet", required=True, help="Folder or URL for the counts.")
@click.option("--window", "length", default="1 minute", show_default=True)
@click.option(
    "--watermark", default="30 seconds", show_default=True, help="How late events may be."
)
@click.option("--partitions", default=2, show_default=True, help="Of topics that must be made.")
def activity(
    job: Job, prefix: str, parquet: str, length: str, watermark: str, partitions: int
) -> None:
    """Turn raw lines of an activity log into events, counts and a topic of bad lines."""
    outputs = [f"{prefix}.{name}" for name in ("bad", "events", "counts")]
    make_topics(job.servers, [f"{prefix}.raw", *outputs], partitions)
    session = job.session()

    def raw(query: str) -> DataFrame:
        return job.source(session, f"{prefix}.raw", query)

    def counted(query: str) -> DataFrame:
        return windows(events(raw(query), watermark), length)

    found = as_records(events(raw("events"), watermark), "user")
    counts = as_records(counted("counts"), "action")
    files = counted("parquet").withColumn("date", F.to_date("start"))
    to_files = job.query(files, "parquet").format("parquet").partitionBy("date")
    starts = [
        job.to_topic(bad_records(raw("bad")), "bad", outputs[0]),
        job.to_topic(found, "events", outputs[1]),
        job.to_topic(counts, "counts", outputs[2]),
        lambda: to_files.start(folder_url(parquet)),
    ]
    run_queries(job, session, starts)


if __name__ == "__main__":
    activity()
