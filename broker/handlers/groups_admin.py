"""DescribeGroups, ListGroups and DeleteGroups: groups as administrators see them."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.describing import described, listed, not_described
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.handlers.groups_reply import Reply
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsDescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from odradek.protocol.schema import versions_of

# What anyone may do with a group where nobody is denied anything, as bits by operation code.
ALL_GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8))

_FIRST_DESCRIBE_OF_NONE: Final = 6


class GroupsAdminHandler:
    def __init__(self, *, coordinator: GroupCoordinator, loop: asyncio.AbstractEventLoop) -> None:
        self._coordinator = coordinator
        self._loop = loop

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(DescribeGroupsRequest, versions_of("0-6"), self.describe, describe_failed)
        yield Route(ListGroupsRequest, versions_of("0-5"), self.list_groups, list_failed)
        yield Route(DeleteGroupsRequest, versions_of("0-2"), self.delete, delete_failed)

    def describe(
        self, request: DescribeGroupsRequest, context: RequestContext
    ) -> DescribeGroupsResponse:
        groups = [self._describe(group_id, context.version) for group_id in request.groups]
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == Errors.NONE:
                    group.authorized_operations = ALL_GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    def _describe(self, group_id: str, version: int) -> DescribeGroupsDescribedGroup:
        try:
            shard = self._coordinator.shard_of(group_id)
        except KafkaError as error:
            return not_described(group_id, error.error)
        group = shard.groups.get(group_id)
        if group is not None:
            return described(group)
        dead = not_described(group_id, Errors.NONE, GroupState.DEAD.value)
        if version >= _FIRST_DESCRIBE_OF_NONE:
            is_consumer = group_id in shard.consumers.groups
            dead.error_code = Errors.GROUP_ID_NOT_FOUND
            reason = "is not a classic group" if is_consumer else "not found"
            dead.error_message = f"Group {group_id} {reason}."
        return dead

    def list_groups(
        self, request: ListGroupsRequest, context: RequestContext
    ) -> ListGroupsResponse:
        is_loading = self._coordinator.runtime.is_loading
        groups = self._coordinator.groups()
        return ListGroupsResponse(
            error_code=Errors.COORDINATOR_LOAD_IN_PROGRESS if is_loading else Errors.NONE,
            groups=listed(groups, request.states_filter, request.types_filter),
        )

    def delete(
        self, request: DeleteGroupsRequest, context: RequestContext
    ) -> DeleteGroupsResponse | asyncio.Future[DeleteGroupsResponse]:
        names = list(dict.fromkeys(request.groups_names))
        outcomes: dict[str, Errors] = {}
        reply: Reply[DeleteGroupsResponse] = Reply(self._loop)

        def note(group_id: str, error: Errors) -> None:
            outcomes[group_id] = error
            if len(outcomes) == len(names):
                reply(_delete_response({name: outcomes[name] for name in names}))

        if not names:
            return _delete_response({})
        for group_id in names:
            try:
                shard = self._coordinator.shard_of(group_id)
            except KafkaError as error:
                note(group_id, error.error)
            else:
                shard.removal.delete_group(group_id, partial(note, group_id))
        return reply.answer()


def describe_failed(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[not_described(group_id, error.error) for group_id in request.groups]
    )


def list_failed(request: ListGroupsRequest, error: KafkaError) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=error.error, groups=[])


def _delete_response(outcomes: dict[str, Errors]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in outcomes.items()
        ]
    )


def delete_failed(request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    return _delete_response(dict.fromkeys(request.groups_names, error.error))
