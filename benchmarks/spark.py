"""How many rows a second go through Spark, into a topic and out of it?

The official connector on Odradek beside the same on Apache Kafka 3.9; and our own source and sink
without a jar beside the official connector, both on Odradek. Where no Kafka is at hand, the first
comparison is left out.

One Spark with two cores for all of them, 100-byte values, two partitions. A turn writes a topic and
reads it. Turns alternate, and the first rounds of all do not count: they warm the JVMs.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from benchmarks._brokers import KAFKA_NAME, Broker, kafka, odradek, why_no_kafka
from benchmarks._rows import Row, beside, tell
from scripts.parts import jar_folders, whats_missing
from tests.spark.room import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
VALUE_BYTES = 100
OFFICIAL, OURS = "kafka", "odradek"
# How a row of the result is named, and of which reading of a turn it tells.
WAYS = (("into a topic", "sink"), ("out of a topic", "source"))


class Effort(NamedTuple):
    rows: int
    warm_rounds: int
    rounds: int


class Turn(NamedTuple):
    """Rows a second."""

    sink: float
    source: float


# One format on one broker.
Case = tuple[str, str]
Turns = dict[Case, list[Turn]]


@contextmanager
def local_spark() -> Iterator["SparkSession"]:
    from odradek.spark_jobs.session import JARS_VARIABLE, open_session

    os.environ[JARS_VARIABLE] = str(jar_folders()["spark-connector"])
    session = open_session("benchmark", master="local[2]", needs_connector=True)
    try:
        yield session
    finally:
        session.stop()


def write(spark: "SparkSession", format: str, broker: Broker, topic: str, rows: int) -> float:
    frame = spark.range(rows, numPartitions=PARTITIONS).selectExpr(
        "CAST(id AS STRING) AS key", f"rpad(CAST(id AS STRING), {VALUE_BYTES}, 'x') AS value"
    )
    writer = frame.write.format(format).option("kafka.bootstrap.servers", broker.bootstrap)
    began = time.monotonic()
    writer.option("topic", topic).mode("append").save()
    return rows / (time.monotonic() - began)


def read(spark: "SparkSession", format: str, broker: Broker, topic: str, rows: int) -> float:
    reader = spark.read.format(format).option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.option("subscribe", topic).load()
    began = time.monotonic()
    (found,) = frame.selectExpr("count(*) AS n", "sum(length(value)) AS bytes").collect()
    took = time.monotonic() - began
    assert (found.n, found.bytes) == (rows, VALUE_BYTES * rows), found
    return rows / took


def play(cases: dict[Case, Broker], effort: Effort) -> tuple[Turns, Turns]:
    """All turns, those that warm and those that count."""
    warm_up: Turns = {case: [] for case in cases}
    counted: Turns = {case: [] for case in cases}
    with local_spark() as spark:
        for number in range(effort.warm_rounds + effort.rounds):
            turns = warm_up if number < effort.warm_rounds else counted
            for case, broker in cases.items():
                format, topic = case[0], f"{case[0]}-{number}"
                make_topic(broker.bootstrap, topic, PARTITIONS)
                turn = Turn(
                    write(spark, format, broker, topic, effort.rows),
                    read(spark, format, broker, topic, effort.rows),
                )
                turns[case].append(turn)
                shown = f"{turn.sink:.0f} rows/s in, {turn.source:.0f} out"
                print(f"  {format} on {case[1]}: {shown}", file=sys.stderr, flush=True)
    return warm_up, counted


def rows_of(warm_up: Turns, counted: Turns) -> Iterator[Row]:
    theirs, official, ours = (OFFICIAL, KAFKA_NAME), (OFFICIAL, "Odradek"), (OURS, "Odradek")
    for title, way in WAYS:

        def rates(turns: Turns, case: Case, way: str = way) -> list[float]:
            return [getattr(turn, way) for turn in turns[case]]

        if theirs in counted:
            yield beside(
                f"{title}, official connector",
                rates(counted, official),
                "rows/s",
                peer=f"on {KAFKA_NAME}",
                peer_readings=rates(counted, theirs),
                at_least=1.0,
                peer_warm_up=[round(rate) for rate in rates(warm_up, theirs)],
            )
        yield beside(
            f"{title}, without a jar",
            rates(counted, ours),
            "rows/s",
            peer="official connector, on Odradek",
            peer_readings=rates(counted, official),
            # The sinks do not promise the same: ours writes in transactions.
            at_least=0.5 if way == "source" else None,
            peer_warm_up=[round(rate) for rate in rates(warm_up, official)],
        )


def rows(effort: Effort) -> Iterator[Row]:
    for part in ("spark", "spark-connector"):
        if reason := whats_missing(part):
            print(f"  nothing to measure: {reason}", file=sys.stderr)
            return
    with ExitStack() as stack:
        broker = stack.enter_context(odradek())
        cases: dict[Case, Broker] = {(OFFICIAL, "Odradek"): broker}
        if reason := why_no_kafka():
            print(f"  nothing to compare with: {reason}", file=sys.stderr)
        else:
            cases[OFFICIAL, KAFKA_NAME] = stack.enter_context(kafka())
        cases[OURS, "Odradek"] = broker
        yield from rows_of(*play(cases, effort))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows, one round")
    arguments = parser.parse_args()
    load_average = os.getloadavg()[0]
    effort = Effort(20_000, 1, 1) if arguments.quick else Effort(1_500_000, 3, 5)
    result = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average_before": round(load_average, 2),
        "effort": effort._asdict(),
        "rows": [tell(row) for row in rows(effort)],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
