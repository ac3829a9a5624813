"""A client that is never idle, whose latency tells whether its neighbours disturb it.

It sends a produce and a fetch of 1 KB in turns, one request at a time. Rounds with and without the
neighbours alternate, so that a noisy machine hits both, and the medians of the rounds' percentiles
are compared.
"""

from collections.abc import Sequence
from statistics import median
from typing import Self

from benchmarks._brokers import Broker
from benchmarks._raw_load import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    create_topic,
    fetch_request,
    frame_of,
    latencies,
    produce,
    produce_request,
)
from benchmarks._rows import Row, beside, percentile
from tests.support.raw_client import RawClient

RECORD_BYTES = 1000


class BusyClient:
    def __init__(self, broker: Broker, topic: str = "busy") -> None:
        topic_id = create_topic(broker, topic)
        self._client = RawClient(broker.port)
        request = produce_request(topic, RECORD_BYTES, acks=1)
        first = produce(self._client, request)
        self._frames = [
            frame_of(request, PRODUCE_VERSION),
            frame_of(fetch_request(topic_id, first, max_bytes=RECORD_BYTES), FETCH_VERSION),
        ]

    def round(self, seconds: float) -> list[float]:
        """Microseconds of each of its requests in so much time."""
        return latencies(self._client, self._frames, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


Rounds = Sequence[Sequence[float]]


def disturbance_row(name: str, disturbed: Rounds, alone: Rounds, limit: float | None) -> Row:
    """The 99th percentile with neighbours, beside that without them."""
    more = {
        f"{title}_{label}_us": round(median(percentile(r, share) for r in rounds))
        for title, rounds in (("value", disturbed), ("peer", alone))
        for label, share in (("p50", 0.5), ("p999", 0.999))
    }
    return beside(
        name,
        [percentile(readings, 0.99) for readings in disturbed],
        "µs",
        peer="alone",
        peer_readings=[percentile(readings, 0.99) for readings in alone],
        at_most=limit,
        **more,
    )
