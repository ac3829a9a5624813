"""What the unit tests of the codec do briefly, for as long as it takes to believe it."""

from random import Random

import pytest
from odradek.protocol.compiler import decode_from, encode
from odradek.protocol.footprint import MEMORY_PER_BYTE, SPARE_MEMORY
from odradek.protocol.registry import API_KEYS, all_messages, api
from odradek.protocol.schema import Versioned

from tests.support.bad_frames import bad_frames, honest_frames, tally
from tests.support.dense_messages import dense_encodings, peak_of_decoding
from tests.support.messages import Maker

EXAMPLES = 60
FRAMES = 200_000
PATIENCE_SECONDS = 5.0


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
def test_every_version_reads_back_what_it_wrote(message: type[Versioned]) -> None:
    for version in message.versions:
        maker = Maker(Random(f"{message.__name__} {version}"))
        for _ in range(EXAMPLES):
            sent = maker.message(message, version)
            encoded = encode(sent, version)
            assert decode_from(message, version, encoded, 0) == (sent, len(encoded))


@pytest.mark.timeout(900)
def test_200_000_damaged_frames_raise_nothing_but_protocol_error_and_stay_cheap() -> None:
    for frame in honest_frames(Random(2)):
        frame.read()
    result = tally(bad_frames(seed=2, count=FRAMES))
    print(result)
    assert result.read + result.refused == FRAMES
    assert result.slowest_seconds < PATIENCE_SECONDS
    assert result.largest_multiple < MEMORY_PER_BYTE, result.hungriest


@pytest.mark.parametrize("key", API_KEYS, ids=lambda key: api(key).name)
def test_no_request_costs_more_memory_than_its_allowance(key: int) -> None:
    request = api(key).request
    version = max(request.versions)
    for path, encoded in dense_encodings(request, version, 64_000):
        peak = peak_of_decoding(request, version, encoded)
        assert peak < SPARE_MEMORY + MEMORY_PER_BYTE * len(encoded), path
