"""Incremental fetches: what is asked for, told as transcripts of plans."""

from odradek.client.fetch_session import FetchSession, Wanted
from odradek.protocol.types import TopicPartition

ID, OTHER_ID = b"a" * 16, b"b" * 16


def wanted(topic_id: bytes = ID, **offsets: int) -> dict[TopicPartition, Wanted]:
    return {
        TopicPartition(name, 0): Wanted(topic_id, offset, 0, 1000)
        for name, offset in offsets.items()
    }


def plan(session: FetchSession, asked: dict[TopicPartition, Wanted]) -> str:
    made = session.plan(asked)
    send = ",".join(f"{p.topic}@{row.fetch_offset}" for p, row in made.send.items())
    forget = ",".join(p.topic for p in made.forget)
    return f"{made.session_id}/{made.epoch} send {send or '-'} forget {forget or '-'}"


def test_only_changes_are_sent_once_a_session_is_granted() -> None:
    session = FetchSession()
    assert plan(session, wanted(a=0, b=0)) == "0/0 send a@0,b@0 forget -"
    session.answered(77)
    assert plan(session, wanted(a=0, b=5)) == "77/1 send b@5 forget -"
    session.answered(77)
    assert plan(session, wanted(b=5, c=1)) == "77/2 send c@1 forget a"
    session.answered(77)
    assert plan(session, wanted(b=5, c=1)) == "77/3 send - forget -"


def test_without_a_session_everything_is_sent_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        assert plan(session, wanted(a=0)) == "0/0 send a@0 forget -"
        session.answered(0)


def test_a_lost_session_begins_anew() -> None:
    session = FetchSession()
    session.plan(wanted(a=0))
    session.answered(77)
    session.failed(is_known=False)
    assert plan(session, wanted(a=0)) == "0/0 send a@0 forget -"


def test_a_session_in_doubt_is_ended_by_the_full_request() -> None:
    session = FetchSession()
    session.plan(wanted(a=0))
    session.answered(77)
    session.failed(is_known=True)
    assert plan(session, wanted(a=3)) == "77/0 send a@3 forget -"
    session.answered(78)
    assert plan(session, wanted(a=3)) == "78/1 send - forget -"


def test_a_topic_made_anew_is_forgotten_under_its_old_id() -> None:
    session = FetchSession()
    session.plan(wanted(a=9))
    session.answered(77)
    assert plan(session, wanted(OTHER_ID, a=0)) == "77/1 send a@0 forget a"
