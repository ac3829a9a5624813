"""Messages that are read and written by one call."""

import struct

import pytest
from odradek.protocol.forms import INT32, INT64, UUID, Form

EXAMPLE = (
    b"head"
    + struct.pack(">i", INT32[0].example)
    + struct.pack(">q", INT64[0].example)
    + b"between"
    + UUID.example
    + b"tail"
)
FORM = Form(EXAMPLE, [INT32[0], INT64[0], UUID])
VALUES = (-7, 1 << 40, b"i" * 16)


def test_what_a_form_writes_it_reads_again():
    written = FORM.write(*VALUES)
    assert written == b"head" + struct.pack(">iq", *VALUES[:2]) + b"between" + VALUES[2] + b"tail"
    assert FORM.read(written) == VALUES
    assert FORM.size == len(written)


def test_what_differs_in_a_fixed_byte_is_not_of_the_form():
    written = FORM.write(*VALUES)
    fixed = [*range(4), *range(16, 23), *range(39, 43)]
    for position in fixed:
        other = bytearray(written)
        other[position] ^= 1
        assert FORM.read(other) is None
    for position in set(range(len(written))) - set(fixed):
        other = bytearray(written)
        other[position] ^= 1
        assert FORM.read(other) is not None


def test_what_ends_early_is_not_of_the_form():
    written = FORM.write(*VALUES)
    assert [FORM.read(written[:size]) for size in range(len(written))] == [None] * len(written)


def test_a_value_that_is_not_in_the_example_is_refused():
    with pytest.raises(ValueError, match="not found"):
        Form(EXAMPLE, [INT64[0], INT32[0]])
