"""Features of a cluster: levels that all its brokers agreed on, and what else they could do."""

from collections.abc import Mapping
from typing import Final

from odradek.client.admin_base import AdminBase, Results, check, failure
from odradek.protocol.messages.versions import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2


class FeatureAdmin(AdminBase):
    async def finalized_features(self) -> dict[str, int]:
        """The levels in force, by the name of the feature."""
        connection = await self._retry(self._cluster.controller)
        return dict(connection.features)

    async def update_features(
        self, levels: Mapping[str, int], *, downgrades: bool = False, validate_only: bool = False
    ) -> Results[str, None]:
        """Put these levels in force, all or none; 0 takes a feature out. Lower levels than those
        in force are refused unless `downgrades` are wanted."""
        request = UpdateFeaturesRequest(
            timeout_ms=self._timeout_ms,
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    allow_downgrade=downgrades,
                    upgrade_type=SAFE_DOWNGRADE if downgrades else UPGRADE,
                )
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        answer = await self._ask_controller(
            request, UpdateFeaturesResponse, lambda a: [a.error_code]
        )
        check(answer.error_code, answer.error_message)
        # Newer brokers name no features where all is well.
        refused = {
            row.feature: failure(row.error_code, row.error_message) for row in answer.results
        }
        return {name: refused.get(name) for name in levels}
