"""`odradek dump-log`: what a segment file holds, batch by batch or record by record.

Reads the file as it is, while a broker may be writing it, and changes nothing.
"""

import base64
import json
from collections.abc import Iterator, Mapping

import click
from odradek.protocol.errors import KafkaError, ProtocolError
from odradek.protocol.records import (
    HEADER_BYTES,
    BatchHeader,
    check_crc,
    iter_records,
    read_end_txn_marker,
    read_header,
)
from odradek.storage.files import File, OsFiles

Fields = Mapping[str, object]


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("-r", "--records", is_flag=True, help="Also show the records of each batch.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def dump_log(paths: tuple[str, ...], records: bool, as_json: bool) -> None:
    """Show what log segments (.log files) hold.

    Exit code 1: a batch is damaged.

    \b
    odradek dump-log data/orders-0/00000000000000000000.log
    odradek dump-log --records --json data/orders-0/*.log
    """
    for path in paths:
        if not as_json and len(paths) > 1:
            click.echo(f"{path}:")
        try:
            for fields in segment_rows(OsFiles().open(path), records):
                click.echo(json.dumps(fields) if as_json else _line(fields))
        except (ProtocolError, KafkaError) as error:
            click.echo(f"odradek: {path}: {error}", err=True)
            raise SystemExit(1) from None


def segment_rows(file: File, with_records: bool) -> Iterator[Fields]:
    """A row for each batch and, if wanted, for each of its records."""
    position = 0
    size = file.size()
    while position < size:
        head = file.pread(HEADER_BYTES, position)
        header = read_header(head)
        batch = file.pread(header.size_bytes, position)
        check_crc(batch, 0, header)
        yield {"position": position, **batch_fields(header)}
        if with_records:
            yield from record_rows(batch, header)
        position += header.size_bytes


def batch_fields(header: BatchHeader) -> Fields:
    fields: dict[str, object] = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "size": header.size_bytes,
        "leader_epoch": header.leader_epoch,
        "codec": header.codec.name.lower(),
        "timestamp_type": header.timestamp_type.name.lower(),
        "max_timestamp": header.max_timestamp,
        "crc": header.crc,
    }
    if header.has_producer_id:
        fields |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional,
        }
    if header.is_control:
        fields["control"] = True
    return fields


def record_rows(batch: bytes, header: BatchHeader) -> Iterator[Fields]:
    for record in iter_records(batch, 0, header):
        row: dict[str, object] = {"offset": record.offset, "timestamp": record.timestamp}
        if header.is_control:
            marker = read_end_txn_marker(record)
            if marker is not None:
                row["marker"] = "commit" if marker.commit else "abort"
        else:
            row |= {"key": _shown(record.key), "value": _shown(record.value)}
        if record.headers:
            row["headers"] = [[name, _shown(value)] for name, value in record.headers]
        yield row


def _shown(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _line(fields: Fields) -> str:
    indent = "" if "base_offset" in fields else "  "
    return indent + " ".join(f"{name}={_word(value)}" for name, value in fields.items())


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value) if isinstance(value, str) and not value.isidentifier() else str(value)
