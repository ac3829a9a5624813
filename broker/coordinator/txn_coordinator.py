"""The transaction coordinator of a broker: finds the shard of an id, and keeps house in the shards.

Transactions that take too long are looked for at intervals, and so are ids that nobody uses any
more, both in slices, so that no client waits for it.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from odradek.broker.coordinator.placement import TRANSACTION_TOPIC, partition_for
from odradek.broker.coordinator.runtime import Blueprint, Runtime
from odradek.broker.coordinator.shard import Shard, ShardTools, Writer
from odradek.broker.coordinator.shard_log import ShardLog
from odradek.broker.coordinator.timers import Deadline
from odradek.broker.coordinator.txn_completion import Completion
from odradek.broker.coordinator.txn_config import TxnConfig
from odradek.broker.coordinator.txn_records import TransactionRecord, TransactionRecords
from odradek.broker.coordinator.txn_shard import TxnShard, TxnTools
from odradek.protocol.clock import Clock
from odradek.protocol.errors import Errors, KafkaError

_SLICE_SECONDS: Final = 0.002


class TransactionCoordinator:
    def __init__(
        self,
        config: TxnConfig,
        *,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        open_log: Callable[[int, int], ShardLog],
        partition_count: Callable[[], int],
        send_markers: Callable[[Completion], None],
    ) -> None:
        """`open_log` gives the log of a partition of the transactions' topic, for a leader epoch;
        `partition_count` says how many partitions the topic has, or will have."""
        self.config = config
        self._clock = clock
        self._loop = loop
        self._partition_count = partition_count
        self._send_markers = send_markers
        blueprint = Blueprint(
            TRANSACTION_TOPIC,
            TransactionRecords(),
            self._new_shard,
            open_log,
            config.load_buffer_bytes,
        )
        tools = ShardTools(clock, loop, config.commit_timeout_ms)
        self.runtime: Runtime[TransactionRecord, TxnShard] = Runtime(blueprint, tools, loop=loop)
        self._aborting = Deadline(loop, clock, self._abort_timed_out)
        self._expiring = Deadline(loop, clock, self._expire)

    def start(self) -> None:
        self._aborting.set(self.config.abort_interval_ms)
        self._expiring.set(self.config.expiration_interval_ms)

    def close(self) -> None:
        self._aborting.clear()
        self._expiring.clear()
        self.runtime.close()

    def _new_shard(self, writer: Writer[TransactionRecord]) -> TxnShard:
        assert isinstance(writer, Shard)
        return TxnShard(TxnTools(self._clock, self._loop, self.config, writer, self._send_markers))

    def partition_of(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self._partition_count())

    def shard_of(self, transactional_id: str) -> TxnShard:
        """The shard that keeps the id. Raises KafkaError when it is not served here now."""
        if not transactional_id:
            raise KafkaError(Errors.INVALID_REQUEST)
        return self.runtime.state(self.partition_of(transactional_id))

    # Housekeeping ---------------------------------------------------------------------------

    def _abort_timed_out(self) -> None:
        shards = self.runtime.active_states()
        self._work(chain.from_iterable(shard.abort_timed_out() for shard in shards))
        self._aborting.set(self.config.abort_interval_ms)

    def _expire(self) -> None:
        shards = self.runtime.active_states()
        self._work(chain.from_iterable(shard.expire() for shard in shards))
        self._expiring.set(self.config.expiration_interval_ms)

    def _work(self, steps: Iterator[None]) -> None:
        """Go through the steps, a slice of time in each turn of the loop."""
        end = self._clock.monotonic() + _SLICE_SECONDS
        for _ in steps:
            if self._clock.monotonic() >= end:
                self._loop.call_soon(self._work, steps)
                return
