"""Every API that a broker advertises is answered in every version it advertises."""

import pytest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.versions import ApiVersionsRequest
from odradek.protocol.registry import api
from odradek.protocol.schema import Array, Field, Message, Nested, Request, Response

from tests.behaviours.asking import Asker

# Between brokers only; a client that sent one of these could do harm.
NOT_FOR_CLIENTS = {4, 5, 6, 7, 56, 58, 67}


def smallest(message: type[Message], version: int) -> Message:
    """A message that says as little as it can in this version."""
    return message(**{field.name: least(field, version) for field in message.fields})


def least(field: Field, version: int) -> object:
    if isinstance(field.kind, Nested) and field.is_required:
        return smallest(field.kind.struct, version)
    may_be_null = version in field.nullable or version not in field.versions
    if field.absent is None and not may_be_null and not isinstance(field.kind, Nested):
        return [] if isinstance(field.kind, Array) else ""
    return field.absent


# Kafka itself leaves some requests that ask for nothing (OffsetFetch v8) without an answer.
@pytest.mark.odradek_only
def test_every_version_that_is_advertised_is_answered(asker: Asker, port: int) -> None:
    hello = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    served = asker.ask(hello, 3).api_keys
    assert len(served) > 20
    for entry in served:
        if entry.api_key in NOT_FOR_CLIENTS:
            continue
        for version in range(entry.min_version, entry.max_version + 1):
            request = smallest(api(entry.api_key).request, version)
            assert isinstance(request, Request)
            if isinstance(request, ProduceRequest):
                request.acks = 1  # with 0 there would be no answer
            asking = Asker(port)
            try:
                assert isinstance(asking.ask(request, version), Response)
            except (ConnectionError, TimeoutError) as error:
                pytest.fail(f"{api(entry.api_key).name} v{version}: {error}")
            finally:
                asking.close()
