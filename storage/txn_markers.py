"""The transaction markers among batches that are about to enter, or are in, a log."""

from collections.abc import Sequence

from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.records import (
    CONTROL_BIT,
    BatchHeader,
    EndTxnMarker,
    ReadableBuffer,
    iter_records,
    read_end_txn_marker,
)

NO_MARKERS: dict[int, EndTxnMarker] = {}


def read_markers(data: ReadableBuffer, headers: Sequence[BatchHeader]) -> dict[int, EndTxnMarker]:
    """Markers by their offset. Asked before anything is written: a control batch that does not
    decode must not get into the log."""
    markers: dict[int, EndTxnMarker] | None = None
    position = 0
    for header in headers:
        if header.attributes & CONTROL_BIT and header.count > 0:
            marker = _read(data, position, header)
            if marker is not None:
                markers = markers or {}
                markers[header.base_offset] = marker
        position += header.size_bytes
    return NO_MARKERS if markers is None else markers


def _read(data: ReadableBuffer, position: int, header: BatchHeader) -> EndTxnMarker | None:
    try:
        return read_end_txn_marker(next(iter_records(data, position, header)))
    except ProtocolError as error:
        where = f"control batch at offset {header.base_offset} does not decode: {error}"
        raise KafkaError(Errors.CORRUPT_MESSAGE, where) from error
