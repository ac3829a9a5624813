"""A partition on an in-memory log."""

from collections.abc import Callable
from random import Random

import pytest
from odradek.protocol.clock import ManualClock
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import TopicPartition, random_id
from odradek.replication.isr import DEFAULT_RULES, IsrRules
from odradek.replication.partition import Partition
from odradek.storage.log_config import LogConfig
from odradek.storage.memory_files import MemoryFiles
from odradek.storage.recovery import LogOpening, open_log

LOCAL = 1


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def partition(clock: ManualClock) -> Partition:
    return new_partition(clock)


def new_partition(
    clock: ManualClock,
    *,
    local_id: int = LOCAL,
    topic_id: bytes | None = None,
    wants_isr_change: Callable[[Partition], None] | None = None,
    rules: IsrRules = DEFAULT_RULES,
    **overrides: str,
) -> Partition:
    files = MemoryFiles()
    files.make_dir("/data/t-0")
    where = TopicPartition("t", 0)
    log = open_log(
        LogOpening(
            topic_partition=where,
            directory="/data/t-0",
            files=files,
            clock=clock,
            random=Random(1),
            config=LogConfig.from_broker({}).with_overrides(overrides),
            producer_expiration_ms=1000,
            on_failure=lambda error: None,
        )
    )
    return Partition(
        where,
        topic_id or random_id(),
        log=log,
        local_id=local_id,
        clock=clock,
        rules=rules,
        wants_isr_change=wants_isr_change,
    )


def batch(count: int = 1) -> bytearray:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(1_700_000_000_000, None, b"value %d" % number, ())
    return bytearray(builder.build())
