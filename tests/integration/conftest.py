"""Fixtures of the tests on real servers: a cluster to talk to, and names of one's own on it."""

from collections.abc import Callable
from itertools import count
from uuid import uuid4

import pytest

from tests.support.kafka import KafkaBroker

_numbers = count(1)


@pytest.fixture
def bootstrap(each_kafka: KafkaBroker) -> str:
    """The address of each broker the client must get along with."""
    return each_kafka.bootstrap


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Names that no other test uses: `fresh("topic")`."""
    run = uuid4().hex[:8]
    return lambda kind: f"{kind}-{run}-{next(_numbers)}"
