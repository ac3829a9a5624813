"""The forms of replication and the codec: the same bytes."""

import pytest
from odradek.protocol.frames import (
    LENGTH,
    decode_response,
    encode_request,
    encode_response,
)
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.fetch_plan import FetchLimits, FetchSession, Sender, Wanted
from odradek.replication.short_fetch import (
    FIRST_VERSION,
    ShortAnswer,
    ShortFetch,
    answer_form,
    request_form,
)

TOPIC_ID = b"i" * 16
WHERE = TopicPartition("t", 3)
ROW = Wanted(TOPIC_ID, 5, 1 << 40, 4, 17)
LIMITS = FetchLimits(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, partition_max_bytes=1 << 19)
SENDER = Sender(2, 99)
SESSION, NUMBER = 123, 456
VERSIONS = range(FIRST_VERSION, 18)


def session() -> FetchSession:
    begun = FetchSession()
    begun.request({WHERE: ROW}, 17, SENDER, LIMITS)
    begun.answered(SESSION)
    begun.answered(SESSION)
    return begun


@pytest.mark.parametrize("client_id", ["broker-2", "", None])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_by_its_form_is_the_one_that_the_codec_writes(version, client_id):
    form = request_form(version, client_id, LIMITS)
    moved = ROW._replace(fetch_offset=(1 << 40) + 9)
    frame = session().frame(form, WHERE, moved, SENDER, NUMBER)
    request = session().go_on({WHERE: moved}, version, SENDER, LIMITS)
    assert frame == encode_request(request, version, NUMBER, client_id)
    assert form.read(frame[LENGTH.size :]) == ShortFetch(
        NUMBER, SESSION, 2, TOPIC_ID, 3, 5, (1 << 40) + 9, 4, 17, 2, 99
    )


def response(data: FetchPartitionData) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    return FetchResponse(session_id=SESSION, responses=[topic])


def data(records: bytes, **more: object) -> FetchPartitionData:
    return FetchPartitionData(
        **{
            "partition_index": 3,
            "error_code": 0,
            "high_watermark": 40,
            "last_stable_offset": 39,
            "log_start_offset": 17,
            "records": records,
            **more,
        }
    )


SHORT = ShortAnswer(NUMBER, SESSION, TOPIC_ID, 3, 40, 39, 17)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 20_000])
@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_by_its_form_is_the_one_that_the_codec_writes(version, size):
    records = b"r" * size
    (frame,) = answer_form(version).write(SHORT, records)
    assert frame == b"".join(encode_response(response(data(records)), version, NUMBER))
    found = answer_form(version).read(frame[LENGTH.size :])
    assert found is not None
    assert (found[0], bytes(found[1])) == (SHORT, records)


@pytest.mark.parametrize(
    "other",
    [
        response(data(b"", error_code=6, high_watermark=-1)),
        response(data(b"", diverging_epoch=FetchEpochEndOffset(epoch=1, end_offset=2))),
        response(data(b"r", preferred_read_replica=3)),
        response(data(b"r", aborted_transactions=[])),
        FetchResponse(session_id=SESSION, responses=[]),
        FetchResponse(error_code=70, session_id=0, responses=[]),
        FetchResponse(
            session_id=SESSION,
            responses=[
                FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data(b"a"), data(b"b")])
            ],
        ),
    ],
)
def test_an_answer_with_anything_else_to_tell_is_for_the_codec(other):
    frame = b"".join(encode_response(other, 17, NUMBER))[LENGTH.size :]
    assert answer_form(17).read(frame) is None
    assert decode_response(frame, FetchRequest, 17) == (NUMBER, other)


def test_an_answer_that_is_cut_or_goes_on_is_for_the_codec():
    (frame,) = answer_form(17).write(SHORT, b"records")
    frame = frame[LENGTH.size :]
    assert [answer_form(17).read(frame[:size]) for size in range(len(frame))] == [None] * len(frame)
    assert answer_form(17).read(frame + b"\0") is None


def test_an_answer_whose_length_is_nonsense_is_for_the_codec():
    (frame,) = answer_form(17).write(SHORT, b"records")
    frame = frame[LENGTH.size :]
    at = frame.index(b"records") - 1
    assert answer_form(17).read(frame[:at] + b"\xff" * 20) is None
