"""UpdateFeatures: an administrator has the cluster agree on levels of its features."""

from collections.abc import Iterator, Mapping
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.features import SUPPORTED, Features
from odradek.broker.routes import AnyRoute, Route
from odradek.controller.controller import Controller
from odradek.controller.store import StoreError
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.versions import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.protocol.schema import versions_of

_UPGRADE: Final = 1


class FeaturesHandler:
    def __init__(self, *, features: Features, controller: Controller) -> None:
        self._features = features
        self._controller = controller

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(UpdateFeaturesRequest, versions_of("0-1"), self.update, failed)

    async def update(
        self, request: UpdateFeaturesRequest, context: RequestContext
    ) -> UpdateFeaturesResponse:
        """All or none: one update that is refused keeps the others from being written."""
        if not self._controller.is_active:
            raise KafkaError(Errors.NOT_CONTROLLER)
        if not request.feature_updates:
            raise KafkaError(Errors.INVALID_REQUEST, "no feature is named")
        try:
            return await self._update(request)
        except StoreError as error:
            raise KafkaError(Errors.FEATURE_UPDATE_FAILED, str(error)) from error

    async def _update(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        known = (await self._features.read()).levels
        problems = {each.feature: problem_of(each, known) for each in request.feature_updates}
        if not any(problems.values()) and not request.validate_only:
            wanted = {each.feature: each.max_version_level for each in request.feature_updates}
            await self._features.change(lambda levels: {**levels, **wanted})
        return UpdateFeaturesResponse(
            error_code=0,
            results=[
                UpdatableFeatureResult(
                    feature=name,
                    error_code=Errors.INVALID_REQUEST if problem else Errors.NONE,
                    error_message=problem,
                )
                for name, problem in problems.items()
            ],
        )


def problem_of(update: FeatureUpdateKey, known: Mapping[str, int]) -> str | None:
    """Why a level cannot be finalized."""
    supported, level = SUPPORTED.get(update.feature), update.max_version_level
    if supported is None:
        return f"no broker knows the feature {update.feature!r}"
    if not supported.first <= level <= supported.last:
        return f"levels from {supported.first} to {supported.last} are supported"
    may_go_down = update.allow_downgrade or update.upgrade_type != _UPGRADE
    if level < known.get(update.feature, 0) and not may_go_down:
        return "a lower level is only set when a downgrade is asked for"
    return None


def failed(request: UpdateFeaturesRequest, error: KafkaError) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_code=error.error,
        error_message=error.message,
        results=[
            UpdatableFeatureResult(feature=each.feature, error_code=error.error)
            for each in request.feature_updates
        ],
    )
