"""What passes on Apache Kafka 3.9 passes here: other people's tests, the part that runs quickly.

`make test-suites` runs it. librdkafka's own tests are not here: building them takes minutes and
running them twenty more. `make conformance` runs everything.
"""

import pytest

from tests.conformance.downloads import Unavailable
from tests.conformance.results import load, troubles
from tests.conformance.runner import run_suite
from tests.conformance.suites import SUITES
from tests.support.parts import ON_CI, require


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["kafka-python", "kgo", "kafka-tests", "java-workers"])
def test_what_passes_on_kafka_passes_here(name: str) -> None:
    suite = SUITES[name]
    require(*suite.needs)
    try:
        results = run_suite(suite, on="odradek", profile=suite.profile)
    except Unavailable as reason:
        if ON_CI:
            raise
        pytest.skip(str(reason))
    wrong = troubles(load(name), results, whole=True)
    assert not wrong, "\n\n".join(wrong)
