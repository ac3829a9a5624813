"""What brokers ask of each other, and what clients ask of the controller about partitions.

Orders of the controller are carried out here; questions to the controller are answered by whoever
is it, and with NOT_CONTROLLER by everyone else. The orders are served in clusters only.
"""

from collections.abc import Iterator

from odradek.broker.context import RequestContext
from odradek.broker.orders import Orders
from odradek.broker.routes import AnyRoute, Route
from odradek.controller import admin_requests, broker_requests
from odradek.controller.channels import ControlResponse
from odradek.controller.controller import Controller
from odradek.controller.propagation import ControlRequest
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReplicaElectionResult,
)
from odradek.protocol.messages.replicas import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from odradek.protocol.messages.transaction_admin import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.schema import versions_of


class PartitionsAdminHandler:
    """Elections and moves, which clients ask for."""

    def __init__(self, *, controller: Controller) -> None:
        self._controller = controller

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(ElectLeadersRequest, versions_of("0-2"), self.elect, elect_failed)
        yield Route(
            AlterPartitionReassignmentsRequest, versions_of("0"), self.reassign, reassign_failed
        )
        yield Route(ListPartitionReassignmentsRequest, versions_of("0"), self.list, list_failed)

    async def elect(
        self, request: ElectLeadersRequest, context: RequestContext
    ) -> ElectLeadersResponse:
        return await admin_requests.elect_leaders(self._controller, request)

    async def reassign(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        return await admin_requests.alter_reassignments(self._controller, request)

    async def list(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        return await admin_requests.list_reassignments(self._controller, request)


class ClusterHandler:
    """Orders and questions of other brokers."""

    def __init__(self, *, orders: Orders, controller: Controller) -> None:
        self._orders = orders
        self._controller = controller

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(LeaderAndIsrRequest, versions_of("2-7"), self.obey, lead_failed)
        yield Route(StopReplicaRequest, versions_of("0-4"), self.obey, stop_failed)
        yield Route(UpdateMetadataRequest, versions_of("0-8"), self.obey, update_failed)
        yield Route(ControlledShutdownRequest, versions_of("0-3"), self.shut_down, shut_down_failed)
        yield Route(AlterPartitionRequest, versions_of("0-3"), self.alter_partition, alter_failed)
        yield Route(
            AllocateProducerIdsRequest, versions_of("0"), self.allocate_ids, allocate_failed
        )

    async def obey(self, request: ControlRequest, context: RequestContext) -> ControlResponse:
        return await self._orders.obey(request)

    async def shut_down(
        self, request: ControlledShutdownRequest, context: RequestContext
    ) -> ControlledShutdownResponse:
        return await broker_requests.controlled_shutdown(self._controller, request)

    async def alter_partition(
        self, request: AlterPartitionRequest, context: RequestContext
    ) -> AlterPartitionResponse:
        return await broker_requests.alter_partition(self._controller, request)

    async def allocate_ids(
        self, request: AllocateProducerIdsRequest, context: RequestContext
    ) -> AllocateProducerIdsResponse:
        return await broker_requests.allocate_producer_ids(self._controller, request)


def elect_failed(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """In every place where some version looks for the error."""
    return ElectLeadersResponse(
        error_code=error.error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    ElectLeadersPartitionResult(
                        partition_id=partition, error_code=error.error, error_message=error.message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def reassign_failed(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error.error, error_message=error.message, responses=[]
    )


def list_failed(
    request: ListPartitionReassignmentsRequest, error: KafkaError
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=error.error, error_message=error.message, topics=[]
    )


def lead_failed(request: LeaderAndIsrRequest, error: KafkaError) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(error_code=error.error)


def stop_failed(request: StopReplicaRequest, error: KafkaError) -> StopReplicaResponse:
    return StopReplicaResponse(error_code=error.error, partition_errors=[])


def update_failed(request: UpdateMetadataRequest, error: KafkaError) -> UpdateMetadataResponse:
    return UpdateMetadataResponse(error_code=error.error)


def shut_down_failed(
    request: ControlledShutdownRequest, error: KafkaError
) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=error.error, remaining_partitions=[])


def alter_failed(request: AlterPartitionRequest, error: KafkaError) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=error.error, topics=[])


def allocate_failed(
    request: AllocateProducerIdsRequest, error: KafkaError
) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        error_code=error.error, producer_id_start=-1, producer_id_len=0
    )
