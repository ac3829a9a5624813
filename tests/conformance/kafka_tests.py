"""franz-go's tests "derived from Apache Kafka's clients-integration-tests".

They were written for a fake cluster inside the test's process. Here the package of the fake is
replaced by a shim of ours that hands them the real one. Left out are the tests that reach into the
fake: those that answer in its place, and those that give it another `group.max.size`.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.downloads import SHIMS, bring, run
from tests.conformance.go_tests import run_program
from tests.conformance.results import Result
from tests.conformance.suite import Job, Suite

VERSION = "v0.0.0-20260918054303-01f206a7e32c"
PACKAGE = "github.com/twmb/franz-go/pkg/kfake"
CLIENT = "github.com/twmb/franz-go@v1.22.2"  # the one that the tests were written for
SHIM = "kfake/kfake.go"
LEFT_OUT = (
    "TestAssignConsumeFromEnd",
    "TestFetchOutOfRangeResetLatest",
    "Test848FencedEpochRecovery",
    "Test848SessionTimeout",
    "TestGroupMaxSizeClassic",
    "TestGroupMaxSize848",
)


def fetch() -> Path:
    return bring(f"kafka-tests-{VERSION}", _make, shims=[SHIM])


def _make(folder: Path) -> None:
    run(["go", "mod", "init", "suite"], cwd=folder)
    run(["go", "get", "-t", f"{PACKAGE}/kafka_tests@{VERSION}"], cwd=folder)
    run(["go", "get", CLIENT], cwd=folder)
    source = Path(run(["go", "list", "-m", "-f", "{{.Dir}}", PACKAGE], cwd=folder).strip())
    copy = folder / "kfake"
    copy.mkdir()
    for name in ("go.mod", "go.sum"):
        (copy / name).write_bytes((source / name).read_bytes())
    (copy / "kfake.go").write_bytes((SHIMS / SHIM).read_bytes())
    shutil.copytree(source / "kafka_tests", copy / "kafka_tests", copy_function=shutil.copyfile)
    run(["go", "mod", "edit", f"-replace={PACKAGE}=./kfake"], cwd=folder)
    build = ["go", "test", "-mod=mod", "-c", "-o", "kafka.test", f"{PACKAGE}/kafka_tests"]
    run(build, cwd=folder)


def run_tests(job: Job) -> Iterator[Result]:
    return run_program(
        job.folder / "kafka.test",
        [
            f"-test.run=^({'|'.join(job.only) or '.*'})$",
            f"-test.skip=^({'|'.join(LEFT_OUT)})$",
            *("-test.parallel=1", "-test.timeout=15m", "-test.count=1"),
        ],
        environment={"CONFORMANCE_SEEDS": job.cluster.bootstrap},
        cwd=job.folder,
        log=job.logs / "kafka_tests.jsonl",
    )


# The fake's consumers hear of changes at once; five seconds a heartbeat would be too slow for them.
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
SUITE = Suite("kafka-tests", VERSION, "P3", fetch, run_tests, needs=("go",), settings=SETTINGS)
