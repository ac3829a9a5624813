"""A plugin for kafka-python's tests: their topics have a replica on each of up to three brokers.

They were written for one broker. One of them asks the first broker to move its replica of a
partition: where there are more brokers than replicas, chance decides whether it has one.
"""

import os
from typing import Any

from test.integration.fixtures import KafkaFixture  # type: ignore[import-not-found]

_instance = KafkaFixture.instance


def _replicated(*arguments: Any, **options: Any) -> Any:
    return _instance(*arguments, **{"replicas": int(os.environ["KAFKA_REPLICAS"]), **options})


KafkaFixture.instance = _replicated
