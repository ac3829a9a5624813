"""API versions and cluster features."""

from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
)


class ApiVersionsRequest(Request, api_key=18, versions="0-4", flexible="3+"):
    """Ask which APIs and versions a broker serves; the first request of most clients."""

    client_software_name: str = string("3+", default="")
    client_software_version: str = string("3+", default="")


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string("3+", default="")
    min_version: int = int16("3+", default=0)
    max_version: int = int16("3+", default=0)


class FinalizedFeatureKey(Struct):
    name: str = string("3+", default="")
    max_version_level: int = int16("3+", default=0)
    min_version_level: int = int16("3+", default=0)


class ApiVersionsResponse(Response, api_key=18, versions="0-4", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", default=0)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", default=[], tag=0
    )
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", default=[], tag=2
    )
    zk_migration_ready: bool = boolean("3+", default=False, tag=3)


class FeatureUpdateKey(Struct):
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0", default=False)
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesRequest(Request, api_key=57, versions="0-2", flexible="0+"):
    """Finalize cluster features."""

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+", default=False)


class UpdatableFeatureResult(Struct):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class UpdateFeaturesResponse(Response, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", default=[])
