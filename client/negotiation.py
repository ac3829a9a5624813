"""Which versions a broker speaks: the first question on every connection.

The question itself has versions. A broker that does not know ours answers in version 0 with the
range it knows, and is asked again within it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.primitives import Buffer
from odradek.protocol.schema import Request, Versions

SOFTWARE_NAME: Final = "odradek"
SOFTWARE_VERSION: Final = "0.1.0"

# After the correlation id, every version of the answer begins with the error code.
_ERROR_AT: Final = slice(4, 6)
_UNSUPPORTED: Final = int(Errors.UNSUPPORTED_VERSION).to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class ServerVersions:
    """The ranges by api key that a broker announced, and the features its cluster finalized."""

    ranges: Mapping[int, Versions] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)

    def newest(self, request: type[Request], at_most: int | None = None) -> int | None:
        """The newest version that both sides speak, if there is one."""
        theirs = self.ranges.get(request.api_key)
        ours = request.versions
        if theirs is None or theirs.last is None or ours.last is None:
            return None
        newest = min(theirs.last, ours.last)
        if at_most is not None:
            newest = min(newest, at_most)
        return newest if newest >= max(theirs.first, ours.first) else None


def versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )


def readable_version(frame: Buffer, asked: int) -> int:
    """The version in which the answer to ApiVersions is written."""
    return 0 if frame[_ERROR_AT] == _UNSUPPORTED else asked


def version_to_ask_again(refusal: ApiVersionsResponse, asked: int) -> int:
    """The version to use after UNSUPPORTED_VERSION; raises when there is none left to try."""
    offered = [row for row in refusal.api_keys if row.api_key == ApiVersionsRequest.api_key]
    last = offered[0].max_version if offered else 0
    if not 0 <= last < asked:
        raise KafkaError(Errors.UNSUPPORTED_VERSION, "no version of ApiVersions is shared")
    return last


def versions_from(answer: ApiVersionsResponse) -> ServerVersions:
    return ServerVersions(
        {row.api_key: Versions(row.min_version, row.max_version) for row in answer.api_keys},
        {row.name: row.max_version_level for row in answer.finalized_features},
    )
