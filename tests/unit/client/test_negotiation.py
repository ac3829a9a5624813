"""Which version is used, and what a refusal to answer ApiVersions leads to."""

import pytest
from odradek.client.negotiation import (
    ServerVersions,
    readable_version,
    version_to_ask_again,
)
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.versions import ApiVersion, ApiVersionsResponse
from odradek.protocol.schema import Versions


def newest(first: int, last: int, at_most: int | None = None) -> int | None:
    server = ServerVersions({MetadataRequest.api_key: Versions(first, last)})
    return server.newest(MetadataRequest, at_most)


def test_the_newest_shared_version_is_used() -> None:
    assert newest(0, 5) == 5
    assert newest(0, 99) == 13
    assert newest(0, 99, at_most=7) == 7


def test_there_may_be_no_shared_version() -> None:
    assert newest(14, 20) is None
    assert newest(9, 12, at_most=8) is None
    assert ServerVersions().newest(MetadataRequest) is None


def test_a_refusal_is_read_in_version_0() -> None:
    assert readable_version(bytes.fromhex("00000001 0023 00000001"), 4) == 0
    assert readable_version(bytes.fromhex("00000001 0000 00000001"), 4) == 4


def refusal(*offered: ApiVersion) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=35, api_keys=list(offered))


def test_the_offered_version_is_asked_next() -> None:
    offer = ApiVersion(api_key=18, min_version=0, max_version=2)
    assert version_to_ask_again(refusal(offer), 4) == 2
    assert version_to_ask_again(refusal(), 4) == 0


def test_an_offer_that_is_no_lower_ends_the_talk() -> None:
    with pytest.raises(KafkaError):
        version_to_ask_again(refusal(ApiVersion(api_key=18, min_version=0, max_version=4)), 4)
