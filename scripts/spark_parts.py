"""Spark for the tests: its packages into the environment, its Kafka connector into the cache.

The connector is fetched jar by jar: what it needs beside Spark itself is known, and resolving the
poms of Spark would ask for hundreds of artifacts that pyspark brings anyway. Called by
scripts.setup alone, under its lock.
"""

import shutil
import sys
import time

from scripts.parts import (
    SPARK_LOCK,
    cache_dir,
    jar_folders,
    locked_for_spark,
    whats_missing,
    whats_wrong_with_spark,
)
from scripts.steps import run_or_explain, say

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def wanted_artifacts() -> list[str]:
    """The token provider serves delegation tokens alone, so its version matters little."""
    spark = locked_for_spark()["pyspark"]
    return [
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.12.1",
    ]


def install_packages() -> None:
    if whats_wrong_with_spark() is None:
        return
    say(f"installing the packages of {SPARK_LOCK.name}")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run_or_explain([*pip, "--requirement", str(SPARK_LOCK)])


def fetch_connector() -> None:
    libs = jar_folders()["spark-connector"]
    note = libs.parent / "artifacts.txt"
    wanted = "\n".join(wanted_artifacts())
    if libs.is_dir() and note.exists() and note.read_text() == wanted:
        return
    if reason := whats_missing("maven"):
        say(f"no Kafka connector of Spark: {reason}")
        return
    say("fetching Spark's Kafka connector with Maven")
    started = time.monotonic()
    partial = libs.with_name("libs.partial")
    for stale in (libs, partial):
        shutil.rmtree(stale, ignore_errors=True)
    libs.parent.mkdir(parents=True, exist_ok=True)
    places = [f"-DoutputDirectory={partial}", f"-Dmaven.repo.local={cache_dir() / 'm2'}"]
    for artifact in wanted_artifacts():
        if not run_or_explain(["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", *places]):
            return
    note.write_text(wanted)
    partial.rename(libs)
    say(
        f"spark-connector: {len(list(libs.glob('*.jar')))} jars in "
        f"{time.monotonic() - started:.0f} s"
    )
