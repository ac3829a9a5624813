"""Every message in every version reads back what it wrote, and nothing of what follows."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.protocol.compiler import decode, decode_from, encode
from odradek.protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataValue
from odradek.protocol.messages.groups import HeartbeatRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.registry import all_messages
from odradek.protocol.schema import Versioned

from tests.support.effort import THOROUGH
from tests.support.messages import Maker, every_version


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


def test_unknown_tags_are_skipped_in_every_flexible_version() -> None:
    for message, version in every_version():
        if version not in message.flexible or message is ConsumerGroupMemberMetadataValue:
            continue  # the one message that is never without a tag
        sent = Maker(Random(version)).message(message, version)
        for field in message.fields:
            if field.tag is not None:
                setattr(sent, field.name, field.absent)
        encoded = encode(sent, version)
        assert encoded.endswith(b"\x00")
        tagged = encoded[:-1] + b"\x02" + b"\x7e\x03abc" + b"\xff\x7f\x00"
        assert decode_from(message, version, tagged, 0) == (sent, len(tagged))


def test_a_text_too_long_for_kafka_is_not_sent() -> None:
    longest = HeartbeatRequest(group_id="x" * 32_767, generation_id=1, member_id="m")
    assert decode(HeartbeatRequest, 4, encode(longest, 4)) == longest
    longer = HeartbeatRequest(group_id="x" * 32_768, generation_id=1, member_id="m")
    with pytest.raises(ValueError, match="too long"):
        encode(longer, 4)


def test_compact_and_classic_forms_on_the_wire() -> None:
    request = HeartbeatRequest(
        group_id="grp", generation_id=5, member_id="", group_instance_id=None
    )
    assert encode(request, 3) == bytes.fromhex("0003 677270 00000005 0000 ffff")
    assert encode(request, 4) == bytes.fromhex("04 677270 00000005 01 00 00")
    topics = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(range(16)), name=None)])
    assert encode(topics, 12) == bytes.fromhex("02 000102030405060708090a0b0c0d0e0f 00 00 01 00 00")
    assert encode(MetadataRequest(topics=None), 12) == bytes.fromhex("00 01 00 00")
