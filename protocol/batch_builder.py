"""Building record batches; see `records` for the format and the figures.

A BatchBuilder collects records until it is built once; it is owned by one thread. Hot code:
`append` takes ready-made varints and only lists the parts of a record, so that a value is first
copied when `build` joins all parts, compresses and seals them.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_batch,
)
from .compression import Codec, compress
from .record_reader import Header, Record, RecordSpan
from .varints import VARINT, VARLONG_MAX_BYTES, long_varint

NO_LIMIT = (1 << 31) - 1
# Length, timestamp delta and offset delta at their longest, attributes, and three small counts.
_MAX_RECORD_OVERHEAD_BYTES = 5 + 10 + 5 + 1 + 5 + 5 + 5
_MAX_HEADER_OVERHEAD_BYTES = 5 + 5


class ProducerStamp(NamedTuple):
    """Who wrote a batch: what idempotence and transactions put into its header."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


NO_PRODUCER = ProducerStamp()


class BatchBuilder:
    """`producer` may be set until `build`: sequences are given when a batch is sent."""

    __slots__ = (
        "_base_timestamp",
        "_codec",
        "_level",
        "_max_bytes",
        "_max_timestamp",
        "_next_delta",
        "_parts",
        "_size_bytes",
        "count",
        "is_control",
        "producer",
    )

    def __init__(
        self,
        codec: Codec = Codec.NONE,
        *,
        level: int | None = None,
        max_bytes: int = NO_LIMIT,
        producer: ProducerStamp = NO_PRODUCER,
        is_control: bool = False,
    ) -> None:
        self.producer = producer
        self.is_control = is_control
        self.count = 0
        self._codec = codec
        self._level = level
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size_bytes = HEADER_BYTES
        self._next_delta = 0
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    @property
    def size_bytes(self) -> int:
        """Of the batch as it is, before compression."""
        return self._size_bytes

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> int | None:
        """The batch's size before compression with this record in it; None, and nothing added,
        when it would pass `max_bytes`. A first record is always taken."""
        count, delta = self.count, self._next_delta
        if not count:
            self._base_timestamp = self._max_timestamp = timestamp
        head = b"\x00" + VARINT[timestamp - self._base_timestamp] + VARINT[delta]
        head += b"\x01" if key is None else VARINT[len(key)] + key
        if value is None:
            head += b"\x01"
            value = b""
        else:
            head += VARINT[len(value)]
        tail = _encode_headers(headers) if headers else b"\x00"

        record_bytes = len(head) + len(value) + len(tail)
        prefix = VARINT[record_bytes]
        size_bytes = self._size_bytes + len(prefix) + record_bytes
        if size_bytes > self._max_bytes and count:
            return None
        self._parts += (prefix, head, value, tail)
        self._size_bytes = size_bytes
        self._next_delta = delta + 1
        self.count = count + 1
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        return size_bytes

    def skip_to(self, offset_delta: int) -> None:
        """Leave a gap, as compaction does: the next record gets this offset delta."""
        assert offset_delta >= self._next_delta, "offsets only grow"
        self._next_delta = offset_delta

    def build(self, base_offset: int = 0) -> bytes:
        producer = self.producer
        attributes = (
            self._codec
            | (TRANSACTIONAL_BIT if producer.is_transactional else 0)
            | (CONTROL_BIT if self.is_control else 0)
        )
        header = BatchHeader(
            base_offset=base_offset,
            length=0,
            leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=max(0, self._next_delta - 1),
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=producer.base_sequence,
            count=self.count,
        )
        body = b"".join(self._parts)
        return pack_batch(header, compress(self._codec, body, self._level))


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [VARINT[len(headers)]]
    for key, value in headers:
        name = key.encode(errors="surrogateescape")
        parts += (VARINT[len(name)], name)
        parts += (b"\x01",) if value is None else (VARINT[len(value)], value)
    return b"".join(parts)


def build_batch(
    records: Iterable[Record],
    codec: Codec = Codec.NONE,
    *,
    level: int | None = None,
    producer: ProducerStamp = NO_PRODUCER,
) -> bytes:
    """A batch of these records at their own offsets, which must grow."""
    builder = BatchBuilder(codec, level=level, producer=producer)
    base_offset = None
    for record in records:
        if base_offset is None:
            base_offset = record.offset
        builder.skip_to(record.offset - base_offset)
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build(base_offset or 0)


def record_size_bound(
    key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
) -> int:
    """At most how many bytes the record takes, wherever in a batch it comes."""
    total = _MAX_RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        # A character of UTF-8 has at most four bytes.
        total += _MAX_HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return total


def rebuild_batch(
    header: BatchHeader,
    body: bytes,
    kept: Sequence[RecordSpan],
    *,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """The batch of `header` with only the `kept` records of its decompressed `body`.

    Offsets, also the last one, producer and sequence stay, so that nobody who knew the batch is
    surprised; records are copied as they are. A delete horizon takes the base timestamp's place,
    which shifts every record's timestamp delta.
    """
    codec = Codec.from_id(header.attributes & CODEC_MASK)
    if delete_horizon_ms is None or delete_horizon_ms == header.delete_horizon_ms:
        records = [body[span.start : span.end] for span in kept]
    else:
        shift = header.base_timestamp - delete_horizon_ms
        records = [_shifted(body[span.start : span.end], shift) for span in kept]
        header = header._replace(
            attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=delete_horizon_ms
        )
    if kept and not header.attributes & LOG_APPEND_TIME_BIT:
        header = header._replace(max_timestamp=max(span.timestamp for span in kept))
    return pack_batch(header._replace(count=len(kept)), compress(codec, b"".join(records)))


def _shifted(record: bytes, shift: int) -> bytes:
    """The record with `shift` added to its timestamp delta."""
    _, attributes_at = long_varint(record, 0)
    raw, rest_at = long_varint(record, attributes_at + 1, VARLONG_MAX_BYTES)
    delta = (raw >> 1) ^ -(raw & 1)
    moved = b"\x00" + VARINT[delta + shift] + record[rest_at:]
    return VARINT[len(moved)] + moved
