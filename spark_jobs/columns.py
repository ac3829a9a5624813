"""The columns of the source, and records turned into Arrow batches of them.

The same columns as the official connector's. Arrow batches go to the JVM as they are, without a
row in between.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from odradek.client.values import ConsumerRecord

COLUMNS: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, "
    "timestamp TIMESTAMP, timestampType INT"
)
HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
HEADERS: Final = f"headers {HEADERS_TYPE}"

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_ARROW: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
_ARROW_WITH_HEADERS: Final = _ARROW.append(
    pa.field("headers", pa.list_(pa.field("element", _HEADER)))
)


def schema_of(includes_headers: bool) -> str:
    return f"{COLUMNS}, {HEADERS}" if includes_headers else COLUMNS


def to_arrow(records: Sequence[ConsumerRecord], includes_headers: bool) -> pa.RecordBatch:
    """One batch of records of one partition; at least one."""
    count = len(records)
    _, _, offsets, times, keys, values, headers, _, are_append_times = zip(*records, strict=True)
    milliseconds = pa.array(times, pa.int64())
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.repeat(pa.scalar(records[0].topic, pa.string()), count),
        pa.repeat(pa.scalar(records[0].partition, pa.int32()), count),
        pa.array(offsets, pa.int64()),
        pc.multiply(milliseconds, 1000).cast(_TIMESTAMP),
        pa.array(are_append_times, pa.bool_()).cast(pa.int32()),
    ]
    if not includes_headers:
        return pa.RecordBatch.from_arrays(columns, schema=_ARROW)
    # A record without headers has none at all, not an empty list of them.
    listed = [[(name, value) for name, value in row] if row else None for row in headers]
    columns.append(pa.array(listed, _ARROW_WITH_HEADERS.field("headers").type))
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW_WITH_HEADERS)
