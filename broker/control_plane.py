"""How the controller in this broker is set up, and how its orders reach the brokers."""

from odradek.broker.config import BrokerConfig
from odradek.broker.links import Links
from odradek.broker.orders import RESPONSE_TO, Orders
from odradek.controller.channels import ControlResponse
from odradek.controller.desk import ControllerSettings
from odradek.controller.image import Broker
from odradek.controller.propagation import ControlRequest
from odradek.protocol.errors import KafkaError


def controller_settings(config: BrokerConfig, broker_id: int) -> ControllerSettings:
    return ControllerSettings(
        broker_id=broker_id,
        inter_broker_listener=config.listener_endpoints.inter_broker,
        unclean_election=config.log_defaults.unclean_leader_election_enable,
        delete_topics=config.delete_topic_enable,
        rebalance_leaders=config.auto_leader_rebalance_enable,
        rebalance_interval_seconds=config.leader_imbalance_check_interval_seconds,
        imbalance_percentage=config.leader_imbalance_per_broker_percentage,
    )


class Courier:
    """Brings control requests to brokers: to our own without leaving the process."""

    def __init__(
        self, config: BrokerConfig, *, broker_id: int, orders: Orders, links: Links | None
    ) -> None:
        """A broker without links is alone."""
        self._listener = config.listener_endpoints.inter_broker
        self._timeout_s = config.controller_socket_timeout_ms / 1000
        self._broker_id = broker_id
        self._orders = orders
        self._links = links

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        """Raises OSError when the broker cannot be reached now."""
        if broker.id == self._broker_id:
            return await self._orders.obey(request)
        endpoint = broker.endpoint(self._listener)
        if endpoint is None or self._links is None:
            raise OSError(f"broker {broker.id} has no listener {self._listener}")
        try:
            return await self._links.ask_at(
                endpoint, request, RESPONSE_TO[type(request)], timeout_s=self._timeout_s
            )
        except KafkaError as error:
            raise OSError(str(error)) from error
