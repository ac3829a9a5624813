"""Client quotas."""

from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    string,
)


class DescribeClientQuotasComponentData(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


class DescribeClientQuotasRequest(Request, api_key=48, versions="0-1", flexible="1+"):
    """Ask for the quotas of entities."""

    components: list[DescribeClientQuotasComponentData] = array(DescribeClientQuotasComponentData)
    strict: bool = boolean()


class DescribeClientQuotasEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class DescribeClientQuotasValueData(Struct):
    key: str = string()
    value: float = float64()


class DescribeClientQuotasEntryData(Struct):
    entity: list[DescribeClientQuotasEntityData] = array(DescribeClientQuotasEntityData)
    values: list[DescribeClientQuotasValueData] = array(DescribeClientQuotasValueData)


class DescribeClientQuotasResponse(Response, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entries: list[DescribeClientQuotasEntryData] | None = array(
        DescribeClientQuotasEntryData, nullable="0+"
    )


class AlterClientQuotasEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class AlterClientQuotasOpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasEntryData(Struct):
    entity: list[AlterClientQuotasEntityData] = array(AlterClientQuotasEntityData)
    ops: list[AlterClientQuotasOpData] = array(AlterClientQuotasOpData)


class AlterClientQuotasRequest(Request, api_key=49, versions="0-1", flexible="1+"):
    """Set and remove quotas of entities."""

    entries: list[AlterClientQuotasEntryData] = array(AlterClientQuotasEntryData)
    validate_only: bool = boolean()


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entity: list[AlterClientQuotasEntityData] = array(AlterClientQuotasEntityData)


class AlterClientQuotasResponse(Response, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32(default=0)
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
