"""The tests of franz-go's client that talk to a broker.

Their core are three chained groups of six and more members that come and go, with every assignor,
and the same with transactions: every key must arrive exactly once, in order. The package has many
more tests; those that need no broker say nothing about one and are not run.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.conformance.downloads import bring, run
from tests.conformance.go_tests import run_program
from tests.conformance.results import Result
from tests.conformance.suite import Job, Suite

VERSION = "v1.21.5"
PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
RECORDS = 10_000
TESTS = (
    *("TestPing", "TestIssue1034", "TestUnknownGroupOffsetFetchPinned", "TestAddRemovePartitions"),
    *("TestConsumeRegex", "TestConsumeTopicRetrieval", "TestConsumeTopicRetrieval_Many"),
    *("TestDirectPartitionPurge", "TestGroupSimple", "TestHookPollStart", "TestIssue325"),
    *("TestIssue337", "TestIssue434", "TestIssue523", "TestIssue648", "TestIssue810"),
    *("TestIssue865", "TestPauseIssue489", "TestPauseIssueOct2023", "TestPooling"),
    *("TestGroupETL", "TestClient_Produce", "TestClient_ProduceLargeMessages", "TestIssue769"),
    *("TestIssue831", "TestIssueProduceSyncManualPartitionNegativeDoesNotPanic", "TestTxnEtl"),
    *("TestShareGroup", "TestShareGroupAckOnClose", "TestShareGroupETL"),
    "TestShareGroupOffsetsAdmin",
)


def fetch() -> Path:
    return bring(f"kgo-{VERSION}", _make)


def _make(folder: Path) -> None:
    run(["go", "mod", "init", "suite"], cwd=folder)
    run(["go", "get", "-t", f"{PACKAGE}@{VERSION}"], cwd=folder)
    run(["go", "test", "-c", "-o", "kgo.test", PACKAGE], cwd=folder)


def run_tests(job: Job) -> Iterator[Result]:
    names = "|".join(job.only or TESTS)
    return run_program(
        job.folder / "kgo.test",
        [f"-test.run=^({names})$", "-test.timeout=25m", "-test.count=1"],
        environment={
            "KGO_SEEDS": job.cluster.bootstrap,
            "KGO_TEST_RF": str(min(3, len(job.cluster.seeds))),
            "KGO_TEST_RECORDS": str(RECORDS),
            "KGO_LOG_LEVEL": "none",
        },
        cwd=job.folder,
        log=job.logs / "kgo.jsonl",
    )


SUITE = Suite("kgo", VERSION, "P1", fetch, run_tests, needs=("go",), tests=TESTS)
