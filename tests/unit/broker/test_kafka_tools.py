"""Words for Kafka's tools, said to odradek."""

import pytest
from odradek.broker.kafka_tools import UnknownWords, translated

SERVER = "--bootstrap-server kafka:9092"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (f"kafka-topics {SERVER} --list", "topic list --internal -b kafka:9092"),
        (
            f"kafka-topics.sh --list {SERVER} --exclude-internal",
            "topic list -b kafka:9092",
        ),
        (
            f"kafka-topics --create --topic orders --partitions 3 --replication-factor 1 "
            f"--if-not-exists --config retention.ms=1 --config=cleanup.policy=compact {SERVER}",
            "topic create orders -p 3 -c retention.ms=1 -c cleanup.policy=compact -r 1 "
            "--if-not-exists -b kafka:9092",
        ),
        (f"kafka-topics {SERVER} --describe", "topic describe -b kafka:9092"),
        (f"kafka-topics {SERVER} --delete --topic x", "topic delete x -b kafka:9092"),
        (
            f"kafka-topics {SERVER} --alter --topic x --partitions 9",
            "topic alter x -p 9 -b kafka:9092",
        ),
        (f"kafka-broker-api-versions.sh {SERVER}", "api-versions -b kafka:9092"),
        (
            "kafka-console-producer --broker-list kafka:9092 --topic x",
            "produce x -b kafka:9092",
        ),
        (
            f"kafka-console-producer {SERVER} --topic x --property parse.key=true "
            "--property key.separator=:",
            "produce x -K : -b kafka:9092",
        ),
        (
            f"kafka-console-consumer {SERVER} --topic x --from-beginning --max-messages 5",
            "consume x --follow -o beginning -n 5 -b kafka:9092",
        ),
        (
            f"kafka-console-consumer {SERVER} --topic x --group g",
            "consume x --follow -g g -b kafka:9092",
        ),
        (
            f"kafka-console-consumer {SERVER} --topic x",
            "consume x --follow -o end -b kafka:9092",
        ),
    ],
)
def test_words_for_kafkas_tools_become_ours(said: str, meant: str) -> None:
    tool, *words = said.split()
    assert translated(tool, words) == meant.split()


@pytest.mark.parametrize(
    "said",
    [
        "kafka-topics --list",
        f"kafka-topics {SERVER}",
        f"kafka-topics {SERVER} --list --create",
        f"kafka-topics {SERVER} --create",
        f"kafka-topics {SERVER} --list --no-such-option",
        f"kafka-topics {SERVER} --delete --topic x --if-exists",
        f"kafka-console-producer {SERVER} --topic x --property ignore.error=true",
        f"kafka-console-consumer {SERVER}",
        "kafka-acls --list",
    ],
)
def test_what_cannot_be_said_is_refused(said: str) -> None:
    tool, *words = said.split()
    with pytest.raises(UnknownWords):
        translated(tool, words)
