"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the consumer protocol of groups.

Where `group.coordinator.rebalance.protocols` does not name it, both are UNSUPPORTED_VERSION.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final

from odradek.broker.context import RequestContext
from odradek.broker.coordinator.consumer_groups import Beat, refused
from odradek.broker.coordinator.describing import (
    consumer_group_not_described,
    described_consumer_group,
)
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.group_shard import GroupShard
from odradek.broker.coordinator.heartbeat_checks import check_request
from odradek.broker.coordinator.write_errors import heartbeat_error
from odradek.broker.handlers.groups import client_of
from odradek.broker.handlers.groups_reply import Reply
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.schema import versions_of

# What anyone may do with a consumer group where nobody is denied anything: that is what may be
# done with any group, and its settings may be read and changed.
ALL_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))


class ConsumerGroupsHandler:
    def __init__(
        self,
        *,
        coordinator: GroupCoordinator,
        metadata: MetadataCache,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._coordinator = coordinator
        self._metadata = metadata
        self._loop = loop

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(
            ConsumerGroupHeartbeatRequest, versions_of("0-1"), self.heartbeat, heartbeat_failed
        )
        yield Route(
            ConsumerGroupDescribeRequest, versions_of("0-1"), self.describe, describe_failed
        )

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
        self._check_served()
        check_request(request, context.version, self._coordinator.config.assignors)
        shard = self._coordinator.shard_of(request.group_id)
        reply: Reply[ConsumerGroupHeartbeatResponse] = Reply(self._loop)
        member_id = request.member_id or shard.consumers.tools.new_id()
        shard.consumer_heartbeat(Beat.of(request, client_of(context), member_id), reply)
        return reply.answer()

    def describe(
        self, request: ConsumerGroupDescribeRequest, context: RequestContext
    ) -> ConsumerGroupDescribeResponse | asyncio.Future[ConsumerGroupDescribeResponse]:
        """Nothing is shown that a new coordinator might not know: the answer waits until all that
        it says is committed."""
        self._check_served()
        shown: dict[int, ConsumerGroupDescribeDescribedGroup] = {}
        reply: Reply[ConsumerGroupDescribeResponse] = Reply(self._loop)
        count = len(request.group_ids)

        def show(number: int, group: ConsumerGroupDescribeDescribedGroup, error: Errors) -> None:
            if error is not Errors.NONE:
                group = consumer_group_not_described(group.group_id, heartbeat_error(error))
            elif group.error_code == Errors.NONE and request.include_authorized_operations:
                group.authorized_operations = ALL_OPERATIONS
            shown[number] = group
            if len(shown) == count:
                groups = [group for _, group in sorted(shown.items())]
                reply(ConsumerGroupDescribeResponse(groups=groups))

        for number, group_id in enumerate(request.group_ids):
            try:
                shard = self._coordinator.members_shard(group_id)
            except KafkaError as error:
                show(number, consumer_group_not_described(group_id, error.error), Errors.NONE)
            else:
                described = self._describe(shard, group_id)
                shard.consumers.tools.writer.when_committed(partial(show, number, described))
        return reply.answer() if count else ConsumerGroupDescribeResponse(groups=[])

    def _describe(self, shard: GroupShard, group_id: str) -> ConsumerGroupDescribeDescribedGroup:
        group = shard.consumers.groups.get(group_id)
        if group is not None:
            names = self._metadata.view.names_by_id
            return described_consumer_group(group, self._coordinator.config.assignors, names)
        reason = "is not a consumer group" if group_id in shard.groups else "not found"
        return consumer_group_not_described(
            group_id, Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}."
        )

    def _check_served(self) -> None:
        if not self._coordinator.config.serves_consumer_protocol:
            raise KafkaError(Errors.UNSUPPORTED_VERSION)


def heartbeat_failed(
    request: ConsumerGroupHeartbeatRequest, error: KafkaError
) -> ConsumerGroupHeartbeatResponse:
    return refused(error.error, error.message)


def describe_failed(
    request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[
            consumer_group_not_described(group_id, error.error, error.message)
            for group_id in request.group_ids
        ]
    )
