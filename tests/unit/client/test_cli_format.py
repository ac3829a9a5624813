"""Format strings, offsets and delimiters of the command line."""

import pytest
from odradek.client.cli_format import (
    FormatError,
    Start,
    compile_format,
    parse_start,
    unescape,
)
from odradek.client.values import ConsumerRecord

RECORD = ConsumerRecord(
    "orders", 3, 42, 1_700_000_000_000, b"key", b"val\xff", (("a", b"1"), ("b", None))
)


@pytest.mark.parametrize(
    ("layout", "printed"),
    [
        (r"%s\n", b"val\xff\n"),
        (r"%t-%p@%o %T", b"orders-3@42 1700000000000"),
        (r"%k\t%s\x00", b"key\tval\xff\0"),
        ("%K %S %h %%", b"3 4 a=1,b=~ %"),
        (r"\\n grüße", "\\n grüße".encode()),
        ("", b""),
    ],
)
def test_records_are_written_as_the_format_says(layout: str, printed: bytes) -> None:
    assert compile_format(layout, b"~")(RECORD) == printed


def test_null_is_not_nothing() -> None:
    empty = RECORD._replace(key=None, value=None)
    assert compile_format("[%k|%s|%S]", b"NULL")(empty) == b"[NULL|NULL|-1]"


@pytest.mark.parametrize("layout", ["%q", "100%", r"\q", "tail\\"])
def test_a_format_that_means_nothing_is_refused(layout: str) -> None:
    with pytest.raises(FormatError):
        compile_format(layout)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", Start()),
        ("end", Start(at_end=True)),
        ("17", Start(offset=17)),
        ("0", Start(offset=0)),
        ("-10", Start(before_end=10)),
        ("@1700000000000", Start(timestamp_ms=1_700_000_000_000)),
    ],
)
def test_starts_are_read(text: str, start: Start) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["", "now", "@noon", "1.5"])
def test_other_starts_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_start(text)


def test_delimiters_may_be_escaped() -> None:
    assert unescape(r"\t|\x1f") == "\t|\x1f"
