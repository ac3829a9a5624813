"""How verbs print: aligned columns or JSON, and progress where a person watches."""

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence

import click
from odradek.client.values import ConsumerRecord
from odradek.protocol.clock import Clock

PROGRESS_SECONDS = 0.2
BAR_COLUMNS = 30


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as they must be; the last one is not padded."""
    lines = [list(columns), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line[:-1], widths, strict=False)]
        click.echo("  ".join([*cells, line[-1]]).rstrip())


def print_rows(as_json: bool, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table, or an array of objects with the columns' names."""
    if as_json:
        names = [name.lower().replace(" ", "_") for name in columns]
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, list | tuple):
        return ",".join(map(str, cell)) or "-"
    if isinstance(cell, dict):
        return ",".join(f"{key}={value}" for key, value in cell.items()) or "-"
    return str(cell)


def json_bytes(content: object) -> object:
    """Text where the bytes are UTF-8; else an object that says how they are written."""
    if content is None or not isinstance(content, bytes):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def json_record(record: ConsumerRecord) -> Mapping[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [[name, json_bytes(value)] for name, value in record.headers],
    }


class Progress:
    """A running count on stderr where that is a terminal, with a bar where the end is known.

    Not among the records that are printed on the same terminal: whoever prints some says so.
    """

    def __init__(
        self, what: str, clock: Clock, total: int | None = None, *, is_printing: bool = False
    ) -> None:
        self._what = what
        self._clock = clock
        self._total = total
        self._is_shown = sys.stderr.isatty() and not (is_printing and sys.stdout.isatty())
        self._began = self._shown_at = clock.monotonic()
        self._count = 0

    def step(self, count: int = 1) -> None:
        self._count += count
        if self._is_shown and self._clock.monotonic() - self._shown_at > PROGRESS_SECONDS:
            self._show()

    def end(self) -> None:
        if self._is_shown:
            self._show()
            click.echo(err=True)

    def _show(self) -> None:
        self._shown_at = self._clock.monotonic()
        rate = self._count / max(self._shown_at - self._began, 1e-9)
        line = progress_line(self._what, self._count, self._total, rate)
        click.echo(f"\r{line} ", nl=False, err=True)


def progress_line(what: str, count: int, total: int | None, rate: float) -> str:
    numbers = f"{what} {count:,} records, {rate:,.0f}/s"
    if not total:
        return numbers
    share = min(count / total, 1.0)
    full = "#" * int(share * BAR_COLUMNS)
    return f"[{full:-<{BAR_COLUMNS}}] {share:4.0%} {numbers}"
