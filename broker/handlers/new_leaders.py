"""Where the leaders are that a client did not find here (KIP-951): Produce and Fetch tell."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from odradek.broker.metadata_cache import ClusterView

E = TypeVar("E")


def endpoints_of(
    leaders: Iterable[int], view: ClusterView, listener: str, endpoint_type: Callable[..., E]
) -> list[E]:
    """As rows of an answer, those that are known and reachable by the client's listener."""
    found: list[E] = []
    for leader in sorted(set(leaders)):
        endpoint = view.endpoint(leader, listener)
        if endpoint is not None:
            rack = view.brokers[leader].rack
            found.append(
                endpoint_type(node_id=leader, host=endpoint.host, port=endpoint.port, rack=rack)
            )
    return found
