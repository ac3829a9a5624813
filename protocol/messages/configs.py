"""Reading and changing the settings of brokers, topics and other resources."""

from odradek.protocol.schema import (
    INT8,
    STRING,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(STRING, nullable="0+")


class DescribeConfigsRequest(Request, api_key=32, versions="0-4", flexible="4+"):
    """Ask for settings with their sources and synonyms."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+", default=False)
    include_documentation: bool = boolean("3+", default=False)


class DescribeConfigsSynonym(Struct):
    name: str = string("1+", default="")
    value: str | None = string("1+", nullable="0+", default=None)
    source: int = int8("1+", default=0)


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    is_default: bool = boolean("0", default=False)
    config_source: int = int8("1+", default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", default=[])
    config_type: int = int8("3+", default=0)
    documentation: str | None = string("3+", nullable="0+", default=None)


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Response, api_key=32, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32(default=0)
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)


class AlterConfigsAlterableConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class AlterConfigsAlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterConfigsAlterableConfig] = array(AlterConfigsAlterableConfig)


class AlterConfigsRequest(Request, api_key=33, versions="0-2", flexible="2+"):
    """Replace all dynamic settings of resources."""

    resources: list[AlterConfigsAlterConfigsResource] = array(AlterConfigsAlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsAlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Response, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsAlterConfigsResourceResponse] = array(
        AlterConfigsAlterConfigsResourceResponse
    )


class IncrementalAlterConfigsAlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class IncrementalAlterConfigsAlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterConfigsAlterableConfig] = array(
        IncrementalAlterConfigsAlterableConfig
    )


class IncrementalAlterConfigsRequest(Request, api_key=44, versions="0-1", flexible="1+"):
    """Set, delete, append to or subtract from single settings."""

    resources: list[IncrementalAlterConfigsAlterConfigsResource] = array(
        IncrementalAlterConfigsAlterConfigsResource
    )
    validate_only: bool = boolean()


class IncrementalAlterConfigsAlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Response, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32(default=0)
    responses: list[IncrementalAlterConfigsAlterConfigsResourceResponse] = array(
        IncrementalAlterConfigsAlterConfigsResourceResponse
    )


class ListClientMetricsResourcesRequest(Request, api_key=74, versions="0", flexible="0+"):
    """List telemetry subscriptions; v0 of what is now ListConfigResources."""


class ListClientMetricsResourcesClientMetricsResource(Struct):
    name: str = string()


class ListClientMetricsResourcesResponse(Response, api_key=74, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    client_metrics_resources: list[ListClientMetricsResourcesClientMetricsResource] = array(
        ListClientMetricsResourcesClientMetricsResource
    )


class ListConfigResourcesRequest(Request, api_key=74, versions="0-1", flexible="0+"):
    """List resources that have settings of their own."""

    resource_types: list[int] = array(INT8, "1+", default=[])


class ListConfigResourcesConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    config_resources: list[ListConfigResourcesConfigResource] = array(
        ListConfigResourcesConfigResource
    )
