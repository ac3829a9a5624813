"""A follower's fetches: the short way, for those that name one partition of its session.

While all is well, a follower asks for what comes after the records it has just been sent, and is
answered when there is more (see `short_fetch`). Such a request is read as a form. If there is
nothing to tell, it waits (`follower_wait`); else it takes the same way as any other fetch, and its
answer is a form again when it holds records of one partition and nothing else.

`learn` is shown the first request of each session, and knows by it how its follower's others look.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.broker.context import RequestContext
from odradek.broker.fetch_sessions import INITIAL_EPOCH
from odradek.broker.handlers.fetch_terms import FetchTerms
from odradek.broker.handlers.fetching import Fetch
from odradek.broker.handlers.follower_wait import (
    FollowerWait,
    has_everything,
    has_nothing_new,
)
from odradek.broker.later import Later
from odradek.broker.network.peer import Peer
from odradek.broker.routes import Shortcut
from odradek.protocol.compiler import Part
from odradek.protocol.errors import KafkaError
from odradek.protocol.forms import Form
from odradek.protocol.frames import RequestHeader, encode_response
from odradek.protocol.messages.fetch import FetchRequest
from odradek.replication.fetch_plan import (
    BEFORE_ANY_SESSION,
    FetchLimits,
    Sender,
    fetch_request,
)
from odradek.replication.partition import Partition
from odradek.replication.short_fetch import (
    FIRST_VERSION,
    ShortAnswer,
    ShortFetch,
    answer_form,
    request_form,
)
from odradek.storage.files import FileSlice

# A bound for peers that make up names.
_MAX_KNOWN: Final = 64


class _Known(NamedTuple):
    """Requests that are alike, and what none of them says anew."""

    form: Form
    header: RequestHeader
    limits: FetchLimits
    requests: dict[Sender, FetchRequest]
    """As the codec would have read them, but for what the session knows."""
    may_wait: bool
    """Whether they wait for records, and for nothing else."""

    def is_like(self, other: "_Known") -> bool:
        return (self.header.version, self.header.client_id, self.limits) == (
            other.header.version,
            other.header.client_id,
            other.limits,
        )


class FollowAgain:
    def __init__(self, terms: FetchTerms, *, otherwise: Shortcut[FetchRequest]) -> None:
        """`otherwise` is the shortcut for all that this one leaves."""
        self._terms = terms
        self._otherwise = otherwise
        # By the length of their frames; those of one length differ in the client's name.
        self._known: dict[int, tuple[_Known, ...]] = {}

    def answer(self, frame: bytearray, peer: Peer) -> Sequence[Part] | Later[Sequence[Part]] | None:
        for known in self._known.get(len(frame), ()):
            values = known.form.read(frame)
            if values is not None:
                return self._fetch(known, ShortFetch(*values), peer)
        return self._otherwise.answer(frame, peer)

    def _fetch(
        self, known: _Known, asked: ShortFetch, peer: Peer
    ) -> Sequence[Part] | Later[Sequence[Part]] | None:
        sessions = self._terms.sessions
        session = sessions.find(asked.session_id, asked.session_epoch)
        if session is None:
            return None
        wanted = session.partitions.get((asked.topic_id, asked.partition))
        if wanted is None:
            return None
        row = wanted.request
        row.current_leader_epoch = asked.leader_epoch
        row.fetch_offset = asked.fetch_offset
        row.last_fetched_epoch = asked.last_epoch
        row.log_start_offset = asked.log_start
        sessions.go_on_with(session, wanted)
        is_noted = False
        if known.may_wait and not session.must_look and has_everything(asked, session, wanted):
            partition = wanted.found
            assert partition is not None, "it has everything of it"
            is_noted = _note(asked, partition)
            # Whoever heard that records are committed may have appended others.
            if is_noted and has_nothing_new(asked, session, partition):
                return FollowerWait(
                    asked,
                    known.header.version,
                    known.limits,
                    session,
                    self._terms,
                    lambda: self._long_way(known, asked, peer).end(session.context()),
                ).begin(wanted, partition)
        return self._long_way(known, asked, peer).begin(session.context(), is_noted=is_noted)

    def _long_way(self, known: _Known, asked: ShortFetch, peer: Peer) -> Fetch[Sequence[Part]]:
        api, version, _, client_id, body = known.header
        header = RequestHeader(api, version, asked.correlation_id, client_id, body)
        sender = Sender(asked.replica_id, asked.replica_epoch)
        request = known.requests.get(sender) or _remember(known, sender)
        return Fetch(request, RequestContext(header, peer, 0.0), self._terms, _parts)

    def learn(self, frame: bytearray, header: RequestHeader, request: FetchRequest) -> None:
        if not _begins_to_follow(header, request):
            self._otherwise.learn(frame, header, request)
            return
        limits = FetchLimits(
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.topics[0].partitions[0].partition_max_bytes,
        )
        form = request_form(header.version, header.client_id, limits)
        may_wait = _waits_for_anything(limits) and not self._terms.reads_near_by
        known = _Known(form, header, limits, {}, may_wait)
        if any(known.is_like(other) for other in self._known.get(known.form.size, ())):
            return
        if sum(map(len, self._known.values())) >= _MAX_KNOWN:
            self._known.clear()
        self._known[known.form.size] = (*self._known.get(known.form.size, ()), known)


def _note(asked: ShortFetch, partition: Partition) -> bool:
    """Note what a follower has; False when it is not to be believed."""
    try:
        partition.note_follower_fetch(
            asked.replica_id,
            fetch_offset=asked.fetch_offset,
            log_start_offset=asked.log_start,
            broker_epoch=asked.replica_epoch,
        )
    except KafkaError:
        return False
    return True


def _remember(known: _Known, sender: Sender) -> FetchRequest:
    if len(known.requests) >= _MAX_KNOWN:
        known.requests.clear()
    request = fetch_request(BEFORE_ANY_SESSION, {}, known.header.version, sender, known.limits)
    known.requests[sender] = request
    return request


def _waits_for_anything(limits: FetchLimits) -> bool:
    return limits.min_bytes == 1 and limits.max_wait_ms > 0 and limits.max_bytes > 0


def _begins_to_follow(header: RequestHeader, request: FetchRequest) -> bool:
    return (
        header.version >= FIRST_VERSION
        and request.session_epoch == INITIAL_EPOCH
        and request.replica_state is not None
        and request.replica_state.replica_id >= 0
        and bool(request.topics and request.topics[0].partitions)
    )


def _parts(fetch: Fetch[Sequence[Part]]) -> Sequence[Part]:
    """What the follower is told, as a form if it can be."""
    header, news = fetch.request_context.header, fetch.news()
    if len(news) == 1 and not fetch.must_tell:
        wanted, data = news[0]
        records = data.records or b""
        if isinstance(records, FileSlice | bytes):
            answer = ShortAnswer(
                header.correlation_id,
                fetch.context.session_id,
                wanted.topic_id,
                data.partition_index,
                data.high_watermark,
                data.last_stable_offset,
                data.log_start_offset,
            )
            return answer_form(header.version).write(answer, records)
    response = fetch.response_of(news)
    return encode_response(response, header.version, header.correlation_id)
