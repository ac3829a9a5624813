"""Membership of classic consumer groups."""

from odradek.protocol.schema import (
    STRING,
    Request,
    Response,
    Struct,
    array,
    blob,
    boolean,
    int8,
    int16,
    int32,
    string,
)


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
    """Ask which broker coordinates a group or a transactional id."""

    key: str = string("0-3", default="")
    key_type: int = int8("1+", default=0)
    coordinator_keys: list[str] = array(STRING, "4+", default=[])


class FindCoordinatorCoordinator(Struct):
    key: str = string("4+", default="")
    node_id: int = int32("4+", default=0)
    host: str = string("4+", default="")
    port: int = int32("4+", default=0)
    error_code: int = int16("4+", default=0)
    error_message: str | None = string("4+", nullable="4+", default=None)


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("0-3", default=0)
    error_message: str | None = string("1-3", nullable="1-3", default=None)
    node_id: int = int32("0-3", default=0)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0)
    coordinators: list[FindCoordinatorCoordinator] = array(
        FindCoordinatorCoordinator, "4+", default=[]
    )


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = blob()


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+"):
    """Enter a group, or a new generation of it."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = blob()


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", default=0)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = blob()


class SyncGroupRequest(Request, api_key=14, versions="0-5", flexible="4+"):
    """Give (as leader) or take the assignment of a generation."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Response, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: bytes = blob()


class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
    """Tell the coordinator that a member lives, and hear of rebalances."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()


class LeaveGroupMemberIdentity(Struct):
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None)


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+"):
    """Take members out of a group."""

    group_id: str = string()
    member_id: str = string("0-2", default="")
    members: list[LeaveGroupMemberIdentity] = array(LeaveGroupMemberIdentity, "3+", default=[])


class LeaveGroupMemberResponse(Struct):
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    error_code: int = int16("3+", default=0)


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    members: list[LeaveGroupMemberResponse] = array(LeaveGroupMemberResponse, "3+", default=[])
