"""Fetch: read from the partitions of this broker. One fetch on its way is in `fetching`."""

import asyncio
from collections.abc import Iterator

from odradek.broker.context import RequestContext
from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.handlers.fetch_again import FetchAgain
from odradek.broker.handlers.fetch_terms import FetchTerms
from odradek.broker.handlers.fetching import Fetch
from odradek.broker.handlers.follow_again import FollowAgain
from odradek.broker.later import Later
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute, Route
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.schema import versions_of
from odradek.replication.replicas import Replicas


class FetchHandler:
    def __init__(
        self,
        *,
        replicas: Replicas,
        metadata: MetadataCache,
        sessions: FetchSessions,
        max_bytes: int,
        loop: asyncio.AbstractEventLoop,
        reads_near_by: bool = False,
    ) -> None:
        """`reads_near_by`: consumers that say where they are are sent to a replica in their rack,
        and followers hear at once how far such consumers may read."""
        self._terms = FetchTerms(replicas, metadata, sessions, max_bytes, loop, reads_near_by)
        self._follow_again = FollowAgain(
            self._terms, otherwise=FetchAgain(replicas.find, self._name_of, max_bytes)
        )

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(
            FetchRequest,
            versions_of("0-17"),
            self.fetch,
            failure=failed,
            shortcut=self._follow_again,
        )

    def _name_of(self, topic_id: bytes) -> str | None:
        return self._terms.metadata.view.names_by_id.get(topic_id)

    def fetch(
        self, request: FetchRequest, context: RequestContext
    ) -> FetchResponse | Later[FetchResponse]:
        fetch = Fetch(request, context, self._terms, Fetch.response)
        return fetch.begin(
            self._terms.sessions.begin(request, context.version, from_follower=fetch.is_follower)
        )


def failed(request: FetchRequest, error: KafkaError) -> FetchResponse:
    """A session out of step is told at the top; nothing is said of partitions."""
    return FetchResponse(error_code=error.error, session_id=0, responses=[])
