"""Which topics the members of a consumer group want, as far as the coordinator can tell.

The metadata of members is their own business; of consumers, Kafka's coordinator reads along, to
know whose offsets are in use. What does not read as a subscription makes the answer unknown.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from odradek.protocol.compiler import decode
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER: Final = "consumer"

_VERSION: Final = Struct(">h")
_LATEST: Final = 3


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these subscriptions; None when one of them cannot be read."""
    topics: set[str] = set()
    for each in metadata:
        try:
            topics.update(_read(each).topics)
        except ProtocolError:
            return None
    return frozenset(topics)


def _read(metadata: bytes) -> ConsumerProtocolSubscription:
    if len(metadata) < _VERSION.size:
        raise ProtocolError("a subscription has no version")
    (version,) = _VERSION.unpack_from(metadata)
    if version < 0:
        raise ProtocolError(f"a subscription has version {version}")
    # A newer version only adds fields at the end.
    return decode(ConsumerProtocolSubscription, min(version, _LATEST), metadata, _VERSION.size)
