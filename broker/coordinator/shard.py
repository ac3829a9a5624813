"""One event-sourced shard: what a partition of an internal topic says, held in memory.

An event decides on records. They are appended to the shard's log and replayed into the state at
once, so that the next event sees them; whoever asked hears of it when they are committed, that is,
when the high watermark has passed them. Readers are shown committed state (see `timeline`), so
nothing is ever told that a new leader might not know.

An append that is refused changes nothing. Once records are in the log, they stay replayed even
when the answer is an error (too slow, too few replicas): they may well be committed later. When
leadership is lost, all who wait hear NOT_LEADER_OR_FOLLOWER and the whole state is dropped.

One event at a time: everything runs on the event loop, and commits that are noticed in the midst
of an append are told when the append has been replayed.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from odradek.broker.coordinator.shard_log import ShardLog
from odradek.broker.coordinator.timers import Deadline, Timers
from odradek.protocol.clock import Clock
from odradek.protocol.compression import Codec
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import NO_PRODUCER, NO_PRODUCER_ID, BatchBuilder, ProducerStamp

log: Final = logging.getLogger(__name__)

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
S = TypeVar("S")

Then = Callable[[Errors], None]

MAX_OFFSET: Final = (1 << 63) - 1


class Place(NamedTuple):
    """Where a record stands in the log, and in whose transaction if in one."""

    offset: int
    producer_id: int = NO_PRODUCER_ID


class RecordCodec(Protocol[R]):
    """From typed records to keys and values and back."""

    def encode(self, record: R, /) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes | None, value: bytes | None, /) -> R | None:
        """None for a type that this broker does not know. ProtocolError for broken bytes."""
        ...


class ShardState(Protocol[R_contra]):
    def replay(self, record: R_contra, place: Place, /) -> None:
        """Let the record take effect."""
        ...

    def end_transaction(self, producer_id: int, place: Place, *, committed: bool) -> None:
        """A marker ends the producer's transaction."""
        ...

    def begin(self) -> None:
        """Everything is loaded: timers may run, requests will come."""
        ...

    def unload(self) -> None:
        """Answer all who wait, and stop every timer."""
        ...


class Writer(Protocol[R_contra]):
    """What the state of a shard may ask of the shard."""

    @property
    def committed_end(self) -> int: ...

    def write(
        self,
        records: Sequence[R_contra],
        then: Then,
        *,
        producer: ProducerStamp = NO_PRODUCER,
    ) -> bool: ...

    def when_committed(self, then: Then) -> None: ...


class ShardTools(NamedTuple):
    """What all shards of a coordinator share."""

    clock: Clock
    timers: Timers
    commit_timeout_ms: int
    compression: Codec = Codec.NONE


class Shard(Generic[R]):
    def __init__(
        self, shard_log: ShardLog, epoch: int, codec: RecordCodec[R], tools: ShardTools
    ) -> None:
        self.log = shard_log
        self.epoch = epoch
        self.state: ShardState[R]
        # While it loads, everything that there is counts as committed.
        self.loaded_end = MAX_OFFSET
        self._codec = codec
        self._tools = tools
        # Writes that wait for their commit, in the order of their offsets.
        self._waiting: deque[tuple[int, float, Then]] = deque()
        self._patience = Deadline(tools.timers, tools.clock, self._time_is_over)
        self._watched_end = 0
        self._is_writing = False
        self._is_closed = False

    @property
    def committed_end(self) -> int:
        """What was loaded counts as committed: some of it was, and was told to clients, before
        this broker knew the high watermark."""
        committed_end, loaded_end = self.log.committed_end, self.loaded_end
        return committed_end if committed_end > loaded_end else loaded_end

    @property
    def safe_end(self) -> int:
        """What lies below is committed for sure, also of what was loaded."""
        return self.log.committed_end

    def write(
        self,
        records: Sequence[R],
        then: Then,
        *,
        producer: ProducerStamp = NO_PRODUCER,
    ) -> bool:
        """Append and replay records; `then` hears once what became of them. False: refused.

        It may be called before this returns, so an event writes as the last thing it does.
        """
        self._is_writing = True
        try:
            end = self.log.append(self._batch(records, producer))
            for offset, record in enumerate(records, end - len(records)):
                self.state.replay(record, Place(offset, producer.producer_id))
        except KafkaError as error:
            refusal = error.error
        else:
            refusal = Errors.NONE
            deadline = self._tools.clock.monotonic() + self._tools.commit_timeout_ms / 1000
            self._waiting.append((end, deadline, then))
        finally:
            self._is_writing = False
        self._settle()
        if refusal is not Errors.NONE:
            then(refusal)
        return refusal is Errors.NONE

    def when_committed(self, then: Then) -> None:
        """Tell what became of everything that was written up to now."""
        if not self._waiting:
            then(Errors.NONE)
            return
        end, deadline, _ = self._waiting[-1]
        self._waiting.append((end, deadline, then))

    def _batch(self, records: Sequence[R], producer: ProducerStamp) -> bytes:
        builder = BatchBuilder(self._tools.compression, producer=producer)
        now_ms = self._tools.clock.now_ms()
        for record in records:
            key, value = self._codec.encode(record)
            builder.append(now_ms, key, value)
        return builder.build()

    def close(self) -> None:
        """Leadership is lost: tell all who wait, then drop the state."""
        self._is_closed = True
        self._patience.clear()
        waiting, self._waiting = self._waiting, deque()
        for _, _, then in waiting:
            _tell(then, Errors.NOT_LEADER_OR_FOLLOWER)
        self.state.unload()

    # Commits --------------------------------------------------------------------------------

    def _look(self) -> None:
        if not self._is_writing and not self._is_closed:
            self._settle()

    def _settle(self) -> None:
        """Tell those whose records have met their fate, in the order of the records."""
        waiting = self._waiting
        while waiting and (outcome := self.log.outcome(waiting[0][0])) is not None:
            _tell(waiting.popleft()[2], outcome)
        if waiting or self._patience.is_set:
            self._await_next()

    def _time_is_over(self) -> None:
        now = self._tools.clock.monotonic()
        while self._waiting and self._waiting[0][1] <= now:
            _tell(self._waiting.popleft()[2], Errors.REQUEST_TIMED_OUT)
        self._await_next()

    def _await_next(self) -> None:
        if not self._waiting:
            self._patience.clear()
            return
        end, deadline, _ = self._waiting[0]
        if end != self._watched_end:
            self._watched_end = end
            self.log.watch(end, self._look)
        if not self._patience.is_set:
            left = deadline - self._tools.clock.monotonic()
            self._patience.set(max(1, round(left * 1000)))


def _tell(then: Then, outcome: Errors) -> None:
    """A callback that fails must not keep the others, of whatever partition, from being told."""
    try:
        then(outcome)
    except Exception:
        log.exception("telling the outcome of a write failed")
