"""InitProducerId for idempotent producers: an id nobody had, with epoch 0.

With a transactional id it takes a transaction coordinator; this broker has none and says so.
"""

from collections.abc import Iterator

from odradek.broker.context import RequestContext
from odradek.broker.routes import AnyRoute, Route
from odradek.controller.producer_ids import ProducerIds
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.schema import versions_of

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class ProducerIdsHandler:
    def __init__(self, *, ids: ProducerIds) -> None:
        self._ids = ids

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(InitProducerIdRequest, versions_of("0-4"), self.init_producer_id, failed)

    async def init_producer_id(
        self, request: InitProducerIdRequest, context: RequestContext
    ) -> InitProducerIdResponse:
        if request.transactional_id == "":
            raise KafkaError(Errors.INVALID_REQUEST)
        if request.transactional_id is not None:
            raise KafkaError(Errors.UNSUPPORTED_VERSION)
        return InitProducerIdResponse(
            error_code=0, producer_id=await self._ids.take(), producer_epoch=0
        )


def failed(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error.error,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
    )
