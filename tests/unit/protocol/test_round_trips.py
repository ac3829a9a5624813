"""Every message in every version reads back what it wrote, and nothing of what follows."""

import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.protocol.compiler import decode_from, encode
from odradek.protocol.registry import all_messages
from odradek.protocol.schema import Versioned

from tests.support.messages import Maker

THOROUGH = bool(os.environ.get("ODRADEK_THOROUGH"))


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
@given(st.randoms(use_true_random=False))
@settings(
    max_examples=200 if THOROUGH else 4,
    deadline=None,
    derandomize=not THOROUGH,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_version_reads_back_what_it_wrote(message: type[Versioned], random: Random) -> None:
    for version in message.versions:
        sent = Maker(random).message(message, version)
        encoded = encode(sent, version)
        assert decode_from(message, version, b"before" + encoded + b"after", 6) == (
            sent,
            6 + len(encoded),
        )
