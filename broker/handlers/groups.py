"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: membership of classic groups.

Stage two of a join lasts until the next generation begins, that of a sync until the assignment is
kept. While a partition is loaded, a heartbeat is answered as if all were well, so that members
wait instead of looking for another coordinator; a sync must start over with a join, because who
was rebalancing then is not known.
"""

import asyncio
from collections.abc import Iterator

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.members import Client, Join, join_refused, sync_refused
from odradek.broker.handlers.groups_reply import Reply
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupMemberIdentity,
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from odradek.protocol.schema import versions_of

_FIRST_JOIN_WITH_NULL_PROTOCOL = 7
_FIRST_SYNC_WITH_PROTOCOL = 5
_FIRST_LEAVE_OF_MANY = 3


class GroupsHandler:
    def __init__(self, *, coordinator: GroupCoordinator, loop: asyncio.AbstractEventLoop) -> None:
        self._coordinator = coordinator
        self._loop = loop

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(JoinGroupRequest, versions_of("0-9"), self.join, join_failed)
        yield Route(SyncGroupRequest, versions_of("0-5"), self.sync, sync_failed)
        yield Route(HeartbeatRequest, versions_of("0-4"), self.heartbeat, heartbeat_failed)
        yield Route(LeaveGroupRequest, versions_of("0-5"), self.leave, leave_failed)

    def join(
        self, request: JoinGroupRequest, context: RequestContext
    ) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
        shard = self._coordinator.members_shard(request.group_id)
        config = self._coordinator.config
        longest = config.max_session_timeout_ms
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= longest:
            raise KafkaError(Errors.INVALID_SESSION_TIMEOUT)
        reply: Reply[JoinGroupResponse] = Reply(self._loop)

        def answer(response: JoinGroupResponse) -> None:
            if response.protocol_name is None and context.version < _FIRST_JOIN_WITH_NULL_PROTOCOL:
                response.protocol_name = ""
            reply(response)

        join = Join.of(request, context.version, client_of(context), answer)
        shard.join(request.group_id, join)
        return reply.answer()

    def sync(
        self, request: SyncGroupRequest, context: RequestContext
    ) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
        names_protocol = request.protocol_type is not None and request.protocol_name is not None
        if context.version >= _FIRST_SYNC_WITH_PROTOCOL and not names_protocol:
            raise KafkaError(Errors.INCONSISTENT_GROUP_PROTOCOL)
        try:
            shard = self._coordinator.members_shard(request.group_id)
        except KafkaError as error:
            if error.error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
                return sync_refused(Errors.REBALANCE_IN_PROGRESS)
            raise
        reply: Reply[SyncGroupResponse] = Reply(self._loop)
        shard.sync(request, reply)
        return reply.answer()

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        try:
            shard = self._coordinator.members_shard(request.group_id)
        except KafkaError as error:
            if error.error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
                return HeartbeatResponse(error_code=Errors.NONE)
            raise
        return HeartbeatResponse(error_code=shard.heartbeat(request))

    def leave(self, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
        shard = self._coordinator.members_shard(request.group_id)
        if context.version < _FIRST_LEAVE_OF_MANY:
            leaving = LeaveGroupMemberIdentity(member_id=request.member_id)
            return LeaveGroupResponse(error_code=shard.leave(request.group_id, leaving))
        return LeaveGroupResponse(
            error_code=Errors.NONE,
            members=[
                LeaveGroupMemberResponse(
                    member_id=leaving.member_id,
                    group_instance_id=leaving.group_instance_id,
                    error_code=shard.leave(request.group_id, leaving),
                )
                for leaving in request.members
            ],
        )


def client_of(context: RequestContext) -> Client:
    # Written as Java writes an address: tools show it, and it is kept in the group's record.
    return Client(context.client_id, f"/{context.peer_address.host}")


def join_failed(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    response = join_refused(error.error, request.member_id)
    response.protocol_name = ""
    return response


def sync_failed(request: SyncGroupRequest, error: KafkaError) -> SyncGroupResponse:
    return sync_refused(error.error)


def heartbeat_failed(request: HeartbeatRequest, error: KafkaError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error.error)


def leave_failed(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error.error)
