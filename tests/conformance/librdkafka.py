"""librdkafka's own tests, in full: its quick mode leaves most of them out and calls that passed.

The npm package of Confluent's JavaScript client carries librdkafka whole, with its tests; they
are built here (`make`, some minutes). One process for each test, because one that fails or hangs
takes its whole process down. Some call Kafka's own command line: they get the tools of Kafka 3.9.

Left out are tests that need no broker or bring a mock of one, tests of share groups, known issues
of librdkafka itself, those of SASL, TLS and OIDC, which skip themselves, and 0055, which measures
latencies of a few milliseconds and which librdkafka does not trust on busy machines either.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scripts.parts import KAFKA_ON_ZOOKEEPER, kafka_libs
from tests.conformance.downloads import bring, run, unpack
from tests.conformance.results import Outcome, Result
from tests.conformance.suite import Job, Suite

VERSION = "2.15.1"
PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
ARCHIVE = "confluentinc-kafka-javascript-1.10.1.tgz"
SECONDS = 600.0
DETAIL_LINES = 25

# What tells most about a broker.
QUICK = "0001 0012 0017 0022 0030 0054 0059 0081 0090 0102 0103 0113 0129"
ALL = """
0001 0002 0003 0005 0007 0008 0011 0012 0013 0014 0015 0016 0017 0018 0019 0020 0021 0022 0026 0029
0030 0031 0033 0034 0035 0036 0038 0039 0040 0041 0042 0044 0045 0048 0049 0050 0051 0052 0053 0054
0056 0057 0059 0060 0061 0063 0064 0065 0067 0068 0069 0070 0073 0075 0076 0077 0081 0082 0083
0084 0085 0086 0088 0089 0090 0091 0092 0093 0094 0098 0099 0101 0102 0103 0109 0110 0112 0113 0114
0115 0118 0119 0122 0123 0125 0127 0129 0130 0132 0137 0140
"""
# Tests of many parts are told, and divided among clusters, part by part: they would end with the
# first failure, and last for minutes. A part is what librdkafka calls a sub-test or a few of them.
ADMIN = """
CreateTopics DeleteTopics CreatePartitions DescribeConfigs AlterConfigs IncrementalAlterConfigs
DeleteRecords DeleteGroups ListConsumerGroups DescribeConsumerGroups DeleteConsumerGroupOffsets
ListConsumerGroupOffsets AlterConsumerGroupOffsets DescribeTopics DescribeCluster ListOffsets
unclean_destroy UserScramCredentials CreateAcls DescribeAcls DeleteAcls
"""
REBALANCES = """
a_assign_tests b_subscribe_with_cb_test c_subscribe_no_cb_test d_change_subscription_add_topic
e_change_subscription_remove_topic f_assign_call_cooperative g_incremental_assign_call_eager
h_delete_topic i_delete_topic_2 j_delete_topic_no_rb_callback k_add_partition l_unsubscribe
m_unsubscribe_2 n_wildcard o_java_interop s_subscribe_when_rebalancing
t_max_poll_interval_exceeded v_commit_during_rebalance x_incremental_rebalances
"""
VARIATIONS = [  # of u_multiple_subscription_changes
    f"use_rebalance_cb: {with_callback}, subscription_variation: {variation}"
    for with_callback in (0, 1)
    for variation in (0, 1, 2)
]
PARTS: Mapping[str, Sequence[str]] = {
    "0081": ADMIN.split(),
    "0113": [*REBALANCES.split(), *VARIATIONS],
}
PREFIXES: Mapping[str, str] = {"0081": "do_test_"}  # of its sub-tests' names
TESTS = tuple(
    f"{number} {part}".strip() for number in ALL.split() for part in PARTS.get(number, [""])
)

# What the tests call of a Kafka distribution, and the class behind each.
SCRIPTS: Mapping[str, str] = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-acls.sh": "kafka.admin.AclCommand",
    "kafka-run-class.sh": "",
}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ROW = re.compile(r"^\|\s*\d{4}_\S*\s*\|\s*(\w+)", re.MULTILINE)


def fetch() -> Path:
    return bring(f"librdkafka-{VERSION}", _make)


def _make(folder: Path) -> None:
    run(["npm", "pack", "--silent", PACKAGE], cwd=folder)
    unpack(folder / ARCHIVE, folder)
    source = _source(folder)
    run(["./configure"], cwd=source)
    run(["make", "-j2", "libs"], cwd=source)
    run(["make", "-j2", "-C", "tests", "build"], cwd=source)
    kafka = _kafka_path(folder)
    run(["make", "-C", "tests/java"], cwd=source, environment={"KAFKA_PATH": str(kafka)})


def _source(folder: Path) -> Path:
    return folder / "package" / "deps" / "librdkafka"


def _kafka_path(folder: Path) -> Path:
    """What looks like a Kafka distribution: its scripts, and the jars that we have anyway."""
    kafka = folder / "kafka"
    (kafka / "bin").mkdir(parents=True, exist_ok=True)
    libs = kafka_libs(KAFKA_ON_ZOOKEEPER)
    (kafka / "libs").symlink_to(libs)
    for name, main_class in SCRIPTS.items():
        script = kafka / "bin" / name
        script.write_text(
            f'#!/bin/sh\nexec java -XX:TieredStopAtLevel=1 -cp "$CLASSPATH:{libs}/*" '
            f'{main_class} "$@"\n'
        )
        script.chmod(0o755)
    return kafka


def run_tests(job: Job) -> Iterator[Result]:
    tests = _source(job.folder) / "tests"
    config = job.logs / "test.conf"
    config.write_text(
        f"metadata.broker.list={job.cluster.bootstrap}\n"
        "broker.address.family=v4\ntest.topic.random=true\ntest.timeout.multiplier=2\n"
    )
    environment = {
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TEST_KAFKA_VERSION": "3.9.0",
        "RDKAFKA_TEST_CONF": str(config),
        "KAFKA_PATH": str(job.folder / "kafka"),
        "BROKERS": job.cluster.bootstrap,
    }
    for test in job.only or TESTS:
        number, _, part = test.partition(" ")
        wanted = {
            "TESTS": number,
            **({"SUBTESTS": PREFIXES.get(number, "") + part} if part else {}),
        }
        yield _run_one(test, tests, {**environment, **wanted}, job.logs / f"{test}.log")


def _run_one(test: str, tests: Path, environment: Mapping[str, str], log: Path) -> Result:
    """A session of its own, because a test may leave children behind: Java clients, for one."""
    started = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            ["./test-runner", "-p1", "-L", "-K"],
            cwd=tests,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
    seconds = time.monotonic() - started
    text = COLOUR.sub("", log.read_text(errors="replace"))
    outcome = outcome_in(text, status, environment.get("SUBTESTS"))
    detail = "" if outcome is Outcome.PASSED else "\n".join(text.splitlines()[-DETAIL_LINES:])
    return Result(test, outcome, seconds, detail)


def outcome_in(output: str, status: int, part: str | None) -> Outcome:
    """A test of which nothing has run is called passed by its runner, and skipped here."""
    if status != 0:
        return Outcome.FAILED
    if part is not None:
        has_run = re.search(rf"\[ .*{re.escape(part)}.*: PASS", output) is not None
    else:
        has_run = "PASSED" in ROW.findall(output)
    return Outcome.PASSED if has_run else Outcome.SKIPPED


SUITE = Suite(
    "librdkafka",
    VERSION,
    "P3",
    fetch,
    run_tests,
    needs=("c++", "node", f"kafka-{KAFKA_ON_ZOOKEEPER}"),
    # Some tests count rebalances, and want consumers that start together in one generation.
    settings={"group.initial.rebalance.delay.ms": 1000},
    tests=TESTS,
    quick=tuple(test for test in TESTS if test.split()[0] in QUICK.split()),
    pieces=3,
)
