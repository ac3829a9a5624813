"""The assignors of consumer groups: who shall hold what, decided by the coordinator.

An assignor is a pure function of who wants which topics, how many partitions those have, and what
was assigned before. It gives every partition of a wanted topic to exactly one member that wants
the topic.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from odradek.broker.coordinator.assignments import Assignment
from odradek.broker.coordinator.assignor_range import assign_ranges
from odradek.broker.coordinator.assignor_uniform import assign_uniformly
from odradek.broker.coordinator.wishes import PartitionCounts, Wishes

Assignor: TypeAlias = Callable[[Wishes, PartitionCounts], dict[str, Assignment]]

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."

_ASSIGNORS: Final[dict[str, tuple[str, Assignor]]] = {
    f"{_PACKAGE}UniformAssignor": ("uniform", assign_uniformly),
    f"{_PACKAGE}RangeAssignor": ("range", assign_ranges),
}


def assignors_of(words: Iterable[str]) -> dict[str, Assignor]:
    """The assignors that these words of the settings stand for, by name, in their order.

    Words are Kafka's classes, as in Kafka 3.9, or names, as from Kafka 4 on.
    """
    by_name = dict(_ASSIGNORS.values())
    names = (_ASSIGNORS[word][0] if word in _ASSIGNORS else word for word in words)
    return {name: by_name[name] for name in names}
