"""`odradek consume`: records to stdout."""

import json
import sys
from collections.abc import Callable

import click
from odradek.client.admin import Admin, raise_failures
from odradek.client.cli import TIMEOUT_MS, Common, common_options, fail, opened, run
from odradek.client.cli_format import FormatError, Start, compile_format, parse_start
from odradek.client.cli_groups import offsets_at
from odradek.client.cli_output import Progress, json_record
from odradek.client.consumer import Consumer
from odradek.client.settings import Given
from odradek.client.values import ConsumerRecord, ConsumerRecords
from odradek.protocol.clock import SystemClock
from odradek.protocol.types import TopicPartition

DEFAULT_FORMAT = r"%s\n"
POLL_S = 0.5


@click.command()
@click.argument("topics", nargs=-1, required=True)
@click.option(
    "-o",
    "--offset",
    "start",
    default="beginning",
    show_default=True,
    help="beginning, end, @TIMESTAMP_MS, N, or -N for the last N of each partition.",
)
@click.option("-p", "--partition", "indexes", multiple=True, type=int, help="Else all; repeatable.")
@click.option("-n", "--count", type=int, help="Stop after so many records.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more at the end, as tail -f does.")
@click.option(
    "-F",
    "--format",
    "layout",
    default=DEFAULT_FORMAT,
    help=r"%t %p %o %T %k %s %h %K %S, as in kcat; \n and \t.",
)
@click.option("-Z", "--null", default="", help="What to print for null.")
@click.option("-g", "--group", help="Read as a member of this group, and commit.")
@click.option("--committed", is_flag=True, help="Only records of committed transactions.")
@common_options
def consume(
    common: Common,
    topics: tuple[str, ...],
    start: str,
    indexes: tuple[int, ...],
    count: int | None,
    follow: bool,
    layout: str,
    null: str,
    group: str | None,
    committed: bool,
) -> None:
    """Print the records of topics: from their beginning to their end, unless told otherwise.

    \b
    odradek consume orders
    odradek consume orders -o -10 -f
    odradek consume orders -o @1700000000000 -n 5 --json
    odradek consume orders -F '%T %k=%s (%p:%o)\\n'
    odradek consume orders -g billing -f
    """
    try:
        write = _json_line if common.as_json else compile_format(layout, null.encode())
        wanted = parse_start(start)
    except FormatError as error:
        fail(str(error), 2)
    settings = common.client(
        isolation_level="read_committed" if committed else "read_uncommitted",
        default_api_timeout_ms=TIMEOUT_MS,
        auto_offset_reset="earliest",
        allow_auto_create_topics=False,
    )
    printer = Printer(write, count)
    if group is not None:
        settings["group.id"] = group
        run(_consume_as_member(settings, topics, printer, follow))
    else:
        run(_consume(common, settings, topics, indexes, wanted, printer, follow))


def _json_line(record: ConsumerRecord) -> bytes:
    return json.dumps(json_record(record), ensure_ascii=False).encode() + b"\n"


class Printer:
    def __init__(self, write: Callable[[ConsumerRecord], bytes], most: int | None) -> None:
        self._write = write
        self.left = most
        self._out = sys.stdout.buffer
        self._progress = Progress("read", SystemClock(), most, is_printing=True)

    @property
    def is_done(self) -> bool:
        return self.left is not None and self.left <= 0

    def print(self, records: ConsumerRecords) -> int:
        """Print as many as are still wanted; how many that were."""
        chosen = list(records)[: self.left]
        self._out.write(b"".join(map(self._write, chosen)))
        self._out.flush()
        self._progress.step(len(chosen))
        if self.left is not None:
            self.left -= len(chosen)
        return len(chosen)

    def end(self) -> None:
        self._progress.end()


async def _consume(
    common: Common,
    settings: dict[str, Given],
    topics: tuple[str, ...],
    indexes: tuple[int, ...],
    start: Start,
    printer: Printer,
    follow: bool,
) -> None:
    async with opened(Admin(common.admin())) as admin:
        views = raise_failures(await admin.describe_topics(topics))
        partitions = [
            TopicPartition(view.name, index)
            for view in views.values()
            for index in view.partitions
            if not indexes or index in indexes
        ]
        begins = await offsets_at(admin, partitions, start)
        ends = await offsets_at(admin, partitions, Start(at_end=True))
    async with opened(Consumer(settings)) as consumer:
        consumer.assign(partitions)
        for partition, offset in begins.items():
            consumer.seek(partition, offset)
        open_ends = {p for p in partitions if begins[p] < ends[p]}
        while not printer.is_done and (follow or open_ends):
            printer.print(await consumer.poll(POLL_S, printer.left))
            for partition in list(open_ends):
                if await consumer.position(partition) >= ends[partition]:
                    open_ends.discard(partition)
    printer.end()


async def _consume_as_member(
    settings: dict[str, Given], topics: tuple[str, ...], printer: Printer, follow: bool
) -> None:
    """Without `follow`, until nothing of what is assigned is left."""
    async with opened(Consumer(settings)) as consumer:
        consumer.subscribe(topics)
        while not printer.is_done:
            count = printer.print(await consumer.poll(POLL_S, printer.left))
            lags = [consumer.lag(partition) for partition in consumer.assignment()]
            if not follow and not count and lags and all(lag == 0 for lag in lags):
                break
    printer.end()
