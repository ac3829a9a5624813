"""ApiVersions: what this broker serves, derived from its routes, and the cluster's features.

Clients send it first, in the newest version they know. A version from the future is answered in
version 0 with the range that is served, and the client asks again.
"""

import re
from collections.abc import Iterable
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.features import NOTHING, SUPPORTED, Features
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from odradek.protocol.schema import versions_of

_SOFTWARE_WORD: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE: Final = 3
_FIRST_WITH_LEVEL_0: Final = 4


class VersionsHandler:
    def __init__(self, routes: Iterable[AnyRoute], features: Features | None = None) -> None:
        """`routes` are all others; the route to this handler is added to them here."""
        self.route: Final[Route[ApiVersionsRequest]] = Route(
            ApiVersionsRequest, versions_of("0-4"), self.describe, _failure, self._unsupported
        )
        self.routes: Final[list[AnyRoute]] = sorted(
            [*routes, self.route], key=lambda route: route.request.api_key
        )
        self._features = features
        # Made anew only when a feature has been finalized, which is rare.
        self._told = NOTHING
        self._responses = self._respond()

    def describe(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        if context.version >= _FIRST_WITH_SOFTWARE:
            _check_software(request)
        if self._features is not None and self._features.finalized != self._told:
            self._told = self._features.finalized
            self._responses = self._respond()
        return self._responses[context.version >= _FIRST_WITH_LEVEL_0]

    def _respond(self) -> tuple[ApiVersionsResponse, ApiVersionsResponse]:
        """The answer to older versions, whose clients fail over features with a level 0, and to
        newer ones."""
        keys = [_entry(route) for route in self.routes]
        finalized = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in self._told.levels.items()
        ]
        supported = [
            SupportedFeatureKey(name=name, min_version=levels.first, max_version=levels.last)
            for name, levels in SUPPORTED.items()
        ]
        older, newer = (
            ApiVersionsResponse(
                error_code=Errors.NONE,
                api_keys=keys,
                supported_features=features,
                finalized_features_epoch=self._told.epoch,
                finalized_features=finalized,
            )
            for features in ([each for each in supported if each.min_version], supported)
        )
        return older, newer

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
