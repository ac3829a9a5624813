"""What every job has in common: its options, its session, its source and its queries.

A job is a command of `odradek spark` and a module for spark-submit. Its queries stop at a signal
or, with --once, when all that was there at the start is done; either way they go on later from
their checkpoint. Sources note their progress in the consumer group of the job.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TypeVar

import click
from odradek.client.admin import Admin
from odradek.client.admin_topics import NewTopic
from odradek.client.cli import pair
from odradek.client.sync import SyncAdmin
from odradek.protocol.errors import Errors, KafkaError
from odradek.spark_jobs.offsets import DataLoss, OptionError
from odradek.spark_jobs.query_run import QueryRun, Start
from odradek.spark_jobs.session import ConnectorMissing, open_session
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

T = TypeVar("T")

FORMATS = ("odradek", "kafka")
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    servers: str
    checkpoint: str
    format: str
    master: str | None
    once: bool
    interval: str
    settings: dict[str, str]
    most_per_batch: int | None

    def session(self) -> SparkSession:
        return open_session(
            self.name,
            master=self.master,
            needs_connector=self.format == "kafka",
            settings=self.settings,
        )

    def source(
        self,
        session: SparkSession,
        topics: str,
        query: str | None = None,
        how: str = "subscribe",
    ) -> DataFrame:
        """Everything committed in these topics, from their beginning.

        Of several queries each has a group of its own: they do not go on at one pace.
        """
        reader = (
            session.readStream.format(self.format)
            .option("kafka.bootstrap.servers", self.servers)
            .option(how, topics)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .option("kafka.isolation.level", "read_committed")
        )
        if self.format == "odradek":
            group = self.name if query is None else f"{self.name}-{query}"
            reader = reader.option("kafka.group.id", group)
        if self.most_per_batch is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self.most_per_batch))
        return reader.load()

    def query(self, frame: DataFrame, name: str) -> DataStreamWriter:
        """How a stream is written, but not where to. The checkpoint is the query's own."""
        writer = frame.writeStream.queryName(f"{self.name}-{name}").option(
            "checkpointLocation", f"{self.checkpoint.rstrip('/')}/{name}"
        )
        if self.once:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=self.interval)

    def to_topic(self, frame: DataFrame, name: str, topic: str) -> Start:
        writer = self.query(frame, name).format(self.format)
        start: Start = (
            writer.option("kafka.bootstrap.servers", self.servers).option("topic", topic).start
        )
        return start


def job_options(name: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the common options to a command, which then gets a `Job` as its first argument."""

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        def with_job(
            servers: str,
            checkpoint: str,
            format_: str,
            master: str | None,
            once: bool,
            interval: str,
            settings: tuple[str, ...],
            most_per_batch: int | None,
            group: str | None,
            **rest: object,
        ) -> T:
            job = Job(
                name=group or name,
                servers=servers,
                checkpoint=checkpoint,
                format=format_,
                master=master,
                once=once,
                interval=interval,
                settings=dict(pair(text) for text in settings),
                most_per_batch=most_per_batch,
            )
            return in_a_sentence(lambda: command(job, **rest))

        with_job.__name__, with_job.__doc__ = command.__name__, command.__doc__
        with_job.__click_params__ = getattr(  # type: ignore[attr-defined]
            command, "__click_params__", []
        )
        for option in reversed(_OPTIONS):
            with_job = option(with_job)
        return with_job

    return decorate


_OPTIONS = (
    click.option(
        "-b", "--bootstrap-server", "servers", default="localhost:9092", show_default=True
    ),
    click.option(
        "--checkpoint", required=True, help="Folder or URL where queries keep their state."
    ),
    click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        default="odradek",
        show_default=True,
        help="Our source and sink, or the official connector.",
    ),
    click.option("--master", help="Where Spark runs; local[*] unless spark-submit says otherwise."),
    click.option("--once", is_flag=True, help="Stop when all that is there now is done."),
    click.option(
        "--interval", default="5 seconds", show_default=True, help="Time between batches."
    ),
    click.option("--most-per-batch", type=click.IntRange(1), help="The most records of a batch."),
    click.option("--group", help="Name of the job, and of the group that shows its progress."),
    click.option("-S", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark."),
)


def in_a_sentence(work: Callable[[], T]) -> T:
    """Run a job; what the user can mend is told in one sentence."""
    try:
        return work()
    except (ConnectorMissing, DataLoss, KafkaError, OptionError) as error:
        print(f"odradek: {error}", file=sys.stderr)
    except PySparkException as error:
        print(f"odradek: {error.getMessage() or error}", file=sys.stderr)
    sys.exit(1)


def run_queries(
    job: Job,
    session: SparkSession,
    starts: list[Start],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Run the queries of a job until one fails, which fails the job, or somebody says stop; tell of
    every batch that is done.

    With --once they run one after another. Else they start one after another: each has Python
    processes to start, to which Spark gives ten seconds and no more, and a small machine needs
    them when several start at once.
    """
    is_told_to_stop = stop_signal()
    runs: list[QueryRun] = []
    try:
        for start in starts:
            if is_told_to_stop():
                break
            run = QueryRun(start)
            runs.append(run)
            while not is_told_to_stop() and not run.has_ended(LOOK_S):
                if not job.once and not run.is_starting:
                    break
        if job.once:
            return
        while not is_told_to_stop() and not any(run.has_ended(LOOK_S / len(runs)) for run in runs):
            meanwhile()
    finally:
        for run in runs:
            run.stop()
        session.stop()


def stop_signal() -> Callable[[], bool]:
    """From now on Ctrl-C and SIGTERM only leave a note: the bridge to the JVM, in which a signal
    finds the program nearly always, can neither be entered twice nor left in the middle."""
    told = Event()

    def tell(*_: object) -> None:
        if not told.is_set():
            os.write(sys.stderr.fileno(), b"odradek: stopping\n")
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, tell)
    return told.is_set


def make_topics(servers: str, topics: list[str], partitions: int) -> None:
    """Those that are not there yet."""
    wanted = [NewTopic(topic, partitions=partitions) for topic in topics]

    async def make(admin: Admin) -> None:
        for result in (await admin.create_topics(wanted)).values():
            if isinstance(result, KafkaError) and result.error is not Errors.TOPIC_ALREADY_EXISTS:
                raise result
        await admin.wait_for_topics(topics)

    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.run(make)


def folder_url(text: str) -> str:
    """A folder of this machine as an absolute path; a URL as it is."""
    return text if "://" in text else str(Path(text).absolute())
