"""ApiVersions: what this broker serves, derived from its routes.

Clients send it first, in the newest version they know. A version from the future is answered in
version 0 with the range that is served, and the client asks again.
"""

import re
from collections.abc import Iterable
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.schema import versions_of

_SOFTWARE_WORD: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE: Final = 3


class VersionsHandler:
    def __init__(self, routes: Iterable[AnyRoute]) -> None:
        """`routes` are all others; the route to this handler is added to them here."""
        self.route: Final[Route[ApiVersionsRequest]] = Route(
            ApiVersionsRequest, versions_of("0-4"), self.describe, _failure, self._unsupported
        )
        self.routes: Final[list[AnyRoute]] = sorted(
            [*routes, self.route], key=lambda route: route.request.api_key
        )
        # Never changes while the broker runs, so it is made once.
        self._response = ApiVersionsResponse(
            error_code=Errors.NONE, api_keys=[_entry(route) for route in self.routes]
        )

    def describe(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        if context.version >= _FIRST_WITH_SOFTWARE:
            _check_software(request)
        return self._response

    def _unsupported(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            error_code=Errors.UNSUPPORTED_VERSION, api_keys=[_entry(self.route)]
        )


def _entry(route: AnyRoute) -> ApiVersion:
    assert route.versions.last is not None
    return ApiVersion(
        api_key=route.request.api_key,
        min_version=route.versions.first,
        max_version=route.versions.last,
    )


def _check_software(request: ApiVersionsRequest) -> None:
    for word in (request.client_software_name, request.client_software_version):
        if not _SOFTWARE_WORD.fullmatch(word):
            raise KafkaError(Errors.INVALID_REQUEST, "not a name or version of client software")


def _failure(request: ApiVersionsRequest, failure: KafkaError) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=failure.error, api_keys=[])
