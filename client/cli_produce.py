"""`odradek produce`: records from lines or JSON documents."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import click
from odradek.client.batch import Delivery
from odradek.client.cli import TIMEOUT_MS, Common, common_options, fail, opened, pair, run
from odradek.client.cli_format import FormatError, unescape
from odradek.client.cli_output import Progress, print_json
from odradek.client.producer import Producer
from odradek.client.settings import Given
from odradek.protocol.clock import SystemClock
from odradek.protocol.records import Header

CHECK_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """One record as it was typed."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    key_delimiter: bytes | None
    null: bytes | None
    headers: tuple[Header, ...]
    is_json: bool

    def line(self, text: bytes) -> Line:
        if self.is_json:
            return self._document(text)
        key = None
        if self.key_delimiter is not None:
            key, found, rest = text.partition(self.key_delimiter)
            if not found:
                raise FormatError(f"no key in {text[:60]!r}")
            text = rest
        return Line(
            self._content(text), None if key is None else self._content(key), headers=self.headers
        )

    def _content(self, text: bytes) -> bytes | None:
        return None if self.null is not None and text == self.null else text

    def _document(self, text: bytes) -> Line:
        try:
            given = json.loads(text)
        except ValueError as error:
            raise FormatError(f"not JSON: {text[:60]!r}: {error}") from None
        if not isinstance(given, dict):
            raise FormatError(f"not a JSON object: {text[:60]!r}")
        headers = given.get("headers") or []
        pairs = headers.items() if isinstance(headers, dict) else headers
        return Line(
            _bytes(given.get("value")),
            _bytes(given.get("key")),
            given.get("partition"),
            given.get("timestamp"),
            (*self.headers, *((str(name), _bytes(value)) for name, value in pairs)),
        )


def _bytes(value: object) -> bytes | None:
    """Text, or {"base64": …}; anything else is written as JSON again."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"])
    return json.dumps(value, ensure_ascii=False).encode()


def lines_of(source: BinaryIO) -> Iterator[bytes]:
    for line in source:
        yield line.rstrip(b"\r\n") if line.endswith(b"\n") else line


@click.command()
@click.argument("topic")
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="Else stdin.")
@click.option("-k", "--key", help="The same key for all records.")
@click.option("-K", "--key-delimiter", help=r"Lines are KEY<delimiter>VALUE; \t works.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Repeatable.")
@click.option("-Z", "--null", help="Text that stands for null, as in -Z NULL.")
@click.option("-p", "--partition", type=int, help="Else by key, or spread.")
@click.option("-z", "--compression", default="none", help="none, gzip, snappy, lz4 or zstd.")
@click.option("--acks", default="all", help="all, 1 or 0.")
@click.option("--whole", is_flag=True, help="The whole input is one record.")
@click.option(
    "--from-json", is_flag=True, help="Lines are JSON objects, as `consume --json` prints."
)
@common_options
def produce(
    common: Common,
    topic: str,
    source: BinaryIO,
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[str, ...],
    null: str | None,
    partition: int | None,
    compression: str,
    acks: str,
    whole: bool,
    from_json: bool,
) -> None:
    """Send each line of a file, or of stdin, as a record.

    \b
    echo hello | odradek produce greetings
    odradek produce users -K : -f users.txt -Z NULL
    odradek produce files -k report.pdf --whole -f report.pdf
    odradek consume old --json | odradek produce new --from-json
    """
    try:
        delimiter = None if key_delimiter is None else unescape(key_delimiter).encode()
        reading = Reading(
            delimiter,
            None if null is None else null.encode(),
            tuple((name, text.encode()) for name, text in map(pair, headers)),
            from_json,
        )
        settings = common.client(
            compression_type=compression, acks=acks, max_block_ms=TIMEOUT_MS, linger_ms=5
        )
        texts = iter([source.read()]) if whole else lines_of(source)
        fixed_key = None if key is None else key.encode()
        count = run(_produce(settings, topic, texts, reading, fixed_key, partition))
    except FormatError as error:
        fail(str(error), 2)
    if common.as_json:
        print_json({"topic": topic, "records": count})


async def _produce(
    settings: dict[str, Given],
    topic: str,
    texts: Iterator[bytes],
    reading: Reading,
    key: bytes | None,
    partition: int | None,
) -> int:
    """Send everything; raises the first failure."""
    progress = Progress("sent", SystemClock())
    count = 0
    waiting: list[Delivery] = []
    async with opened(Producer(settings)) as producer:
        for text in texts:
            line = reading.line(text)
            delivery = await producer.send(
                topic,
                line.value,
                key=line.key if line.key is not None else key,
                partition=line.partition if line.partition is not None else partition,
                timestamp_ms=line.timestamp_ms,
                headers=line.headers,
            )
            waiting.append(delivery)
            count += 1
            progress.step()
            if len(waiting) >= CHECK_EVERY:
                waiting = await _settled(waiting)
        await producer.flush()
        await _settled(waiting)
    progress.end()
    return count


async def _settled(waiting: list[Delivery]) -> list[Delivery]:
    """Those still on their way; raises for one that failed."""
    rest = []
    for delivery in waiting:
        if delivery.done():
            await delivery
        else:
            rest.append(delivery)
    return rest
