"""Access control lists."""

from odradek.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class DescribeAclsRequest(Request, api_key=29, versions="0-3", flexible="2+"):
    """List access rules that match a filter."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Response, api_key=29, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Request, api_key=30, versions="0-3", flexible="2+"):
    """Add access rules."""

    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreateAclsResponse(Response, api_key=30, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    results: list[AclCreationResult] = array(AclCreationResult)


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Request, api_key=31, versions="0-3", flexible="2+"):
    """Delete access rules that match filters."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Response, api_key=31, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
