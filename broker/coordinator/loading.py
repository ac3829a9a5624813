"""Filling a shard's state from its log, to the end of it, before anything is served.

Records are replayed in slices of a few milliseconds, so that the event loop serves others in
between. The loop ends when the log gives nothing more, even short of the end that was seen: a log
whose last records were compacted away has nothing there.

Transactional records are replayed as such, and a marker ends their transaction; later records win
over earlier ones, tombstones too, because everything is replayed in the order of the log.
"""

import asyncio
import logging
from typing import Final, TypeVar

from odradek.broker.coordinator.shard import Place, RecordCodec, Shard, ShardState
from odradek.protocol.clock import Clock
from odradek.protocol.errors import ProtocolError
from odradek.protocol.records import (
    BatchHeader,
    Record,
    check_crc,
    iter_headers,
    iter_records,
    read_end_txn_marker,
)

log: Final = logging.getLogger(__name__)

R = TypeVar("R")

_SLICE_SECONDS: Final = 0.002
_RECORDS_BETWEEN_LOOKS: Final = 64


class Slices:
    """Says when it is time to let the loop serve others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end = clock.monotonic() + _SLICE_SECONDS

    async def breathe(self) -> None:
        if self._clock.monotonic() >= self._end:
            await asyncio.sleep(0)
            self._end = self._clock.monotonic() + _SLICE_SECONDS


async def load(shard: Shard[R], codec: RecordCodec[R], *, buffer_bytes: int, clock: Clock) -> int:
    """Replay the whole log into the shard's state; how many records there were.

    Raises ProtocolError for a damaged batch, KafkaError when the log cannot be read.
    """
    slices = Slices(clock)
    offset, count = shard.log.start_offset, 0
    while offset < shard.log.end_offset:
        data = await shard.log.read(offset, buffer_bytes)
        if not data:
            break
        for position, header in iter_headers(data):
            check_crc(data, position, header)
            count += await _replay_batch(shard.state, codec, data, position, header, slices)
            offset = header.next_offset
        await slices.breathe()
    shard.loaded_end = shard.log.end_offset
    return count


async def _replay_batch(
    state: ShardState[R],
    codec: RecordCodec[R],
    data: bytes,
    position: int,
    header: BatchHeader,
    slices: Slices,
) -> int:
    if header.is_control:
        for record in iter_records(data, position, header):
            _replay_marker(state, header, record)
        return 0
    producer_id = header.producer_id if header.is_transactional else Place(0).producer_id
    count = 0
    for record in iter_records(data, position, header):
        _replay_record(state, codec, record, Place(record.offset, producer_id))
        count += 1
        if not count % _RECORDS_BETWEEN_LOOKS:
            await slices.breathe()
    return count


def _replay_marker(state: ShardState[R], header: BatchHeader, record: Record) -> None:
    marker = read_end_txn_marker(record)
    if marker is not None:
        place = Place(record.offset, header.producer_id)
        state.end_transaction(header.producer_id, place, committed=marker.commit)


def _replay_record(
    state: ShardState[R], codec: RecordCodec[R], record: Record, place: Place
) -> None:
    try:
        typed = codec.decode(record.key, record.value)
    except ProtocolError as error:
        log.warning("the record at offset %d is passed over: %s", record.offset, error)
        return
    if typed is not None:
        state.replay(typed, place)
