"""`odradek cluster`: one ready line, all brokers, and an end that leaves nothing behind."""

import os
import re
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.odradek import PROGRAM
from tests.support.processes import Process
from tests.support.records import Writer, read_all

READY = r"^Odradek ready on (\S+)"


def run(*options: str) -> Process:
    return Process([PROGRAM, "cluster", "--port", "0", *options], name="odradek cluster")


def addresses(process: Process) -> str:
    match = re.search(READY, process.wait_for_line(READY, timeout=90))
    assert match is not None
    return match[1]


def test_a_cluster_in_one_process_replicates_and_stops_cleanly(tmp_path: Path) -> None:
    process = run("--brokers", "3", "--data-dir", str(tmp_path / "data"), "--topic", "t:2")
    bootstrap = addresses(process)
    assert len(bootstrap.split(",")) == 3
    writer = Writer(bootstrap, "t")
    writer.write(range(100))
    assert not writer.finish().failed
    assert sorted(read_all(bootstrap, "t", 2)) == list(range(100))
    topic = AdminClient({"bootstrap.servers": bootstrap}).list_topics("t", timeout=10).topics["t"]
    assert all(len(partition.isrs) == 3 for partition in topic.partitions.values())
    assert process.stop() == 0
    kept = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert [name for name in kept if name.startswith("broker")] == [
        "broker-1",
        "broker-2",
        "broker-3",
    ]


def test_a_cluster_of_processes_says_which_to_kill_and_goes_on_without_it(zookeeper) -> None:
    where = f"{zookeeper.connect}/command-{os.getpid()}"
    process = run(
        *("--brokers", "2", "--ephemeral", "--zookeeper", where),
        *("-o", "zookeeper.session.timeout.ms=3000"),
    )
    bootstrap = addresses(process)
    pids = [
        int(match[1])
        for line in process.output
        if (match := re.match(r"broker \d: process (\d+) on ", line))
    ]
    assert len(pids) == len(bootstrap.split(",")) == 2
    os.kill(pids[1], 9)
    process.wait_for_line("ended with -9")
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    assert admin.list_topics(timeout=10).brokers
    assert process.stop(timeout=60) == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--data-dir", "x", "--ephemeral"], "not both"),
        (["--zookeeper", "h:1", "--topic", "t:1"], "--topic is for clusters without --zookeeper"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(options: list[str], complaint: str) -> None:
    process = Process([sys.executable, PROGRAM, "cluster", *options], name="odradek cluster")
    assert process.wait() == 2
    assert complaint in process.tail()
