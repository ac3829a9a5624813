"""Topics that are asked for on the command line, made before the broker says that it is ready.

They go through the handler of CreateTopics, as a client's request would: the rules for names,
partitions and configurations are one and the same. A topic that exists already is left alone.
"""

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass

from odradek.broker.context import RequestContext
from odradek.broker.failures import CannotStart
from odradek.broker.network.peer import Peer
from odradek.broker.routes import AnyRoute
from odradek.protocol.errors import Errors
from odradek.protocol.frames import RequestHeader
from odradek.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.registry import api
from odradek.storage.log_config import LogConfig

_BROKER_DEFAULT = -1
_POLICY = LogConfig.cleanup_policy.name
_TIMEOUT_MS = 30_000
_FORM = re.compile(
    r"(?P<name>[^:]+)(:(?P<count>[1-9]\d*)(:(?P<replicas>[1-9]\d*)(:(?P<policy>[^:]+))?)?)?"
)
_FINE = (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS)


@dataclass(frozen=True, slots=True)
class WantedTopic:
    name: str
    partitions: int = _BROKER_DEFAULT
    replication_factor: int = _BROKER_DEFAULT
    cleanup_policy: str | None = None

    @property
    def configs(self) -> dict[str, str]:
        return {} if self.cleanup_policy is None else {_POLICY: self.cleanup_policy}


def parse_wanted(text: str) -> WantedTopic:
    """`name:partitions:replicas:policy`, where all but the name may be left out.

    Raises ValueError with a sentence.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form name:partitions:replicas:policy")
    partitions, replicas = (int(match[part] or _BROKER_DEFAULT) for part in ("count", "replicas"))
    return WantedTopic(match["name"], partitions, replicas, match["policy"])


async def make_topics(
    wanted: Sequence[WantedTopic], routes: Mapping[int, AnyRoute], peer: Peer
) -> None:
    """Raises CannotStart for a topic that cannot be made."""
    if not wanted:
        return
    route = routes.get(CreateTopicsRequest.api_key)
    if route is None or route.versions.last is None:
        raise CannotStart("This broker serves no CreateTopics, so it cannot make a topic.")
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in wanted], timeout_ms=_TIMEOUT_MS
    )
    header = RequestHeader(api(request.api_key), route.versions.last, 0, "odradek-serve", 0)
    answer = route.handler(request, RequestContext(header, peer, 0.0))
    response = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(response, CreateTopicsResponse)
    for result in response.topics:
        error = Errors.of(result.error_code)
        if error not in _FINE:
            why = result.error_message or error.message
            raise CannotStart(f"The topic {result.name!r} cannot be made: {why}")


def _creatable(topic: WantedTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )
