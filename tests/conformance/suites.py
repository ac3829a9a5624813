"""Every suite, by name, in the order in which they are run."""

from tests.conformance import java_workers, kafka_python, kafka_tests, kgo, librdkafka

SUITES = {
    suite.name: suite
    for suite in (
        kafka_python.SUITE,
        kgo.SUITE,
        kafka_tests.SUITE,
        java_workers.SUITE,
        librdkafka.SUITE,
    )
}
