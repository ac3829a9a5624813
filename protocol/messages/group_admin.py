"""Looking at groups and removing them."""

from odradek.protocol.schema import (
    STRING,
    Request,
    Response,
    Struct,
    array,
    blob,
    boolean,
    int16,
    int32,
    string,
)


class DescribeGroupsRequest(Request, api_key=15, versions="0-6", flexible="5+"):
    """Ask for state and members of groups."""

    groups: list[str] = array(STRING)
    include_authorized_operations: bool = boolean("3+", default=False)


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = blob()
    member_assignment: bytes = blob()


class DescribeGroupsDescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Response, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+", default=0)
    groups: list[DescribeGroupsDescribedGroup] = array(DescribeGroupsDescribedGroup)


class ListGroupsRequest(Request, api_key=16, versions="0-5", flexible="3+"):
    """List the groups this broker coordinates."""

    states_filter: list[str] = array(STRING, "4+", default=[])
    types_filter: list[str] = array(STRING, "5+", default=[])


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", default="")
    group_type: str = string("5+", default="")


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


class DeleteGroupsRequest(Request, api_key=42, versions="0-2", flexible="2+"):
    """Delete empty groups with their offsets."""

    groups_names: list[str] = array(STRING)


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Response, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32(default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
