"""CRC-32C: the published check value, and the package whose compiled part computes it."""

import random

import crc32c as package
from odradek.protocol.checksum import crc32c


def test_the_check_value_of_crc_32c_is_computed():
    assert crc32c(b"123456789") == 0xE3069283


def test_a_checksum_goes_on_from_the_one_of_the_bytes_before():
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")


def test_any_bytes_have_the_checksum_that_the_whole_package_gives_them():
    chance = random.Random(1)
    for size in (0, 1, 7, 61, 4096, 100_001):
        data = chance.randbytes(size)
        assert crc32c(memoryview(data)) == package.crc32c(data)
