"""`odradek serve` as an operator meets it: one line when ready, one sentence when it cannot."""

import io
import json
import os
import pstats
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

from tests.support.network import HOST, answers_api_versions
from tests.support.processes import Process
from tests.support.raw_client import RawClient

COMMAND = [sys.executable, "-c", "from odradek.broker.main import main; main()"]


def start(*arguments: str | Path, environment: dict[str, str] | None = None) -> Process:
    return Process([*COMMAND, *arguments], name="odradek", environment=environment)


def ready_port(process: Process) -> int:
    line = process.wait_for_line("^Odradek ready on ")
    return int(line.rpartition(":")[2])


def run_to_its_end(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


def assert_a_friendly_refusal(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    sentences = [line for line in done.stderr.splitlines() if line.startswith("odradek: ")]
    assert len(sentences) == 1
    for word in words:
        assert word in sentences[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_when_it_says_so_and_a_signal_stops_it(tmp_path: Path, number: int) -> None:
    with start("serve", "--port", "0", "--host", HOST, "--data-dir", tmp_path) as broker:
        assert answers_api_versions(ready_port(broker))
        os.kill(broker.pid, number)
        assert broker.wait() == 0


def test_serving_is_what_happens_without_a_verb() -> None:
    with start("--port", "0", "--ephemeral") as broker:
        line = broker.wait_for_line("^Odradek ready on ")
        assert line.startswith("Odradek ready on localhost:")
        assert answers_api_versions(ready_port(broker))


def test_standard_output_has_the_one_line_and_nothing_else(tmp_path: Path) -> None:
    command = [*COMMAND, "--port", "0", "--log-level", "debug", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        line = broker.stdout.readline()
        assert line.startswith("Odradek ready on ")
        broker.terminate()
        rest, _ = broker.communicate(timeout=30)
        assert rest == ""
        assert broker.returncode == 0


def test_ephemeral_data_is_gone_at_the_end(tmp_path: Path) -> None:
    environment = {"TMPDIR": str(tmp_path)}
    with start("--port", "0", "--ephemeral", environment=environment) as broker:
        ready_port(broker)
        assert len(list(tmp_path.glob("odradek-*"))) == 1
        assert broker.stop() == 0
    assert list(tmp_path.glob("odradek-*")) == []


def test_a_taken_port_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_to_its_end("--host", HOST, "--port", str(port), "--data-dir", tmp_path)
    assert_a_friendly_refusal(done, str(port), "taken")


def test_a_data_directory_in_use_is_said_in_one_sentence(tmp_path: Path) -> None:
    with start("--port", "0", "--data-dir", tmp_path) as broker:
        ready_port(broker)
        done = run_to_its_end("--port", "0", "--data-dir", tmp_path)
    assert_a_friendly_refusal(done, str(tmp_path), "in use")


def test_somebody_elses_directory_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("")
    done = run_to_its_end("--port", "0", "--data-dir", tmp_path)
    assert_a_friendly_refusal(done, "holiday.jpg")


def test_a_file_as_data_directory_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_to_its_end("--port", "0", "--data-dir", tmp_path / "file")
    assert_a_friendly_refusal(done, "cannot be used")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "num.io.threads=many"], ["num.io.threads", "many"]),
        (["-o", "nonsense"], ["nonsense"]),
        (["-o", "max.connections.per.ip.overrides=x"], ["max.connections.per.ip.overrides"]),
        (["--config", "no-such-file"], ["no-such-file"]),
        (["--topic", "orders:x"], ["orders:x"]),
        (["--data-dir", "somewhere"], ["--ephemeral"]),
    ],
)
def test_a_bad_setting_is_said_in_one_sentence(arguments: list[str], words: list[str]) -> None:
    done = run_to_its_end("--port", "0", "--ephemeral", *arguments)
    assert_a_friendly_refusal(done, *words)


def test_settings_come_from_a_file_and_options_stand_before_it(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"listeners=PLAINTEXT://{HOST}:1\nmax.connections=1\n")
    with start("--config", config, "--port", "0", "--host", HOST, "--ephemeral") as broker:
        port = ready_port(broker)
        with RawClient(port) as first, RawClient(port) as second:
            assert second.is_closed()
            first.close()


def test_wanted_topics_are_there_when_it_says_that_it_is_ready() -> None:
    wanted = ("--topic", "orders:3", "--topic", "events:1")
    with (
        start("--port", "0", "--ephemeral", *wanted) as broker,
        RawClient(ready_port(broker)) as client,
    ):
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = client.ask(request, 9)
        assert isinstance(response, MetadataResponse)
        counts = {topic.name: len(topic.partitions) for topic in response.topics}
        assert counts == {"orders": 3, "events": 1}


def test_the_log_can_be_json(tmp_path: Path) -> None:
    with start("--port", "0", "--ephemeral", "--log-format", "json") as broker:
        with RawClient(ready_port(broker)) as client:
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            assert client.is_closed()
        broker.stop()
    entries = [json.loads(line) for line in broker.output if line.startswith("{")]
    complaint = next(entry for entry in entries if "HTTP" in entry["message"])
    assert complaint["level"] == "warning"
    assert set(complaint) == {"time", "level", "logger", "message"}


def sleeps(process: Process) -> bool:
    """Whether the process waits for something to happen."""
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "S"


@pytest.mark.parametrize("microseconds", ["0", "10000"])
def test_after_the_last_request_it_sleeps_however_long_it_may_look(microseconds: str) -> None:
    environment = {"ODRADEK_BUSY_POLL_US": microseconds}
    with start("--port", "0", "--ephemeral", environment=environment) as broker:
        port = ready_port(broker)
        for _ in range(20):
            assert answers_api_versions(port)
        deadline = time.monotonic() + 30
        while not sleeps(broker):
            assert time.monotonic() < deadline


def test_a_second_signal_ends_it_at_once() -> None:
    # Both signals are there when it wakes up, so the second comes before the first was served.
    with start("--port", "0", "--ephemeral") as broker:
        ready_port(broker)
        broker.pause()
        os.kill(broker.pid, signal.SIGINT)
        os.kill(broker.pid, signal.SIGTERM)
        broker.resume()
        assert broker.wait() in (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)


def test_a_profile_of_the_run_is_written_at_its_end(tmp_path: Path) -> None:
    profile = tmp_path / "serve.profile"
    with start("--port", "0", "--ephemeral", "--profile", profile) as broker:
        assert answers_api_versions(ready_port(broker))
        assert not profile.exists()
        assert broker.stop() == 0
    written = io.StringIO()
    pstats.Stats(str(profile), stream=written).print_stats("run_broker|versions.py")
    assert "(run_broker)" in written.getvalue()
    assert "handlers/versions.py" in written.getvalue()


def test_help_names_every_option() -> None:
    done = run_to_its_end("serve", "--help")
    assert done.returncode == 0
    for option in ("--port", "--host", "--data-dir", "--ephemeral", "--config", "-o", "--topic"):
        assert option in done.stdout
    assert "--busy-poll-us" in done.stdout
    assert "serve" in run_to_its_end("--help").stdout
