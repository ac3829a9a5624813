"""What passes on Apache Kafka 3.9 passes here: other people's tests, the part that runs quickly.

`make conformance` runs everything. Under `pytest -n 4 --dist loadgroup`, a worker each runs the
pieces of librdkafka's suite, which mostly waits, and one runs all other suites, one by one.
"""

from collections.abc import Iterator

import pytest

from tests.conformance.downloads import Unavailable
from tests.conformance.results import load, troubles
from tests.conformance.runner import run_suite
from tests.conformance.shards import divide, seconds_of
from tests.conformance.suites import SUITES
from tests.support.parts import ON_CI, require


def pieces() -> Iterator[object]:
    """Suites, each with its quick tests; none are named where all are meant."""
    for suite in SUITES.values():
        if suite.pieces == 1:
            group = pytest.mark.xdist_group("whole suites")
            yield pytest.param(suite.name, suite.quick, marks=group, id=suite.name)
            continue
        table = load(suite.name).table(suite.profile)
        seconds = seconds_of(suite.quick or suite.tests, table)
        for number, tests in enumerate(divide(seconds, suite.pieces), start=1):
            name = f"{suite.name} {number}"
            yield pytest.param(suite.name, tests, marks=pytest.mark.xdist_group(name), id=name)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "tests"), list(pieces()))
def test_what_passes_on_kafka_passes_here(name: str, tests: tuple[str, ...]) -> None:
    suite = SUITES[name]
    require(*suite.needs)
    try:
        results = run_suite(suite, on="odradek", profile=suite.profile, only=tests)
    except Unavailable as reason:
        if ON_CI:
            raise
        pytest.skip(str(reason))
    wrong = troubles(load(name), suite.profile, results, asked=tests)
    assert not wrong, "\n\n".join(wrong)
