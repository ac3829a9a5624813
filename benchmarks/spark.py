"""How many rows a second go through Spark, into a topic and out of it?

The official connector on Odradek and, with `--kafka`, on Apache Kafka 3.9; and our own source and
sink without a jar on Odradek. One Spark with two cores for all of them; 100-byte values; rounds
alternate, and the best of each counts, because the first ones warm the JVMs.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from benchmarks._brokers import KAFKA_NAME, Broker, kafka, odradek
from scripts.parts import jar_folders, whats_missing
from tests.spark.room import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
OFFICIAL, OURS = "kafka", "odradek"
Rates = dict[str, dict[str, list[int]]]


@contextmanager
def local_spark() -> Iterator["SparkSession"]:
    from odradek.spark_jobs.session import JARS_VARIABLE, open_session

    os.environ[JARS_VARIABLE] = str(jar_folders()["spark-connector"])
    session = open_session("benchmark", master="local[2]", needs_connector=True)
    yield session
    session.stop()


def write(spark: "SparkSession", format: str, broker: Broker, topic: str, rows: int) -> float:
    frame = spark.range(rows, numPartitions=PARTITIONS).selectExpr(
        "CAST(id AS STRING) AS key", "rpad(CAST(id AS STRING), 100, 'x') AS value"
    )
    writer = frame.write.format(format).option("kafka.bootstrap.servers", broker.bootstrap)
    began = time.monotonic()
    writer.option("topic", topic).mode("append").save()
    return time.monotonic() - began


def read(spark: "SparkSession", format: str, broker: Broker, topic: str, rows: int) -> float:
    reader = spark.read.format(format).option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.option("subscribe", topic).load()
    began = time.monotonic()
    (found,) = frame.selectExpr("count(*) AS n", "sum(length(value)) AS bytes").collect()
    assert (found.n, found.bytes) == (rows, 100 * rows), found
    return time.monotonic() - began


def measure(brokers: dict[str, Broker], rows: int, rounds: int) -> Rates:
    rates: Rates = {}
    cases = [(OFFICIAL, name) for name in brokers] + [(OURS, "Odradek")]
    with local_spark() as spark:
        for turn in range(rounds):
            for format, name in cases:
                broker, topic = brokers[name], f"{format}-{turn}"
                make_topic(broker.bootstrap, topic, PARTITIONS)
                found = rates.setdefault(f"{format} on {name}", {"sink": [], "source": []})
                seconds = write(spark, format, broker, topic, rows)
                found["sink"].append(round(rows / seconds))
                seconds = read(spark, format, broker, topic, rows)
                found["source"].append(round(rows / seconds))
                print(f"  {format} on {name}: {found}", file=sys.stderr, flush=True)
    return rates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kafka", action="store_true", help=f"measure {KAFKA_NAME} too")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for part in ("spark", "spark-connector"):
        if reason := whats_missing(part):
            print(json.dumps({"skipped": reason}))
            return 0
    rows, rounds = (20_000, 1) if arguments.quick else (arguments.rows, arguments.rounds)
    with ExitStack() as stack:
        brokers: dict[str, Broker] = {"Odradek": stack.enter_context(odradek())}
        if arguments.kafka:
            brokers[KAFKA_NAME] = stack.enter_context(kafka())
        rates = measure(brokers, rows, rounds)
    best = {name: {way: max(found) for way, found in ways.items()} for name, ways in rates.items()}
    print(json.dumps({"rows": rows, "rows_per_second": best, "rounds": rates}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
