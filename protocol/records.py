"""Record batches, version 2: the one door to their headers, to reading and to building them.

The body of a batch, after `batch_header`'s 61 bytes and decompressed, is `count` records:

    length varint | attributes i8 | timestamp delta varlong | offset delta varint
    key length varint (-1: null), key | value length varint (-1: null), value
    header count varint, each: key length varint, key, value length varint (-1: null), value

Everything is checked while it is read: a length that lies, a varint too long, a negative where none
may be, bytes after the last record. All are ProtocolError, and no count or length is believed
before the bytes for it are seen. `strict` also demands offset deltas 0, 1, 2, ... as producers must
send them; compacted batches have gaps.

Microseconds per record on Python 3.11 (`benchmarks.records`; aiokafka's are Cython):

                     build 16 x 1 KB   1000 x 100 B    read 16 x 1 KB   1000 x 100 B
    here                  1.4              1.0              1.5              1.4
    keys alone             -                -               1.2              1.2
    kafka-python          3.0              2.4              4.0              4.0
    aiokafka              1.0              0.3              0.2              0.1

A call per varint makes reading 1.7 times as slow; a regular expression for the varints, or one
Struct for the first ten bytes, gained nothing over the plain form.
"""

from .batch_builder import (
    NO_PRODUCER,
    BatchBuilder,
    ProducerStamp,
    build_batch,
    rebuild_batch,
    record_size_bound,
)
from .batch_header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ReadableBuffer,
    TimestampType,
    UnsupportedMagic,
    WritableBuffer,
    check_crc,
    crc_matches,
    iter_headers,
    pack_batch,
    peek_magic,
    read_header,
    set_create_time,
    set_log_append_time,
    set_producer,
    write_base_offset_and_epoch,
    write_crc,
)
from .control_records import (
    EndTxnMarker,
    end_txn_marker,
    read_control_type,
    read_end_txn_marker,
)
from .record_reader import (
    Header,
    Record,
    RecordSpan,
    iter_body,
    iter_records,
    iter_spans,
    read_body,
)

__all__ = [
    "CONTROL_BIT",
    "DELETE_HORIZON_BIT",
    "HEADER_BYTES",
    "LOG_APPEND_TIME_BIT",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "NO_LEADER_EPOCH",
    "NO_PRODUCER",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "TRANSACTIONAL_BIT",
    "BatchBuilder",
    "BatchHeader",
    "EndTxnMarker",
    "Header",
    "ProducerStamp",
    "ReadableBuffer",
    "Record",
    "RecordSpan",
    "TimestampType",
    "UnsupportedMagic",
    "WritableBuffer",
    "build_batch",
    "check_crc",
    "crc_matches",
    "end_txn_marker",
    "iter_body",
    "iter_headers",
    "iter_records",
    "iter_spans",
    "pack_batch",
    "peek_magic",
    "read_body",
    "read_control_type",
    "read_end_txn_marker",
    "read_header",
    "rebuild_batch",
    "record_size_bound",
    "set_create_time",
    "set_log_append_time",
    "set_producer",
    "write_base_offset_and_epoch",
    "write_crc",
]
