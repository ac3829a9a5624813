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
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from benchmarks._brokers import KAFKA_NAME, Broker, cpu_seconds, kafka, odradek, why_no_kafka
from benchmarks._rows import Row, beside, tell
from scripts.parts import jar_folders, whats_missing
from tests.spark.room import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
VALUE_BYTES = 100
OFFICIAL, OURS = "kafka", "odradek"
# How a row of the result is named, of which reading of a turn it tells, and its bars: that of the
# official connector beside Kafka, and that of ours beside it. The sinks do not promise the same:
# ours writes in transactions.
WAYS = (("into a topic", "sink", 1.0, None), ("out of a topic", "source", 1.0, 0.5))


class Effort(NamedTuple):
    rows: int
    warm_rounds: int
    rounds: int


class Turn(NamedTuple):
    """Rows a second, and what each cost the broker."""

    sink: float
    source: float
    sink_cpu_us: float
    source_cpu_us: float


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


def take_turn(spark: "SparkSession", format: str, broker: Broker, topic: str, rows: int) -> Turn:
    used = [cpu_seconds(broker)]
    rates = []
    for way in (write, read):
        rates.append(way(spark, format, broker, topic, rows))
        used.append(cpu_seconds(broker))
    return Turn(*rates, *((after - before) / rows * 1e6 for before, after in pairwise(used)))


def rotated(cases: list[Case], number: int) -> list[Case]:
    """Each round begins with another case, so that none always comes after the same other."""
    first = number % len(cases)
    return cases[first:] + cases[:first]


def play(cases: dict[Case, Broker], effort: Effort) -> tuple[Turns, Turns]:
    """All turns, those that warm and those that count."""
    warm_up: Turns = {case: [] for case in cases}
    counted: Turns = {case: [] for case in cases}
    with local_spark() as spark:
        for number in range(effort.warm_rounds + effort.rounds):
            turns = warm_up if number < effort.warm_rounds else counted
            for case in rotated(list(cases), number):
                broker = cases[case]
                format, topic = case[0], f"{case[0]}-{number}"
                make_topic(broker.bootstrap, topic, PARTITIONS)
                turn = take_turn(spark, format, broker, topic, effort.rows)
                turns[case].append(turn)
                shown = f"{turn.sink:.0f} rows/s in, {turn.source:.0f} out"
                cost = f"{turn.sink_cpu_us:.2f}, {turn.source_cpu_us:.2f} µs"
                print(f"  {format} on {case[1]}: {shown}; {cost}", file=sys.stderr, flush=True)
    return warm_up, counted


def rows_of(warm_up: Turns, counted: Turns) -> Iterator[Row]:
    theirs, official, ours = (OFFICIAL, KAFKA_NAME), (OFFICIAL, "Odradek"), (OURS, "Odradek")

    def row(title: str, way: str, case: Case, peer: Case, bar: float | None) -> Row:
        return beside(
            title,
            [getattr(turn, way) for turn in counted[case]],
            "µs" if way.endswith("_us") else "rows/s",
            peer=f"{peer[0]} on {peer[1]}",
            peer_readings=[getattr(turn, way) for turn in counted[peer]],
            at_least=bar,
            peer_warm_up=[round(getattr(turn, way), 2) for turn in warm_up[peer]],
        )

    for title, way, official_bar, our_bar in WAYS:
        if theirs in counted:
            yield row(f"{title}, official connector", way, official, theirs, official_bar)
            cpu = f"broker's CPU for a row {title}"
            yield row(cpu, f"{way}_cpu_us", official, theirs, None)
        yield row(f"{title}, without a jar", way, ours, official, our_bar)


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
    effort = Effort(20_000, 1, 1) if arguments.quick else Effort(1_500_000, 3, 6)
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
