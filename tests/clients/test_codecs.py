"""Every codec that a client speaks, between every client and a reference, in both directions."""

import pytest

from tests.clients.driver import Client, Record
from tests.clients.roster import CODECS

RECORDS = [
    Record(b"the same words again and again " * 40, key=b"key %d" % number) for number in range(20)
]


def contents(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


@pytest.mark.ability("produce")
def test_the_reference_reads_what_a_client_compressed(
    client: Client, reference: Client, topic: str, codec: str
) -> None:
    client.produce(topic, RECORDS, codec=codec)
    assert contents(reference.consume(topic, len(RECORDS))) == contents(RECORDS)


@pytest.mark.ability("consume")
def test_a_client_reads_what_the_reference_compressed(
    client: Client, reference: Client, topic: str, codec: str
) -> None:
    reference.produce(topic, RECORDS, codec=codec)
    assert contents(client.consume(topic, len(RECORDS))) == contents(RECORDS)


@pytest.mark.parametrize("kept_as", ["uncompressed", *CODECS])
def test_a_topic_may_have_a_codec_of_its_own(
    reference: Client, new_name: str, kept_as: str
) -> None:
    reference.create_topic(new_name, configs={"compression.type": kept_as})
    reference.produce(new_name, RECORDS, codec="snappy")
    assert contents(reference.consume(new_name, len(RECORDS))) == contents(RECORDS)
