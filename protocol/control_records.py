"""Control records: the markers that end a transaction in a partition.

A marker is a batch of one record, with the control and transactional bits set and no sequence. Key:
version i16, type i16 (0 abort, 1 commit; Kafka's Raft log has others). Value: version i16,
coordinator epoch i32. Later versions may append fields.
"""

from struct import Struct
from typing import NamedTuple

from .batch_builder import BatchBuilder, ProducerStamp
from .batch_header import NO_SEQUENCE
from .errors import ProtocolError
from .record_reader import Record

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0
_ABORT = 0
_COMMIT = 1


class EndTxnMarker(NamedTuple):
    commit: bool
    coordinator_epoch: int


def end_txn_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
) -> bytes:
    """The batch that a transaction coordinator has appended to each partition of a transaction."""
    stamp = ProducerStamp(producer_id, producer_epoch, NO_SEQUENCE, is_transactional=True)
    builder = BatchBuilder(producer=stamp, is_control=True)
    builder.append(
        timestamp,
        _KEY.pack(_VERSION, _COMMIT if marker.commit else _ABORT),
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return builder.build(base_offset)


def read_control_type(key: bytes | None) -> int:
    """The type in a control record's key; readers skip types they do not know."""
    if key is None or len(key) < _KEY.size:
        raise ProtocolError("control record has no type")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(f"control record has version {version}")
    return int(control_type)


def read_end_txn_marker(record: Record) -> EndTxnMarker | None:
    """None for a control record that ends no transaction."""
    control_type = read_control_type(record.key)
    if control_type not in (_ABORT, _COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise ProtocolError("transaction marker has no coordinator epoch")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise ProtocolError(f"transaction marker has version {version}")
    return EndTxnMarker(control_type == _COMMIT, coordinator_epoch)
