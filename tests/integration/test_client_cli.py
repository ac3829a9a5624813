"""The client's verbs of the command line, as a user types them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from odradek.broker.main import main

from tests.support.kafka import KafkaBroker
from tests.support.network import HOST, free_port
from tests.support.odradek import OdradekBroker

Fresh = Callable[[str], str]
Run = Callable[..., Result]

PROGRAM = Path(sys.executable).with_name("odradek")


@pytest.fixture
def run(bootstrap: str) -> Run:
    """Run a verb to its end, which must be this exit code."""

    def run(*words: str, stdin: str = "", code: int = 0) -> Result:
        done = CliRunner().invoke(main, [*words, "-b", bootstrap], input=stdin)
        assert done.exit_code == code, done.output
        return done

    return run


def test_a_topics_life(run: Run, fresh: Fresh) -> None:
    name = fresh("topic")
    created = run("topic", "create", name, "-p", "2", "-c", "retention.ms=60000")
    assert created.stdout == f"Created topic {name}.\n"
    again = run("topic", "create", name, code=1)
    assert again.stderr.startswith("odradek: TOPIC_ALREADY_EXISTS")
    run("topic", "create", name, "--if-not-exists")
    assert name in run("topic", "list").stdout.splitlines()
    assert name in json.loads(run("topic", "list", "--json").stdout)
    run("topic", "alter", name, "-p", "3", "-d", "retention.ms")
    (told,) = json.loads(run("topic", "describe", name, "--json").stdout)
    assert told["name"] == name
    assert "PARTITION  LEADER" in run("topic", "describe", name).stdout
    assert run("topic", "delete", name).stdout.splitlines()[1].split() == [name, "deleted"]
    assert "UNKNOWN_TOPIC" in run("topic", "delete", fresh("missing"), code=1).stdout


def test_what_is_produced_is_consumed(run: Run, fresh: Fresh) -> None:
    name = fresh("topic")
    run("topic", "create", name, "-p", "1")
    run("produce", name, "-K", ":", "-Z", "NULL", "-H", "from=test", stdin="a:1\nb:2\nc:NULL\n")
    assert run("consume", name).stdout == "1\n2\n\n"
    layout = r"%p/%o %k=%s %S [%h]\n"
    shown = run("consume", name, "-F", layout, "-Z", "~").stdout
    assert shown == "0/0 a=1 1 [from=test]\n0/1 b=2 1 [from=test]\n0/2 c=~ -1 [from=test]\n"
    assert run("consume", name, "-o", "-2", "-n", "1").stdout == "2\n"
    assert run("consume", name, "-o", "1", "-n", "1").stdout == "2\n"
    assert run("consume", name, "-o", "end").stdout == ""
    lines = [json.loads(line) for line in run("consume", name, "--json").stdout.splitlines()]
    assert [line["value"] for line in lines] == ["1", "2", None]
    at_second = f"@{lines[1]['timestamp']}"
    assert "2" in run("consume", name, "-o", at_second).stdout.splitlines()


def test_json_goes_from_one_topic_to_another(run: Run, fresh: Fresh) -> None:
    old, new = fresh("old"), fresh("new")
    for name in (old, new):
        run("topic", "create", name, "-p", "1")
    run("produce", old, "-k", "key", "-z", "gzip", stdin="grüße\nzwei\n")
    copied = run("consume", old, "--json").stdout
    run("produce", new, "--from-json", stdin=copied)
    run("produce", new, "--whole", stdin="one\nrecord\n")
    assert run("consume", new, "-F", r"%k=%s;").stdout == "key=grüße;key=zwei;=one\nrecord\n;"


def test_groups_read_on_and_are_reset(run: Run, fresh: Fresh) -> None:
    name, group = fresh("topic"), fresh("group")
    run("topic", "create", name, "-p", "1")
    run("produce", name, stdin="1\n2\n3\n")
    assert run("consume", name, "-g", group, "-n", "2").stdout == "1\n2\n"
    assert run("consume", name, "-g", group).stdout == "3\n"
    told = json.loads(run("group", "describe", group, "--json").stdout)
    assert told["state"] == "Empty"
    assert told["offsets"][0]["lag"] == 0
    assert group in run("group", "list").stdout
    run("group", "reset", group, "-t", name, "--to", "1", "--dry-run")
    run("group", "reset", group, "-t", name, "--to", "beginning")
    assert run("consume", name, "-g", group).stdout == "1\n2\n3\n"
    assert "deleted" in run("group", "delete", group).stdout


def test_settings_are_shown_and_changed(run: Run, fresh: Fresh) -> None:
    name = fresh("topic")
    run("topic", "create", name, "-c", "retention.ms=60000")
    shown = json.loads(run("config", "describe", "topic", name, "--json").stdout)
    assert {"name": "retention.ms", "value": "60000", "source": "topic"} in shown
    run("config", "alter", "topic", name, "-c", "retention.ms=70000", "--dry-run")
    run("config", "alter", "topic", name, "-c", "retention.ms=80000")
    refused = run("config", "alter", "topic", name, "-c", "retention.ms=soon", code=1)
    assert "INVALID_CONFIG" in refused.stderr
    assert "retention.ms" in run("config", "describe", "topic", name, "--all").stdout


def test_the_cluster_is_looked_at(run: Run) -> None:
    versions = json.loads(run("api-versions", "--json").stdout)
    assert {row["api"] for row in versions} >= {"Produce", "Fetch", "Metadata"}
    assert json.loads(run("health", "--json").stdout)["healthy"]
    assert run("health").stdout.endswith("healthy\n")


def test_a_cluster_is_measured_and_left_as_it_was(run: Run) -> None:
    before = run("topic", "list").stdout
    rows = json.loads(run("bench", "-n", "500", "-s", "10", "-p", "3", "--json").stdout)
    assert [row["what"] for row in rows] == ["send", "send and wait", "read"]
    assert [row["records"] for row in rows] == [500, 500, 1001]
    assert all(row["per_second"] > 0 for row in rows)
    assert rows[1]["p50_ms"] <= rows[1]["p99_ms"]
    assert "send and wait" in run("bench", "-n", "10").stdout
    assert run("topic", "list").stdout == before


def test_wrong_usage_and_absent_clusters_have_their_own_exit_codes(run: Run, fresh: Fresh) -> None:
    assert "means nothing" in run("consume", "topic", "-F", "%q", code=2).stderr
    assert "Unknown configuration" in run("topic", "list", "-X", "no.such=1", code=2).stderr
    missing = run("consume", fresh("missing"), code=1)
    assert missing.stderr.startswith("odradek: UNKNOWN_TOPIC_OR_PARTITION")
    nobody = [PROGRAM, "topic", "list", "-b", f"{HOST}:{free_port()}"]
    done = subprocess.run(nobody, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "Connect call failed" in done.stderr or "refused" in done.stderr


def test_segments_are_dumped(run: Run, fresh: Fresh, server: KafkaBroker | OdradekBroker) -> None:
    name = fresh("topic")
    run("topic", "create", name, "-p", "1")
    run("produce", name, "-k", "key", stdin="value\n")
    logs = server.log_dir if isinstance(server, KafkaBroker) else server.data_dir
    segment = logs / f"{name}-0" / ("0" * 20 + ".log")
    dumped = CliRunner().invoke(main, ["dump-log", str(segment), "--records", "--json"])
    batch, record = map(json.loads, dumped.stdout.splitlines())
    assert (batch["base_offset"], batch["count"], batch["codec"]) == (0, 1, "none")
    assert (record["key"], record["value"]) == ("key", "value")
