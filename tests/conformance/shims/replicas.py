"""A plugin for kafka-python's tests: a replica on each broker, for a test that needs it.

They were written for one broker. One of them asks the first broker to move its replica of a
partition: where there are more brokers than replicas, chance decides whether it has one.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

NEED_A_REPLICA_EVERYWHERE = ("test_alter_replica_log_dirs",)


@pytest.fixture(autouse=True)
def replicated(request: pytest.FixtureRequest, kafka_broker: Any) -> Iterator[None]:
    usual = kafka_broker.replicas
    if request.node.name in NEED_A_REPLICA_EVERYWHERE:
        kafka_broker.replicas = int(os.environ["CONFORMANCE_BROKERS"])
    yield
    kafka_broker.replicas = usual
