"""Which replica a consumer had better read from (KIP-392): one in its own rack. Pure.

Only replicas that are in sync count, and have what the consumer wants next: others could fall
behind further and further, and the consumer with them. A leader in the rack is always best.
"""

from collections.abc import Mapping

from odradek.broker.metadata_cache import BrokerInfo
from odradek.replication.isr import FollowerProgress
from odradek.replication.leader import Leader


def nearest_replica(
    rack: str, offset: int, leader: Leader, brokers: Mapping[int, BrokerInfo], listener: str
) -> int | None:
    """The follower to read from at an offset, None when the leader itself is best.

    `brokers` are those that live; a consumer can only be sent to one that has its listener.
    """
    here = brokers.get(leader.local_id)
    if here is not None and here.rack == rack:
        return None
    near = [
        follower
        for follower in leader.followers.values()
        if follower.id in leader.isr.committed
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and _is_near(brokers.get(follower.id), rack, listener)
    ]
    return max(near, key=_progress).id if near else None


def _is_near(broker: BrokerInfo | None, rack: str, listener: str) -> bool:
    return broker is not None and broker.rack == rack and listener in broker.endpoints


def _progress(follower: FollowerProgress) -> tuple[int, float, int]:
    """Furthest first; of equals the one that was level last, then the highest number."""
    return follower.log_end_offset, follower.caught_up_at, follower.id
