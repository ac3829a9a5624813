"""The workers of Apache Kafka's own system tests, which run against any cluster.

Each is a program from Kafka's jars that reports what it did; the checks that the system tests make
of those reports are made here. A fresh topic of four partitions, on three replicas where there are
three brokers, is the stage of each.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from odradek.protocol.messages.acls import DescribeAclsRequest
from odradek.protocol.messages.versions import ApiVersionsRequest, ApiVersionsResponse

from scripts.parts import KAFKA_ON_ZOOKEEPER, kafka_libs
from tests.conformance.results import Outcome, Result
from tests.conformance.suite import Job, Suite
from tests.support.java import java_command, java_tool
from tests.support.processes import Process
from tests.support.raw_client import RawClient

TOOLS = "org.apache.kafka.tools"
ASSIGNORS = (
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "CooperativeStickyAssignor",
)
MESSAGES = 20_000
PARTITIONS = 4
SECONDS = 240.0

Event = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Stage:
    """A fresh topic on the cluster, and the workers that play there."""

    bootstrap: str
    replicas: int
    topic: str

    @classmethod
    def on(cls, seeds: Sequence[str]) -> "Stage":
        stage = cls(",".join(seeds), min(3, len(seeds)), f"workers-{uuid4().hex[:8]}")
        stage.make(stage.topic)
        return stage

    def make(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = NewTopic(topic, PARTITIONS, self.replicas)
        admin.create_topics([new])[topic].result(SECONDS)

    def remove(self, topic: str) -> None:
        """Wait until the name is free: deletion takes its time."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        if topic not in admin.list_topics(timeout=SECONDS).topics:
            return
        admin.delete_topics([topic])[topic].result(SECONDS)
        deadline = time.monotonic() + SECONDS
        while topic in admin.list_topics(timeout=SECONDS).topics:
            assert time.monotonic() < deadline, f"{topic} does not go away"
            time.sleep(0.1)

    def run(self, worker: str, *arguments: str) -> str:
        done = java_tool(KAFKA_ON_ZOOKEEPER, f"{TOOLS}.{worker}", *arguments, timeout=SECONDS)
        assert done.returncode == 0, f"{worker}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def produce(self, messages: int = MESSAGES, *, acks: str = "-1") -> list[Event]:
        where = ("--bootstrap-server", self.bootstrap, "--topic", self.topic)
        limits = ("--max-messages", str(messages), "--acks", acks)
        return events(self.run("VerifiableProducer", *where, *limits))

    def committed(self, topic: str) -> Counter[str]:
        """How often each value is read, by a reader that sees only what was committed."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"reader-{uuid4()}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        values: Counter[str] = Counter()
        ended = 0
        deadline = time.monotonic() + SECONDS
        while ended < PARTITIONS:
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                ended += 1
                continue
            value = message.value()
            assert isinstance(value, bytes)
            values[value.decode()] += 1
        consumer.close()
        return values


def events(output: str) -> list[Event]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def named(said: Sequence[Event], name: str) -> list[Event]:
    return [event for event in said if event.get("name") == name]


def every_message_is_acknowledged(stage: Stage, acks: str) -> None:
    said = stage.produce(acks=acks)
    sent = {str(event["value"]) for event in named(said, "producer_send_success")}
    assert not named(said, "producer_send_error")
    assert sent == {str(number) for number in range(MESSAGES)}
    if acks != "0":  # who is not answered is told no offsets
        places = Counter(
            (event["partition"], event["offset"]) for event in named(said, "producer_send_success")
        )
        assert len(places) == MESSAGES


def all_is_consumed_once(stage: Stage, *arguments: str) -> None:
    stage.produce()
    where = ("--bootstrap-server", stage.bootstrap, "--topic", stage.topic)
    limits = ("--group-id", stage.topic, "--max-messages", str(MESSAGES), "--verbose")
    said = events(stage.run("VerifiableConsumer", *where, *limits, *arguments))
    values = Counter(str(event["value"]) for event in named(said, "record_data"))
    assert values == Counter(str(number) for number in range(MESSAGES))
    assert all(event["success"] for event in named(said, "offsets_committed"))
    assert named(said, "partitions_assigned")
    assert named(said, "shutdown_complete")


def consumed_with(assignor: str, stage: Stage) -> None:
    strategy = f"org.apache.kafka.clients.consumer.{assignor}"
    all_is_consumed_once(stage, "--assignment-strategy", strategy)


def each_is_copied_once(stage: Stage, *arguments: str) -> None:
    stage.produce()
    target = f"{stage.topic}-copy"
    stage.make(target)
    partitions = range(1) if "--group-mode" in arguments else range(PARTITIONS)
    for number in partitions:
        stage.run(
            "TransactionalMessageCopier",
            *("--broker-list", stage.bootstrap),
            *("--input-topic", stage.topic, "--input-partition", str(number)),
            *("--output-topic", target, "--consumer-group", f"copiers-{stage.topic}"),
            *("--transactional-id", f"{stage.topic}-{number}", "--transaction-size", "500"),
            *("--enable-random-aborts", *arguments),
        )
    assert stage.committed(target) == Counter(str(number) for number in range(MESSAGES))


def client_is_compatible(stage: Stage, *, with_acls: bool) -> None:
    stage.remove("newtopic")  # the one that the worker makes, and leaves behind
    supported = {
        "offsets-for-times": "true",
        "cluster-id": "true",
        "create-topics": "true",
        "describe-acls": str(with_acls or serves_acls(stage)).lower(),
        "describe-configs": "true",
        "idempotent-producer": "true",
    }
    stage.run(
        "ClientCompatibilityTest",
        *("--bootstrap-server", stage.bootstrap, "--topic", stage.topic),
        *("--num-cluster-nodes", str(len(stage.bootstrap.split(",")))),
        *("--expect-record-too-large-exception", "false"),
        *(word for name, value in supported.items() for word in (f"--{name}-supported", value)),
    )


def serves_acls(stage: Stage) -> bool:
    """The worker checks both: that what is said to be supported works, and nothing else does."""
    with RawClient(int(stage.bootstrap.split(",")[0].rpartition(":")[2])) as client:
        request = ApiVersionsRequest(client_software_name="odradek", client_software_version="1")
        answer = client.ask(request, 3)
    assert isinstance(answer, ApiVersionsResponse)
    return DescribeAclsRequest.api_key in {entry.api_key for entry in answer.api_keys}


def replicas_agree(stage: Stage) -> None:
    """The tool compares checksums batch by batch, fetching from every replica, until stopped."""
    stage.produce()
    arguments = [
        *("--broker-list", stage.bootstrap, "--topics-include", stage.topic),
        *("--time", "-2", "--report-interval-ms", "500"),
    ]
    command = java_command(
        KAFKA_ON_ZOOKEEPER, f"{TOOLS}.ReplicaVerificationTool", *arguments, log_level="warn"
    )
    with Process(command, name="replica verification") as tool:
        tool.wait_for_line(rf"max lag is 0 for partition {stage.topic}", timeout=SECONDS)
        assert tool.is_running
        wrong = [line for line in tool.output if re.search("partition .* mismatch|rror", line)]
    assert not wrong, wrong


WORKERS: Mapping[str, Callable[[Stage], None]] = {
    "VerifiableProducer acks=all": lambda stage: every_message_is_acknowledged(stage, "-1"),
    "VerifiableProducer acks=1": lambda stage: every_message_is_acknowledged(stage, "1"),
    "VerifiableProducer acks=0": lambda stage: every_message_is_acknowledged(stage, "0"),
    **{f"VerifiableConsumer {name}": partial(consumed_with, name) for name in ASSIGNORS},
    "VerifiableConsumer static member": lambda stage: all_is_consumed_once(
        stage, "--group-instance-id", "one"
    ),
    "VerifiableConsumer auto-commit": lambda stage: all_is_consumed_once(
        stage, "--enable-autocommit"
    ),
    "TransactionalMessageCopier assigned": lambda stage: each_is_copied_once(stage),
    "TransactionalMessageCopier in a group": lambda stage: each_is_copied_once(
        stage, "--group-mode", "--use-group-metadata"
    ),
    "ClientCompatibilityTest": lambda stage: client_is_compatible(stage, with_acls=False),
    "ClientCompatibilityTest with ACLs": lambda stage: client_is_compatible(stage, with_acls=True),
    "ReplicaVerificationTool": replicas_agree,
}


def run_tests(job: Job) -> Iterator[Result]:
    for name, worker in WORKERS.items():
        if job.only and name not in job.only:
            continue
        started = time.monotonic()
        outcome, detail = Outcome.PASSED, ""
        try:
            worker(Stage.on(job.cluster.seeds))
        except Exception as failure:  # whatever is wrong with one worker, the next one runs
            outcome, detail = Outcome.FAILED, f"{type(failure).__name__}: {failure}"
            (job.logs / f"{name}.log").write_text(detail)
        yield Result(name, outcome, time.monotonic() - started, detail[-2000:])


def fetch() -> Path:
    return kafka_libs(KAFKA_ON_ZOOKEEPER)


SUITE = Suite(
    "java-workers",
    KAFKA_ON_ZOOKEEPER,
    "P3",
    fetch,
    run_tests,
    needs=(f"kafka-{KAFKA_ON_ZOOKEEPER}",),
    tests=tuple(WORKERS),
)
