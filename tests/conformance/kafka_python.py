"""The integration tests of kafka-python: an admin client, consumers in groups, transactions.

They come in the source package, together with the client itself, which is used in place of the
one in our environment. Left out are the tests that start brokers of their own for SASL and TLS.
A race in the client, which fails a test on every broker now and then, is closed by a plugin
(`shims/settled_metadata.py`); another (`shims/replicas.py`) takes chance out of a test.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from tests.conformance.downloads import SHIMS, bring, run, unpack
from tests.conformance.results import Outcome, Result
from tests.conformance.suite import Job, Suite

VERSION = "3.0.12"
TEST_SECONDS = 180
SUITE_SECONDS = 1800
PLUGINS = ("settled_metadata", "replicas")
SHIMS_USED = ("service.py", *(f"{name}.py" for name in PLUGINS))
LEFT_OUT = ("test_ssl_integration.py", "test_sasl_integration.py")


def fetch() -> Path:
    return bring(f"kafka-python-{VERSION}", _make, shims=SHIMS_USED)


def _make(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    package = ["--no-deps", "--no-binary", "kafka-python", f"kafka-python=={VERSION}"]
    run([*pip, *package], cwd=folder)
    unpack(folder / f"kafka_python-{VERSION}.tar.gz", folder)
    tests = folder / f"kafka_python-{VERSION}" / "test"
    (tests / "__init__.py").touch()
    for name in SHIMS_USED:
        (tests / name).write_bytes((SHIMS / name).read_bytes())


def run_tests(job: Job) -> Iterator[Result]:
    root = job.folder / f"kafka_python-{VERSION}"
    report = job.logs / "report.xml"
    command = [
        *(sys.executable, "-m", "pytest", "test/integration", "-q", "-p", "no:odradek"),
        *(word for name in PLUGINS for word in ("-p", f"test.{name}")),
        *("-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore"),
        *(f"--ignore=test/integration/{name}" for name in LEFT_OUT),
        *(f"--timeout={TEST_SECONDS}", "-o", "log_level=WARNING", f"--junitxml={report}"),
        *(["-k", " or ".join(job.only)] if job.only else []),
    ]
    environment = {
        "KAFKA_URI": f"kafka://{job.cluster.seeds[0]}",
        "KAFKA_VERSION": "3.9.0",
        "KAFKA_ROOT": ".",
        "CONFORMANCE_BROKERS": str(len(job.cluster.seeds)),
        "PYTHONPATH": str(root),
    }
    with (job.logs / "pytest.log").open("w") as log:
        subprocess.run(
            command,
            cwd=root,
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=SUITE_SECONDS,
        )
    yield from results_in(report)


def results_in(report: Path) -> Iterator[Result]:
    """The test cases of a JUnit report."""
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").rpartition(".")[2]
        outcome, detail = Outcome.PASSED, ""
        for kind, meaning in (
            ("skipped", Outcome.SKIPPED),
            ("failure", Outcome.FAILED),
            ("error", Outcome.FAILED),
        ):
            if (found := case.find(kind)) is not None:
                outcome, detail = meaning, found.get("message", "")
        yield Result(f"{module}::{case.get('name')}", outcome, float(case.get("time", 0)), detail)


SUITE = Suite("kafka-python", VERSION, "P1", fetch, run_tests)
