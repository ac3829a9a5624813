"""Rows for the sink: the columns the official connector takes, checked before a query starts.

`value` must be there; `key`, `headers`, `partition` and `topic` may be, and `timestamp` counts with
the option keepTimestamps. Other columns are ignored, as the official connector ignores them.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from odradek.protocol.records import Header
from odradek.spark_jobs.offsets import OptionError
from odradek.spark_jobs.options import SinkOptions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

_TYPES: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "topic": (StringType,),
    "partition": (IntegerType,),
    "headers": (ArrayType,),
    "timestamp": (TimestampType,),
}


# Topic, key, value, partition, timestamp in ms, headers.
Row = tuple[str, bytes | None, bytes | None, int | None, int | None, tuple[Header, ...]]


def check_columns(options: SinkOptions, schema: StructType) -> None:
    """Raises OptionError when these columns cannot be written."""
    there = {field.name: field.dataType for field in schema.fields}
    if "value" not in there:
        raise OptionError("A column value is needed: what shall the records hold?")
    if options.topic is None and "topic" not in there:
        raise OptionError("Give the option topic, or a column topic: where shall the rows go?")
    for name, kind in there.items():
        allowed = _TYPES.get(name)
        if allowed and not isinstance(kind, allowed):
            wanted = " or ".join(t.typeName() for t in allowed)
            raise OptionError(f"Column {name} must be {wanted}, not {kind.simpleString()}")


def rows_of(options: SinkOptions, batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch as they are sent. Raises OptionError for a row without a topic."""
    count = batch.num_rows
    none: list[None] = [None] * count
    names = set(batch.schema.names)

    def column(name: str) -> list[object]:
        return batch.column(name).to_pylist() if name in names else list(none)

    topics = column("topic") if options.topic is None else [options.topic] * count
    keys, values = (_bytes_of(batch, name) if name in names else none for name in ("key", "value"))
    if options.keeps_timestamps and "timestamp" in names:
        milliseconds = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000)
        times = milliseconds.to_pylist()
    else:
        times = none
    headers = [_headers(row) for row in column("headers")] if "headers" in names else [()] * count
    if None in topics:
        raise OptionError("A row has null as its topic, and the option topic is not set")
    return zip(topics, keys, values, column("partition"), times, headers, strict=True)


def _bytes_of(batch: pa.RecordBatch, name: str) -> list[bytes | None]:
    found: list[bytes | None] = batch.column(name).cast(pa.binary()).to_pylist()
    return found


def _headers(row: object) -> tuple[Header, ...]:
    if not isinstance(row, list):
        return ()
    return tuple((header["key"], header["value"]) for header in row)
