"""The following replica of a partition: whom it follows, in which epoch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Follower:
    leader_id: int
    epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
