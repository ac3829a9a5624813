"""Ids that look like paths or log lines, or are as long as a text can be: they are only data."""

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.types import TopicPartition

from tests.behaviours.asking import Asker, batch, produce_request
from tests.behaviours.group_asking import TRANSIENT, Member
from tests.behaviours.txn_asking import Producer

STRANGE = {
    "path": "../../etc/passwd",
    "absolute": "/brokers/ids/0",
    "lines": "first\nERROR second\r\n\tthird",
    "nothing but dots": "..",
    "zero": "a\0b",
    "letters of all the world": "ünï ☃ 𝄞 %2F %s {}",
    "long": "x" * 30_000,
}


@pytest.fixture(params=STRANGE)
def strange(request: pytest.FixtureRequest, name: str) -> str:
    """An id of its own for each test."""
    return f"{STRANGE[request.param]}{name}"


def test_a_group_of_any_name_keeps_its_offsets(port: int, topic: str, strange: str) -> None:
    where = TopicPartition(topic, 0)
    with Member(port, strange) as member:
        while member.find().error_code != 0 or member.describe().error_code in TRANSIENT:
            pass
        member.settle()
        assert member.commit(where, 7) == Errors.NONE
        assert member.fetch(where)[0] == 7
        assert member.describe().group_id == strange


def test_a_transactional_id_may_be_any_text(port: int, topic: str, strange: str) -> None:
    with Producer(port, strange) as producer:
        producer.init()
        producer.write(topic, b"in a transaction")
        assert producer.end(commit=True) is Errors.NONE
        assert producer.wait_for_state("CompleteCommit").transactional_id == strange


def test_a_client_may_call_itself_anything(asker: Asker, topic: str, strange: str) -> None:
    request = produce_request(topic, batch())
    asker.client.request(request, 9, 3, client_id=strange)
    _, answer = asker.client.read_response(type(request), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
