"""What members of a classic consumer group tell each other through the coordinator."""

from odradek.protocol.schema import INT32, STRING, Data, Struct, array, blob, int32, string


class SubscriptionTopicPartition(Struct):
    topic: str = string("1+", default="")
    partitions: list[int] = array(INT32, "1+", default=[])


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """What a member wants: topics, and what it owned so far."""

    topics: list[str] = array(STRING)
    user_data: bytes | None = blob(nullable="0+", default=None)
    owned_partitions: list[SubscriptionTopicPartition] = array(
        SubscriptionTopicPartition, "1+", default=[]
    )
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class AssignmentTopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(INT32)


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """What the group leader gave a member."""

    assigned_partitions: list[AssignmentTopicPartition] = array(AssignmentTopicPartition)
    user_data: bytes | None = blob(nullable="0+", default=None)
