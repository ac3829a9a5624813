"""What a leader does to records before they enter its log: check them, and stamp them in place.

`validate_and_stamp` takes the bytes of one partition of a Produce request and answers with an
`AppendPlan`, or raises KafkaError with the code that the client is told. The batch stays in the
request's own buffer: base offset and leader epoch lie outside the CRC and are written over.

Checked by the header alone: one batch, format 2, its size, CRC-32C, offsets, count, attributes,
sequence, codec and newest timestamp. Beyond the header only where it must be:

- uncompressed records must fill the batch exactly (`framing`: a walk over the record lengths,
  3 µs for 16 records). The fields inside a record are not looked at, nor is a compressed body:
  decoding each record costs five to twenty times the walk, decompressing comes on top, and a
  producer that lies inside a record harms who reads it but never this broker, whose readers
  check everything;
- compacted topics need the keys, and `message.timestamp.before.max.ms` needs each timestamp;
- LogAppendTime rewrites timestamp and CRC in place;
- a `compression.type` other than the producer's makes a new batch, and so does a message set of
  formats 0 and 1, which Produce up to version 2 carries.

Whatever is decompressed is capped. Batches that the broker itself writes (Origin.COORDINATOR)
are trusted in all but their size. A batch of 16 records of 1 KB costs 7 µs, 3 of them for the
walk, and 1 µs for its CRC (benchmarks/validation.py); 9,000 small records of different sizes cost
2 ms. Pure but for the writes into `records`; any thread may call.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from odradek.protocol.batch_header import CODEC_MASK, CRC_FROM
from odradek.protocol.checksum import crc32c
from odradek.protocol.compression import Codec, DecompressionTooLarge, compress
from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.legacy_records import up_convert
from odradek.protocol.records import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ReadableBuffer,
    RecordSpan,
    UnsupportedMagic,
    WritableBuffer,
    iter_spans,
    pack_batch,
    peek_magic,
    read_body,
    read_header,
    set_create_time,
    set_log_append_time,
    write_base_offset_and_epoch,
)
from odradek.protocol.settings import MAX_LONG
from odradek.storage.framing import check_framing
from odradek.storage.log_config import LogConfig

FIRST_VERSION_OF_FORMAT_2 = 3
FIRST_VERSION_WITH_ZSTD = 7
_NOT_FOR_CLIENTS = CONTROL_BIT | DELETE_HORIZON_BIT


class Origin(Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"


class AppendPlan(NamedTuple):
    """A batch ready to be written. log_append_time_ms is -1 when the producer's time stays."""

    header: BatchHeader
    data: WritableBuffer
    log_append_time_ms: int


class RecordError(NamedTuple):
    batch_index: int
    message: str


class InvalidRecords(KafkaError):
    """Refused for the sake of single records; the whole batch goes, these are to blame."""

    def __init__(self, error: Errors, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(error, message)
        self.record_errors = record_errors


def validate_and_stamp(
    records: ReadableBuffer,
    *,
    next_offset: int,
    leader_epoch: int,
    config: LogConfig,
    now_ms: int,
    origin: Origin = Origin.CLIENT,
    produce_version: int = FIRST_VERSION_WITH_ZSTD,
) -> AppendPlan:
    data = _writable(records)
    if produce_version < FIRST_VERSION_OF_FORMAT_2 and origin is Origin.CLIENT:
        data = _in_format_2(data)
    header = _only_batch(data)
    _check_size(len(data), config)
    if origin is Origin.CLIENT:
        _check_crc(data, header)
        _check_header(header, produce_version)
        _check_records(data, header, config, now_ms)
    if config.compression_type != "producer":
        data, header = _recompressed(data, header, config)
        _check_size(len(data), config)
    append_time_ms = NO_TIMESTAMP
    if config.uses_append_time:
        append_time_ms = now_ms
        set_log_append_time(data, 0, now_ms)
        header = read_header(data)
    elif header.attributes & LOG_APPEND_TIME_BIT:
        # Only a broker says LogAppendTime. A producer that does is not refused; the bit goes.
        set_create_time(data, 0)
        header = read_header(data)
    write_base_offset_and_epoch(data, 0, next_offset, leader_epoch)
    stamped = BatchHeader._make((next_offset, header[1], leader_epoch, *header[3:]))
    return AppendPlan(stamped, data, append_time_ms)


def _writable(records: ReadableBuffer) -> WritableBuffer:
    """The request's own buffer where that can be written to."""
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        return bytearray(records)
    return records


def _in_format_2(data: WritableBuffer) -> WritableBuffer:
    """One batch of what an old producer sent as a set of messages."""
    if peek_magic(data) not in (0, 1):
        return data
    try:
        return bytearray(up_convert(data))
    except DecompressionTooLarge as error:
        raise _invalid(str(error)) from error
    except ProtocolError as error:
        raise KafkaError(Errors.CORRUPT_MESSAGE, str(error)) from error


# The header ---------------------------------------------------------------------------------


def _only_batch(data: ReadableBuffer) -> BatchHeader:
    if not data:
        raise _invalid("there is no record batch")
    if len(data) < HEADER_BYTES:
        # As in Kafka, a batch that does not end here is no batch, rather than a broken one.
        raise _invalid("the record batch is cut off")
    try:
        header = read_header(data)
    except UnsupportedMagic as error:
        if error.magic in (0, 1):
            raise _invalid(f"batches of format {error.magic} are no longer accepted") from error
        raise KafkaError(Errors.CORRUPT_MESSAGE, str(error)) from error
    except ProtocolError as error:
        raise KafkaError(Errors.CORRUPT_MESSAGE, str(error)) from error
    if header.length + LOG_OVERHEAD_BYTES != len(data):
        if header.size_bytes < len(data):
            raise _invalid("more than one record batch")
        raise _invalid("the record batch is cut off")
    return header


def _check_size(size_bytes: int, config: LogConfig) -> None:
    if size_bytes > config.max_message_bytes:
        limit = config.max_message_bytes
        text = f"the record batch has {size_bytes} bytes, max.message.bytes is {limit}"
        raise KafkaError(Errors.MESSAGE_TOO_LARGE, text)
    if size_bytes > config.segment_bytes:
        limit = config.segment_bytes
        text = f"the record batch has {size_bytes} bytes, segment.bytes is {limit}"
        raise KafkaError(Errors.RECORD_LIST_TOO_LARGE, text)


def _check_crc(data: WritableBuffer, header: BatchHeader) -> None:
    if crc32c(memoryview(data)[CRC_FROM:]) != header.crc:
        raise KafkaError(Errors.CORRUPT_MESSAGE, "the record batch fails its CRC")


def _check_header(header: BatchHeader, produce_version: int) -> None:
    attributes, count = header.attributes, header.count
    if header.base_offset != 0:
        raise _invalid(f"base offset {header.base_offset} is not 0")
    if count <= 0 or count != header.last_offset_delta + 1:
        delta = header.last_offset_delta
        raise _invalid(f"{count} records do not fit a last offset delta of {delta}")
    if attributes & _NOT_FOR_CLIENTS:
        raise _invalid("clients may not write control batches or delete horizons")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise _invalid(f"producer {header.producer_id} gave no sequence or epoch")
    elif attributes & TRANSACTIONAL_BIT:
        raise _invalid("a transactional batch needs a producer id")
    codec_id = attributes & CODEC_MASK
    if codec_id >= Codec.ZSTD:
        _check_rare_codec(codec_id, produce_version)


def _check_rare_codec(codec_id: int, produce_version: int) -> None:
    if codec_id > Codec.ZSTD:
        text = f"no codec has the id {codec_id}"
        raise KafkaError(Errors.UNSUPPORTED_COMPRESSION_TYPE, text)
    if produce_version < FIRST_VERSION_WITH_ZSTD:
        text = f"zstd needs version {FIRST_VERSION_WITH_ZSTD} of Produce"
        raise KafkaError(Errors.UNSUPPORTED_COMPRESSION_TYPE, text)


# The records --------------------------------------------------------------------------------


def _check_records(data: WritableBuffer, header: BatchHeader, config: LogConfig, now: int) -> None:
    """Only as deep as the topic asks for."""
    try:
        if not header.attributes & CODEC_MASK:
            check_framing(data, HEADER_BYTES, len(data), header.count)
        if config.is_compacted:
            _check_keys(iter_spans(read_body(data, 0, header), header))
        if not config.uses_append_time:
            _check_timestamps(data, header, config, now)
    except ProtocolError as error:
        raise _invalid(str(error)) from error


def _check_keys(spans: Iterable[RecordSpan]) -> None:
    keyless = [number for number, span in enumerate(spans) if span.key is None]
    if keyless:
        text = "a compacted topic takes only records with a key"
        errors = [RecordError(number, text) for number in keyless]
        raise InvalidRecords(Errors.INVALID_RECORD, text, errors)


def _check_timestamps(
    data: WritableBuffer, header: BatchHeader, config: LogConfig, now_ms: int
) -> None:
    lag_ms, lead_ms = config.oldest_timestamp_lag_ms, config.newest_timestamp_lead_ms
    if lag_ms == MAX_LONG and header.max_timestamp <= now_ms + lead_ms:
        return
    oldest, newest = now_ms - lag_ms, now_ms + lead_ms
    wrong = [
        RecordError(number, f"timestamp {span.timestamp} is not between {oldest} and {newest}")
        for number, span in enumerate(iter_spans(read_body(data, 0, header), header))
        if span.timestamp != NO_TIMESTAMP and not oldest <= span.timestamp <= newest
    ]
    # The header counts as well: retention and time lookup believe it.
    if wrong or header.max_timestamp > newest:
        text = f"timestamps must lie between {oldest} and {newest}"
        raise InvalidRecords(Errors.INVALID_TIMESTAMP, text, wrong)


# Compression --------------------------------------------------------------------------------


def _recompressed(
    data: WritableBuffer, header: BatchHeader, config: LogConfig
) -> tuple[WritableBuffer, BatchHeader]:
    """The batch in the codec of the topic; as it is when that is its own already, and always
    when it is a control batch."""
    name = config.compression_type
    codec = Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    if codec == header.codec_id or header.is_control:
        return data, header
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    try:
        body = read_body(data, 0, header)
        check_framing(body, 0, len(body), header.count)
    except ProtocolError as error:
        raise _invalid(str(error)) from error
    attributes = header.attributes & ~CODEC_MASK | codec
    packed = pack_batch(
        header._replace(attributes=attributes), compress(codec, body, levels.get(codec))
    )
    return bytearray(packed), read_header(packed)


def _invalid(text: str) -> KafkaError:
    return KafkaError(Errors.INVALID_RECORD, text)
