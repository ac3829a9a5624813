"""`odradek container` as an image's entry calls it: nothing but variables, and a volume."""

import os
import subprocess
import sys
from pathlib import Path

from odradek.client.cli import EXIT_UNREACHABLE
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

from tests.support.network import HOST, free_port
from tests.support.processes import Process
from tests.support.raw_client import RawClient

COMMAND = [sys.executable, "-c", "from odradek.broker.main import main; main()", "container"]
CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def variables(port: int, data: Path) -> dict[str, str]:
    """Those of a single KRaft node; what is advertised is not reached from where it runs."""
    return {
        "CLUSTER_ID": CLUSTER,
        "KAFKA_NODE_ID": "7",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{HOST}:1",
        "KAFKA_LOG_DIRS": str(data),
        "KAFKA_CREATE_TOPICS": "orders:3:1:compact,users",
    }


def start(environment: dict[str, str]) -> Process:
    return Process([*COMMAND, "run"], name="container", environment=environment)


def health(environment: dict[str, str]) -> int:
    done = subprocess.run(
        [*COMMAND, "health"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done.returncode


def said_at(port: int) -> MetadataResponse:
    with RawClient(port) as client:
        response = client.ask(MetadataRequest(topics=None), 9)
    assert isinstance(response, MetadataResponse)
    return response


def test_variables_make_the_broker_and_its_topics(tmp_path: Path) -> None:
    port = free_port()
    environment = variables(port, tmp_path)
    with start(environment) as broker:
        broker.wait_for_line("Kafka Server started")
        said = said_at(port)
        assert said.cluster_id == CLUSTER
        assert [(node.node_id, node.port) for node in said.brokers] == [(7, 1)]
        found = {topic.name: len(topic.partitions) for topic in said.topics}
        assert found == {"orders": 3, "users": 1}
        assert broker.stop() == 0
    lines = "\n".join(broker.output)
    assert "[KafkaServer id=7] started" in lines
    assert "Transitioning from RECOVERY to RUNNING" in lines
    assert lines.count("it belongs to KRaft") == 1


def test_a_second_start_keeps_the_volumes_cluster(tmp_path: Path) -> None:
    port = free_port()
    environment = variables(port, tmp_path)
    for cluster in (CLUSTER, "another-cluster-id-000"):
        with start({**environment, "CLUSTER_ID": cluster}) as broker:
            broker.wait_for_line("Kafka Server started")
            assert said_at(port).cluster_id == CLUSTER
            assert broker.stop() == 0


def test_a_directory_with_other_peoples_files_is_not_prepared(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with start(variables(free_port(), tmp_path)) as broker:
        assert broker.wait() == 2
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["thesis.txt"]


def test_health_asks_the_broker_where_it_listens(tmp_path: Path) -> None:
    environment = variables(free_port(), tmp_path)
    assert health(environment) == EXIT_UNREACHABLE
    with start(environment) as broker:
        broker.wait_for_line("Kafka Server started")
        assert health(environment) == 0
        assert broker.stop() == 0


def test_settings_that_contradict_each_other_end_it_with_a_sentence(tmp_path: Path) -> None:
    environment = variables(free_port(), tmp_path)
    environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] = "1@a:9093,2@b:9093"
    with start(environment) as broker:
        assert broker.wait() == 2
    assert "odradek: controller.quorum.voters must name one voter" in "\n".join(broker.output)
