"""The jobs do what plain Python computes."""

import json
import math
import re
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from odradek.spark_jobs.log_generator import Mixture, log_lines

from tests.spark.driver import Driver
from tests.spark.room import fill, fingerprint, make_topic, read
from tests.spark.standalone import StandaloneCluster
from tests.support.odradek import OdradekBroker

pytestmark = [pytest.mark.needs("spark"), pytest.mark.timeout(900)]

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
    folder, common = str(tmp_path / "archive"), ["--once", "-b", servers, "--master", "local[2]"]

    def archive() -> None:
        words = ["archive", "kept", folder, "--checkpoint", str(tmp_path / "one"), *common]
        with Driver(words, tmp_path / "archive.log") as driver:
            driver.finish()

    archive()
    fill(servers, "kept", values[1_000:])
    archive()
    assert rows_in(tmp_path / "archive") == len(values)
    assert (tmp_path / "archive" / "topic=kept" / "date=2023-11-14").is_dir()
    back = ["backfill", folder, "kept-again", "--keep-partitions"]
    with Driver(
        [*back, "--checkpoint", str(tmp_path / "two"), *common], tmp_path / "log"
    ) as driver:
        driver.finish()

    def content(topic: str) -> list[tuple[object, ...]]:
        return sorted(
            (r.partition, r.timestamp_ms, r.key, r.value, r.headers) for r in read(servers, topic)
        )

    assert content("kept-again") == content("kept")
