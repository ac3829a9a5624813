"""What can happen to a controller in office. Watches, answers, timers and requests all become one
of these, and are dealt with one after the other by the term's single task.

The `…Stirred` events carry no news: what changed is read again when they are handled, so an event
that comes late, twice or for nothing does no harm.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from odradek.controller.channels import ControlResponse
from odradek.controller.image import Broker
from odradek.controller.propagation import ControlRequest


@dataclass(frozen=True, slots=True)
class BrokersStirred:
    """A broker came, went or moved."""


@dataclass(frozen=True, slots=True)
class TopicsStirred:
    """A topic came or went."""


@dataclass(frozen=True, slots=True)
class TopicStirred:
    """A topic's node changed: it may have grown."""

    name: str


@dataclass(frozen=True, slots=True)
class DeletionsStirred:
    """Topics are to be deleted, or their deletion is to be tried again."""


@dataclass(frozen=True, slots=True)
class ConfigsStirred:
    """Someone changed a configuration."""


@dataclass(frozen=True, slots=True)
class DirectoriesStirred:
    """A broker lost a log directory."""


@dataclass(frozen=True, slots=True)
class AdminStirred:
    """A tool left a request in the store: a move of partitions, or preferred elections."""


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """Time to look whether preferred leaders lead."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker answered a control request."""

    broker: Broker
    request: ControlRequest
    response: ControlResponse


@dataclass(frozen=True, slots=True)
class Asked:
    """Someone waits for `act` to be done in the term's own task; `fail` when it cannot be."""

    act: Callable[[], Awaitable[None]]
    fail: Callable[[Exception], None]


Event = (
    BrokersStirred
    | TopicsStirred
    | TopicStirred
    | DeletionsStirred
    | ConfigsStirred
    | DirectoriesStirred
    | AdminStirred
    | RebalanceDue
    | Answer
    | Asked
)
