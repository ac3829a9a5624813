"""Transcripts of groups of the consumer protocol: every transition, every error code."""

import pytest
from odradek.broker.coordinator.committing import Committer, consumer_commit_problem
from odradek.protocol.errors import Errors
from odradek.protocol.records import ProducerStamp

from tests.unit.broker.coordinator.consumer_story import ConsumerWorld, end_of, tell

PAIR = "topics t=4; a joins; b joins; a beats; a gives; b beats"


def after(beginning: str, story: str, **settings: int) -> str:
    told = tell(f"{beginning}; {story}", **settings).split(" / ")
    return " / ".join(told[len(beginning.split(";")) :])


def after_pair(story: str, **settings: int) -> str:
    """The story of a group of a and b, which share a topic of four partitions."""
    return after(PAIR, story, **settings)


# The life of a group --------------------------------------------------------------------------


def test_a_group_lives_from_its_first_join_to_its_last_leave() -> None:
    assert tell(f"{PAIR}; b leaves; a beats; a leaves; expire") == (
        "- / Stable(1) a1: a 1 t0123 / Reconciling(2) a1 b2?: b 2 nothing / "
        "Reconciling(2) a1~ b2?: a 1 t01 / Reconciling(2) a2 b2?: a 2 / "
        "Stable(2) a2 b2: b 2 t23 / Assigning(3) a2: b -1 / Stable(3) a3: a 3 t0123 / "
        "Empty(4): a -1 / -"
    )


def test_partitions_are_given_as_they_are_given_up() -> None:
    assert after_pair("c joins; a beats; b beats; c beats; b gives; c beats") == (
        "Reconciling(3) a2 b2 c3?: c 3 nothing / Reconciling(3) a3 b2 c3?: a 3 / "
        "Reconciling(3) a3 b2~ c3?: b 2 t2 / Reconciling(3) a3 b2~ c3?: c 3 / "
        "Reconciling(3) a3 b3 c3?: b 3 / Stable(3) a3 b3 c3: c 3 t3"
    )


def test_a_member_without_wishes_is_a_member() -> None:
    assert tell("topics t=2; a joins; b joins topics=none; b beats topics=t") == (
        "- / Stable(1) a1: a 1 t01 / Stable(1) a1 b1: b 1 nothing / Reconciling(2) a1 b2?: b 2"
    )


def test_a_member_that_joins_again_keeps_what_it_had() -> None:
    assert after_pair("a joins") == "Stable(2) a2 b2: a 2 t01"


def test_a_member_that_joins_again_has_given_up_what_it_had_to() -> None:
    assert end_of("topics t=4; a joins; b joins; a beats; a joins") == (
        "Reconciling(2) a2 b2?: a 2 t01"
    )


# Epochs ---------------------------------------------------------------------------------------

REFUSED = {
    "a beats epoch=3": "a FENCED_MEMBER_EPOCH",
    "a beats epoch=1": "a FENCED_MEMBER_EPOCH",
    "a holds t01 epoch=1": "a 2",
    "a holds t0 epoch=1": "a 2",
    "a holds t012 epoch=1": "a FENCED_MEMBER_EPOCH",
    "a beats id=z": "a UNKNOWN_MEMBER_ID",
    "a leaves id=z": "a UNKNOWN_MEMBER_ID",
    "a beats instance=i": "a UNKNOWN_MEMBER_ID",
    "a beats epoch=-3": "a INVALID_REQUEST",
    "a goes": "a INVALID_REQUEST",
    "a beats assignor=nope": "a UNSUPPORTED_ASSIGNOR",
    "a beats pattern=[": "a INVALID_REGULAR_EXPRESSION",
}


@pytest.mark.parametrize("story", REFUSED)
def test_who_may_beat(story: str) -> None:
    assert after_pair(story) == f"Stable(2) a2 b2: {REFUSED[story]}"


def test_a_group_that_is_not_there_knows_nobody() -> None:
    assert tell("a joins; a leaves; delete group; a beats epoch=1; a leaves") == (
        "Stable(1) a1: a 1 nothing / Empty(2): a -1 / -: delete NONE / "
        "-: a GROUP_ID_NOT_FOUND / -: a GROUP_ID_NOT_FOUND"
    )


def test_a_full_group_turns_newcomers_away() -> None:
    story = "topics t=2; a joins; b joins; a beats; a leaves; b joins"
    assert tell(story, consumer_max_size=1) == (
        "- / Stable(1) a1: a 1 t01 / Stable(1) a1: b GROUP_MAX_SIZE_REACHED / "
        "Stable(1) a1: a 1 / Empty(2): a -1 / Stable(3) b3: b 3 t01"
    )


# Topics ---------------------------------------------------------------------------------------


def test_a_topic_that_grows_begins_an_epoch_with_the_next_heartbeat() -> None:
    assert after_pair("topics t=6; a beats; b beats") == (
        "Stable(2) a2 b2 / Reconciling(3) a3 b2: a 3 t014 / Stable(3) a3 b3: b 3 t235"
    )


def test_a_topic_that_goes_is_given_up() -> None:
    assert after_pair("topics u=1; a beats; a gives; b gives") == (
        "Stable(2) a2 b2 / Reconciling(3) a2~ b2: a 2 nothing / Reconciling(3) a3 b2: a 3 / "
        "Reconciling(3) a3 b2~: b 2 nothing"
    )


def test_topics_that_nobody_wants_change_nothing() -> None:
    assert after_pair("topics t=4 u=3; a beats") == "Stable(2) a2 b2 / Stable(2) a2 b2: a 2"


def test_other_wishes_begin_an_epoch() -> None:
    story = f"topics t=4 u=2; {PAIR[12:]}; b beats topics=u; b gives; a beats"
    assert tell(story).split(" / ")[-3:] == [
        "Reconciling(3) a2 b2~: b 2 nothing",
        "Reconciling(3) a2 b3: b 3 u01",
        "Stable(3) a3 b3: a 3 t0123",
    ]


def test_the_assignor_that_most_members_name_assigns() -> None:
    world = ConsumerWorld()
    world.tell("topics t=3 u=3; a joins topics=t,u; b joins topics=t,u assignor=range")
    assert world.tell("a beats; a gives; b beats").split(": ")[-1] == "b 2 t2,u2"
    world.tell("a beats assignor=uniform; c joins topics=t,u assignor=uniform")
    world.tell("a gives; b gives; a gives; b gives; c beats")
    assert {len(share) for share in world.given.values()} <= {1, 2}
    counts = [sum(map(len, share.values())) for share in world.given.values()]
    assert counts == [2, 2, 2]


def test_a_pattern_is_resolved_and_follows_the_topics() -> None:
    assert tell(
        "topics t=1 x=1; a joins pattern=[tu]; a beats; topics t=1 u=1 x=1; a beats; a beats; "
        "b joins pattern=x; a beats; b beats; a beats pattern=x; a gives; b leaves; a beats"
    ) == (
        "- / Assigning(2) a1: a 1 nothing / Stable(2) a2: a 2 t0 / Stable(2) a2 / "
        "Assigning(3) a2: a 2 / Stable(3) a3: a 3 t0,u0 / Assigning(5) a3 b4: b 4 nothing / "
        "Reconciling(5) a5 b4: a 5 / Stable(5) a5 b5: b 5 x0 / "
        "Reconciling(6) a5~ b5: a 5 nothing / Reconciling(6) a6 b5: a 6 / "
        "Assigning(7) a6: b -1 / Stable(7) a7: a 7 x0"
    )


def test_a_pattern_that_comes_while_others_are_resolved_is_resolved_after_them() -> None:
    assert tell(
        "topics t=1 u=1; a joins pattern=x; patterns wait; topics t=1 u=2; a beats; "
        "b joins pattern=u; patterns resolve; b beats; b beats; a beats"
    ).split(" / ")[-4:] == [
        "Reconciling(3) a2 b3",
        "Assigning(4) a2 b3: b 3",
        "Reconciling(4) a2 b4: b 4 u01",
        "Stable(4) a4 b4: a 4",
    ]


def test_what_patterns_stand_for_is_found_out_again_if_it_could_not_be_written() -> None:
    assert tell(
        "topics t=1; patterns wait; a joins pattern=t; log refuses NOT_ENOUGH_REPLICAS; "
        "patterns resolve; log accepts; a beats; a beats"
    ).split(" / ")[-3:] == ["Stable(1) a1", "Assigning(2) a1: a 1", "Stable(2) a2: a 2 t0"]


def test_a_pattern_whose_group_has_moved_away_meanwhile_is_nobodys_business() -> None:
    story = "topics t=1; patterns wait; a joins pattern=t; log moves away; patterns resolve"
    assert end_of(story) == "-"


def test_a_pattern_that_nobody_uses_is_forgotten() -> None:
    world = ConsumerWorld()
    world.tell("topics t=1; a joins pattern=t; b joins pattern=t; a leaves")
    assert world.consumer_group is not None
    assert list(world.consumer_group.patterns) == ["t"]
    world.tell("b beats pattern=")
    assert not world.consumer_group.patterns


# Time -----------------------------------------------------------------------------------------


def test_who_is_not_heard_of_for_a_session_is_removed() -> None:
    assert after_pair("44 s; a beats; 1 s; a beats; 44 s; 1 s") == (
        "Stable(2) a2 b2 / Stable(2) a2 b2: a 2 / Assigning(3) a2 / Stable(3) a3: a 3 t0123 / "
        "Stable(3) a3 / Empty(4)"
    )


def test_who_does_not_give_up_in_its_rebalance_timeout_is_removed() -> None:
    story = "topics t=2; a joins rebalance=20; b joins; a beats; 19 s; a beats; 1 s; b beats"
    assert tell(story).split(" / ")[-4:] == [
        "Reconciling(2) a1~ b2?",
        "Reconciling(2) a1~ b2?: a 1",
        "Assigning(3) b2?",
        "Stable(3) b3: b 3 t01",
    ]


def test_who_gives_up_in_time_stays() -> None:
    story = "topics t=2; a joins rebalance=20; b joins; a beats; 19 s; a gives; 20 s; a beats"
    assert end_of(story) == "Reconciling(2) a2 b2?: a 2"


def test_a_removal_that_cannot_be_written_is_tried_again() -> None:
    assert (
        after("topics t=2; a joins", "log refuses NOT_ENOUGH_REPLICAS; 45 s; log accepts; 1 s")
        == "Stable(1) a1 / Stable(1) a1 / Stable(1) a1 / Empty(2)"
    )


# Static members -------------------------------------------------------------------------------

STATIC = "topics t=2; a joins instance=i"


def test_a_static_member_comes_back_under_another_id() -> None:
    assert after(STATIC, "a goes instance=i; b joins instance=i; a beats instance=i epoch=1") == (
        "Reconciling(1) a-2: a -2 / Stable(1) b1: b 1 t01 / Stable(1) b1: a FENCED_INSTANCE_ID"
    )


def test_a_static_member_may_come_back_under_the_same_id() -> None:
    assert after(STATIC, "a goes instance=i; a joins instance=i; a beats instance=i") == (
        "Reconciling(1) a-2: a -2 / Stable(1) a1: a 1 t01 / Stable(1) a1: a 1"
    )


def test_an_instance_has_to_be_released_first() -> None:
    assert after(STATIC, "b joins instance=i; b beats instance=i epoch=1; a joins instance=i") == (
        "Stable(1) a1: b UNRELEASED_INSTANCE_ID / Stable(1) a1: b FENCED_INSTANCE_ID / "
        "Stable(1) a1: a UNRELEASED_INSTANCE_ID"
    )


def test_a_static_member_that_does_not_come_back_is_removed() -> None:
    assert after(STATIC, "a goes instance=i; a beats instance=i epoch=1; 45 s") == (
        "Reconciling(1) a-2: a -2 / Reconciling(1) a-2: a FENCED_MEMBER_EPOCH / Empty(2)"
    )


def test_a_static_member_that_leaves_for_good_is_removed_at_once() -> None:
    assert after(STATIC, "a leaves instance=i") == "Empty(2): a -1"


# Offsets --------------------------------------------------------------------------------------


def test_offsets_are_committed_with_the_members_epoch() -> None:
    assert after_pair(
        "a commits t-0 5; fetch t-0; a commits t-0 6 generation=1; a commits t-0 6 v=8; "
        "z commits t-0 6 generation=2; z commits t-0 6 generation=-1; fetch t-0"
    ) == (
        "Stable(2) a2 b2: a NONE / Stable(2) a2 b2: t-0 5 / "
        "Stable(2) a2 b2: a STALE_MEMBER_EPOCH / Stable(2) a2 b2: a UNSUPPORTED_VERSION / "
        "Stable(2) a2 b2: z UNKNOWN_MEMBER_ID / Stable(2) a2 b2: z UNKNOWN_MEMBER_ID / "
        "Stable(2) a2 b2: t-0 5"
    )


def test_transactions_commit_with_the_members_epoch_or_without_a_member() -> None:
    world = ConsumerWorld()
    world.tell(PAIR)
    group = world.consumer_group
    assert group is not None

    def problem(member_id: str, epoch: int) -> Errors:
        producer = ProducerStamp(7, 0, 0, is_transactional=True)
        return consumer_commit_problem(group, Committer(member_id, None, epoch, producer))

    assert problem("a", 2) is Errors.NONE
    assert problem("", -1) is Errors.NONE
    assert problem("a", 1) is Errors.ILLEGAL_GENERATION
    assert problem("z", 2) is Errors.UNKNOWN_MEMBER_ID


def test_anyone_may_commit_to_an_empty_group() -> None:
    assert after_pair("a leaves; b leaves; z commits t-0 7 generation=-1; fetch t-0") == (
        "Assigning(3) b2: a -1 / Empty(4): b -1 / Empty(4): z NONE / Empty(4): t-0 7"
    )


def test_offsets_of_wanted_topics_do_not_expire() -> None:
    story = "a commits t-0 5; a beats topics=u; b beats topics=u; 8 days; expire; fetch t-0"
    kept = "a commits t-0 5; 40 s; a beats; b beats; expire; fetch t-0"
    assert after_pair(kept, retention_ms=1000).split(" / ")[-1] == "Stable(2) a2 b2: t-0 5"
    assert after_pair(story).split(" / ")[-1] == "-: t-0 -1"


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    assert after_pair(
        "a commits t-0 5; delete group; a leaves; b leaves; delete group; fetch t-0; a joins"
    ) == (
        "Stable(2) a2 b2: a NONE / Stable(2) a2 b2: delete NON_EMPTY_GROUP / "
        "Assigning(3) b2: a -1 / Empty(4): b -1 / -: delete NONE / -: t-0 -1 / "
        "Stable(1) a1: a 1 t0123"
    )


# The log --------------------------------------------------------------------------------------


def test_nobody_hears_of_what_is_not_committed() -> None:
    assert after_pair("log waits; c joins; a beats; b beats; log commits") == (
        "Stable(2) a2 b2 / Reconciling(3) a2 b2 c3? / Reconciling(3) a3 b2 c3? / "
        "Reconciling(3) a3 b2~ c3? / Reconciling(3) a3 b2~ c3?: c 3 nothing, a 3, b 2 t2"
    )


def test_a_heartbeat_without_news_waits_for_the_news_before_it() -> None:
    assert after_pair("log waits; c joins topics=none; a beats; log commits") == (
        "Stable(2) a2 b2 / Stable(2) a2 b2 c2 / Stable(2) a2 b2 c2 / "
        "Stable(2) a2 b2 c2: c 2 nothing, a 2"
    )


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        ("NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("MESSAGE_TOO_LARGE", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_what_the_log_refuses_has_not_happened(refusal: str, told: str) -> None:
    assert after_pair(f"log refuses {refusal}; c joins; a leaves; a beats; log accepts") == (
        f"Stable(2) a2 b2 / Stable(2) a2 b2: c {told} / Stable(2) a2 b2: a {told} / "
        "Stable(2) a2 b2: a 2 / Stable(2) a2 b2"
    )


def test_a_commit_that_takes_too_long_is_not_available() -> None:
    assert after_pair("log waits; c joins; 5 s; log commits; c joins") == (
        "Stable(2) a2 b2 / Reconciling(3) a2 b2 c3? / "
        "Reconciling(3) a2 b2 c3?: c COORDINATOR_NOT_AVAILABLE / Reconciling(3) a2 b2 c3? / "
        "Reconciling(3) a2 b2 c3?: c 3 nothing"
    )


def test_who_waits_hears_that_the_coordinator_has_moved() -> None:
    assert after_pair("log waits; c joins; log moves away") == (
        "Stable(2) a2 b2 / Reconciling(3) a2 b2 c3? / -: c NOT_COORDINATOR"
    )


STORIES = [
    PAIR,
    f"{PAIR}; c joins; a beats",
    f"{STATIC}; a goes instance=i",
    "topics t=2 u=1; a joins pattern=[tu]; a beats; a commits t-0 5",
    f"{PAIR}; a leaves; b leaves; z commits t-0 5 generation=-1",
    f"{PAIR}; k joins classic; k syncs; a gives",
    "topics t=4; k joins classic; 3 s; k syncs k=t0123; k commits t-0 5 v=8; a joins; k beats",
]


@pytest.mark.parametrize("story", STORIES)
def test_the_next_coordinator_knows_what_this_one_knew(story: str) -> None:
    world = ConsumerWorld()
    told = world.tell(f"{story}; fetch t-0").split(" / ")[-1]
    later = world.after_restart()
    assert later.tell("fetch t-0") == told
    group, again = world.consumer_group, later.consumer_group
    assert group is not None
    assert again is not None
    for field in ("topics_hash", "target_epoch", "targets", "members", "instances", "patterns"):
        assert getattr(again, field) == getattr(group, field)
    assert again._holders == group._holders


def test_the_next_coordinator_knows_that_a_group_has_become_classic() -> None:
    world = ConsumerWorld()
    world.tell(f"{PAIR}; a commits t-0 5; k joins classic; k syncs; a leaves; b leaves")
    assert world.after_restart().tell("fetch t-0") == "Stable(4) k: t-0 5"


def test_the_next_coordinator_gives_everyone_its_time() -> None:
    world = ConsumerWorld()
    world.tell("topics t=2; a joins rebalance=20; b joins; a beats")
    later = world.after_restart()
    assert later.tell("19 s; 1 s; 24 s; b beats; 1 s") == (
        "Reconciling(2) a1~ b2? / Assigning(3) b2? / Assigning(3) b2? / "
        "Stable(3) b3: b 3 t01 / Stable(3) b3"
    )


def test_unloading_stops_every_timer() -> None:
    world = ConsumerWorld()
    world.tell(f"{PAIR}; c joins; a beats; k joins classic")
    assert world.timers.pending > 0
    world.shard.close()
    assert world.timers.pending == 0


# Settings -------------------------------------------------------------------------------------


def test_a_group_of_both_protocols_can_be_forbidden() -> None:
    story = "topics t=4; k joins classic; 3 s; k syncs k=t0123; a joins"
    assert end_of(story, can_upgrade=False) == "Stable(1) k: a GROUP_ID_NOT_FOUND"
    mixed = f"{story}; k joins classic owned=t01; a leaves"
    assert end_of(mixed, can_downgrade=False).startswith("Assigning(3) k2c")
