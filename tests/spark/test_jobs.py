"""The jobs do what plain Python computes."""

import json
import math
import re
import socket
import sys
from collections import defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from odradek.client.sync import SyncAdmin
from odradek.client.values import ConsumerRecord, OffsetAndMetadata
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.log_generator import Mixture, log_lines

from scripts.parts import ROOT
from tests.spark.driver import DONE_S, SMALL, Driver
from tests.spark.room import fill, fingerprint, make_topic, read
from tests.spark.standalone import StandaloneCluster
from tests.support.odradek import OdradekBroker
from tests.support.processes import Process

pytestmark = [pytest.mark.needs("spark"), pytest.mark.timeout(1800)]

LINES = 20_000
EVENT = re.compile(r"(\S+) ([0-9a-f-]{36}) (\S+) (\w+) (\S+) (\d{3}) (\d+)")
WINDOW = timedelta(minutes=1)
WATERMARK = timedelta(seconds=30)

Windows = dict[tuple[datetime, str], list[tuple[int, int]]]


def events_of(lines: list[str]) -> tuple[dict[str, re.Match[str]], list[str]]:
    """Events by id, and what is none."""
    events: dict[str, re.Match[str]] = {}
    bad: list[str] = []
    for line in lines:
        found = EVENT.fullmatch(line)
        if found is None:
            bad.append(line)
        else:
            events[found[2]] = found
    return events, bad


def windows_of(events: dict[str, re.Match[str]]) -> dict[tuple[str, str], tuple[int, ...]]:
    """Events, errors and latencies of every window that the watermark has passed."""
    windows: Windows = defaultdict(list)
    times = []
    for event in events.values():
        time = datetime.fromisoformat(event[1])
        times.append(time)
        start = time.replace(second=0, microsecond=0)
        windows[start, event[4]].append((int(event[6]), int(event[7])))
    passed = max(times) - WATERMARK
    return {
        (start.isoformat(timespec="milliseconds").replace("+00:00", "Z"), action): (
            len(found),
            sum(status >= 500 for status, _ in found),
            *percentiles(sorted(latency for _, latency in found)),
        )
        for (start, action), found in windows.items()
        if start + WINDOW <= passed
    }


def percentiles(ordered: list[int]) -> list[int]:
    return [ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.95, 0.99)]


def test_the_activity_log_pipeline_on_a_cluster_of_two_workers(
    broker: OdradekBroker, tmp_path: Path
):
    servers = broker.bootstrap
    make_topic(servers, "site.raw", 2)
    generated = ["generate", "--topic", "site.raw", "--count", str(LINES), "-b", servers]
    with Driver(generated, tmp_path / "generate.log", settings=()) as generator:
        assert f"{LINES} lines to site.raw" in generator.finish()
    with StandaloneCluster(tmp_path / "spark", workers=2) as cluster:
        words = ["activity", "--prefix", "site", "--once", "-b", servers]
        places = ["--checkpoint", str(tmp_path / "state"), "--parquet", str(tmp_path / "counts")]
        small = ["--master", cluster.master, "-S", "spark.executor.memory=512m"]
        with Driver([*words, *places, *small], tmp_path / "activity.log") as driver:
            driver.finish(600)
        used = set(re.findall(r"Launching executor \S+ on worker (\S+)", cluster.output()))
    assert len(used) == 2, "both workers had their part"

    events, bad = events_of([line.text for line in log_lines(Mixture(), LINES)])
    rejected = read(servers, "site.bad")
    assert sorted(record.value.decode() for record in rejected) == sorted(bad)
    assert all(dict(record.headers)["origin"].startswith(b"site.raw-") for record in rejected)
    found = [json.loads(record.value) for record in read(servers, "site.events")]
    assert fingerprint((e["event_id"], e["latency_ms"]) for e in found) == fingerprint(
        (event_id, int(event[7])) for event_id, event in events.items()
    )
    counts = {
        (row["start"], row["action"]): (
            *(row["events"], row["errors"]),
            *(row[f"latency_p{share}_ms"] for share in (50, 95, 99)),
        )
        for row in (json.loads(record.value) for record in read(servers, "site.counts"))
    }
    assert counts == windows_of(events)
    assert rows_in(tmp_path / "counts") == len(counts)


def rows_in(folder: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))


def test_what_was_archived_comes_back_as_it_was(broker: OdradekBroker, tmp_path: Path):
    servers = broker.bootstrap
    values = [f"value-{number:05}" for number in range(2_000)]
    for topic in ("kept", "kept-again"):
        make_topic(servers, topic, 2)
    fill(servers, "kept", values[:1_000], timestamp_ms=1_700_000_000_000, headers=[("h", b"1")])
    folder, common = str(tmp_path / "archive"), ["-b", servers, "--master", "local[2]"]
    archive = ["archive", "kept", folder, "--checkpoint", str(tmp_path / "one"), *common]
    # The first goes on until it is told to stop, the second goes on where that was.
    with Driver(archive, tmp_path / "first.log") as driver:
        driver.wait_until(lambda: "batch 0 done, 1000 rows" in driver.tail())
        driver.stop()
        driver.finish()
    fill(servers, "kept", values[1_000:])
    with Driver([*archive, "--once"], tmp_path / "second.log") as driver:
        assert "archive-archive: batch 1 done, 1000 rows in " in driver.finish()
    assert rows_in(tmp_path / "archive") == len(values)
    assert (tmp_path / "archive" / "topic=kept" / "date=2023-11-14").is_dir()
    back = ["backfill", folder, "kept-again", "--keep-partitions", "--once"]
    with Driver(
        [*back, "--checkpoint", str(tmp_path / "two"), *common], tmp_path / "log"
    ) as driver:
        driver.finish()

    def content(topic: str) -> list[tuple[object, ...]]:
        return sorted(
            (r.partition, r.timestamp_ms, r.key, r.value, r.headers) for r in read(servers, topic)
        )

    assert content("kept-again") == content("kept")


def test_a_job_is_a_file_for_spark_submit(broker: OdradekBroker, tmp_path: Path):
    import pyspark
    from odradek.spark_jobs import archive

    servers = broker.bootstrap
    make_topic(servers, "submitted", 2)
    fill(servers, "submitted", [f"{number:04}" for number in range(100)])
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    small = ["--conf" if word == "-S" else word for word in SMALL]
    places = [tmp_path / "out", "--checkpoint", tmp_path / "state"]
    words = [submit, "--master", "local[2]", *small, archive.__file__, "submitted", *places]
    python = {"PYSPARK_PYTHON": sys.executable}
    with Process(
        [*words, "--once", "-b", servers], name="spark-submit", environment=python
    ) as submitted:
        assert submitted.wait(DONE_S) == 0, submitted.tail()
    assert rows_in(tmp_path / "out") == 100


def test_a_mirror_makes_topics_like_a_pattern_and_takes_groups_along(
    broker: OdradekBroker, tmp_path: Path
):
    servers = broker.bootstrap
    for topic in ("north.a", "north.b"):
        make_topic(servers, topic, 2)
        fill(servers, topic, [f"{topic}-{number:04}" for number in range(400)])
    # Copied into the middle of what is there, so offsets cannot be the same.
    make_topic(servers, "copy.north.a", 1)
    fill(servers, "copy.north.a", ["not a copy"])
    places = {
        TopicPartition(topic, index): OffsetAndMetadata(17 + index)
        for topic in ("north.a", "north.b")
        for index in (0, 1)
    }
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.run(lambda client: client.alter_group_offsets("moving", places))
        words = ["mirror", r"north\..*", "--pattern", "--groups", "mov.*", "--prefix", "copy."]
        where = ["--to", servers, "-b", servers, "--checkpoint", str(tmp_path / "state"), "--once"]
        small = ["--master", "local[2]", "--most-per-batch", "300"]
        with Driver([*words, *where, *small], tmp_path / "log") as driver:
            driver.finish()
        moved = admin.run(lambda client: client.list_group_offsets("moving"))
    for partition, place in places.items():
        copy = TopicPartition(f"copy.{partition.topic}", partition.partition)
        left = [r.value for r in read(servers, partition.topic) if left_in(r, partition, place)]
        over_there = read(servers, copy.topic)
        assert [r.value for r in over_there if left_in(r, copy, moved[copy])] == left


def left_in(record: ConsumerRecord, partition: TopicPartition, position: OffsetAndMetadata) -> bool:
    """Whether a group at this position has the record before it."""
    place = TopicPartition(record.topic, record.partition)
    return place == partition and record.offset >= position.offset


def test_the_pipeline_of_make_shows_windows_until_it_is_stopped(tmp_path: Path):
    words = [sys.executable, "-m", "scripts.pipeline", "--folder", tmp_path / "pipeline"]
    with Process(words, name="pipeline", cwd=ROOT) as pipeline:
        said = pipeline.wait_for_line("^A broker on ")
        for action in ("view", "buy"):
            pipeline.wait_for_line(rf"^2026-01-01T00:\d\d {action} +\d+ events", timeout=300)
        pipeline.interrupt()
        assert pipeline.wait(120) == 0
    host, port = said.split()[3].rstrip(",").split(":")
    with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port))):
        pass
    assert not processes_that_name(tmp_path)


def processes_that_name(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(path.read_text(errors="replace"))
    return [words for words in found if str(folder) in words]
