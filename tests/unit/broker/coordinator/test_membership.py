"""Transcripts of classic groups: every transition, every error code of membership."""

import pytest
from odradek.broker.coordinator.group_config import GroupConfig

from tests.unit.broker.coordinator.story import World, tell

STABLE_PAIR = "a joins; b joins; 6 s; a syncs a=A b=B; b syncs"


def end_of(story: str, **settings: int) -> str:
    return tell(story, **settings).split(" / ")[-1]


def after_pair(story: str, **settings: int) -> str:
    """The story of a Stable group of a (the leader) and b."""
    told = tell(f"{STABLE_PAIR}; {story}", **settings).split(" / ")
    return " / ".join(told[len(STABLE_PAIR.split(";")) :])


# The life of a group --------------------------------------------------------------------------


def test_a_group_lives_from_its_first_join_to_its_last_leave() -> None:
    assert tell(f"{STABLE_PAIR}; b leaves; a beats; a joins; a syncs a=AB; a leaves") == (
        "Preparing a / Preparing a,b / Completing(1) a,b: a leads a,b, b follows a / "
        "Stable(1) a,b: a has A / Stable(1) a,b: b has B / Preparing(1) a: b NONE / "
        "Preparing(1) a: a REBALANCE_IN_PROGRESS / Completing(2) a: a leads a / "
        "Stable(2) a: a has AB / Empty(3): a NONE"
    )


def test_followers_that_sync_first_wait_for_the_leader() -> None:
    assert tell("a joins; b joins; 6 s; b syncs; a syncs a=A b=B") == (
        "Preparing a / Preparing a,b / Completing(1) a,b: a leads a,b, b follows a / "
        "Completing(1) a,b / Stable(1) a,b: a has A, b has B"
    )


def test_a_leader_that_joins_again_at_once_waits_for_the_others_to_hear_their_shares() -> None:
    assert tell("a joins; b joins; 6 s; a syncs a=A b=B; a joins; b syncs; b joins") == (
        "Preparing a / Preparing a,b / Completing(1) a,b: a leads a,b, b follows a / "
        "Stable(1) a,b: a has A / Stable(1) a,b / Preparing(1) a,b: b has B / "
        "Completing(2) a,b: a leads a,b, b follows a"
    )


def test_it_does_not_wait_long_for_one_that_does_not_sync() -> None:
    story = "a joins; b joins; 6 s; a syncs a=A b=B; a joins; 99 ms; 1 ms; b syncs; b joins"
    assert tell(story) == (
        "Preparing a / Preparing a,b / Completing(1) a,b: a leads a,b, b follows a / "
        "Stable(1) a,b: a has A / Stable(1) a,b / Stable(1) a,b / Preparing(1) a,b / "
        "Preparing(1) a,b: b REBALANCE_IN_PROGRESS / Completing(2) a,b: a leads a,b, b follows a"
    )


def test_a_join_that_is_repeated_meanwhile_begins_one_rebalance_only() -> None:
    waiting = "a joins; b joins; 6 s; a syncs a=A b=B; a joins; 10 ms; a joins"
    story = f"{waiting}; b syncs; b joins; b syncs; a syncs a=A b=B; 1 s"
    assert tell(story).split(" / ")[-2:] == ["Stable(2) a,b: a has A, b has B", "Stable(2) a,b"]


def test_a_rebalance_for_another_reason_ends_its_waiting() -> None:
    story = "a joins; b joins; 6 s; a syncs a=A b=B; a joins; c joins; b joins; 1 s"
    assert tell(story).split(" / ")[-3:] == [
        "Preparing(1) a,b,c",
        "Completing(2) a,b,c: a leads a,b,c, b follows a, c follows a",
        "Completing(2) a,b,c",
    ]


def test_a_newcomer_rebalances_a_stable_group() -> None:
    assert after_pair("c joins; a beats; a joins; b joins") == (
        "Preparing(1) a,b,c / Preparing(1) a,b,c: a REBALANCE_IN_PROGRESS / Preparing(1) a,b,c / "
        "Completing(2) a,b,c: a leads a,b,c, b follows a, c follows a"
    )


def test_a_join_while_completing_starts_over() -> None:
    assert tell("a joins; b joins; 6 s; b syncs; c joins; a joins; b joins") == (
        "Preparing a / Preparing a,b / Completing(1) a,b: a leads a,b, b follows a / "
        "Completing(1) a,b / Preparing(1) a,b,c: b REBALANCE_IN_PROGRESS / Preparing(1) a,b,c / "
        "Completing(2) a,b,c: a leads a,b,c, b follows a, c follows a"
    )


def test_members_that_the_leader_forgets_get_nothing() -> None:
    assert end_of("a joins; b joins; 6 s; b syncs; a syncs a=A") == (
        "Stable(1) a,b: a has A, b has nothing"
    )


def test_the_leaders_place_goes_to_a_member_that_joined() -> None:
    assert after_pair("c joins; b joins; 10 s") == (
        "Preparing(1) a,b,c / Preparing(1) a,b,c / Completing(2) b,c: b leads b,c, c follows b"
    )


# Joins ----------------------------------------------------------------------------------------


def test_first_join_without_an_id_is_told_one_from_version_4_on() -> None:
    assert tell("a joins v=4; a joins v=4; 3 s") == (
        "Empty: a MEMBER_ID_REQUIRED / Preparing a / Completing(1) a: a leads a"
    )


def test_first_join_without_an_id_joins_at_once_before_version_4() -> None:
    assert tell("a joins v=3; 3 s") == "Preparing a / Completing(1) a: a leads a"


def test_version_0_has_the_session_timeout_for_its_rebalances() -> None:
    world = World()
    world.tell("a joins v=0 rebalance=-1 session=10")
    assert world.group is not None
    assert world.group.rebalance_timeout_ms == 10_000


def test_an_id_that_nobody_comes_back_with_is_forgotten_after_a_session() -> None:
    world = World()
    world.tell("a joins v=4 session=10; 10 s")
    assert world.group is not None
    assert not world.group.pending_members
    assert world.tell("a joins v=4") == "Empty: a UNKNOWN_MEMBER_ID"


def test_a_rebalance_waits_for_members_that_were_told_their_id() -> None:
    assert after_pair("c joins v=4; b leaves; a joins; c joins v=4") == (
        "Stable(1) a,b: c MEMBER_ID_REQUIRED / Preparing(1) a: b NONE / Preparing(1) a / "
        "Completing(2) a,c: a leads a,c, c follows a"
    )


def test_a_rebalance_does_not_wait_for_an_id_that_expired() -> None:
    assert after_pair("c joins v=4 session=6; b leaves; a joins; 6 s") == (
        "Stable(1) a,b: c MEMBER_ID_REQUIRED / Preparing(1) a: b NONE / Preparing(1) a / "
        "Completing(2) a: a leads a"
    )


def test_the_first_delay_grows_with_newcomers_up_to_the_rebalance_timeout() -> None:
    assert tell("a joins rebalance=7; b joins rebalance=7; 3 s; c joins rebalance=7; 3 s; 1 s") == (
        "Preparing a / Preparing a,b / Preparing a,b / Preparing a,b,c / Preparing a,b,c / "
        "Completing(1) a,b,c: a leads a,b,c, b follows a, c follows a"
    )


def test_without_an_initial_delay_a_lone_member_starts_at_once() -> None:
    assert tell("a joins; 0 s", initial_rebalance_delay_ms=0) == (
        "Preparing a / Completing(1) a: a leads a"
    )


def test_members_that_do_not_join_again_are_dropped_after_the_rebalance_timeout() -> None:
    pair = "a joins; b joins session=100; 6 s; a syncs a=A b=B; b syncs"
    assert tell(f"{pair}; c joins; a joins; 59 s; b beats; 1 s").endswith(
        "Preparing(1) a,b,c: b REBALANCE_IN_PROGRESS / Completing(2) a,c: a leads a,c, c follows a"
    )


def test_a_followers_unchanged_join_gets_the_generation_again() -> None:
    assert after_pair("b joins; b syncs") == ("Stable(1) a,b: b follows a / Stable(1) a,b: b has B")


def test_a_followers_changed_join_rebalances() -> None:
    assert after_pair("b joins topics=t,u") == "Preparing(1) a,b"


def test_the_leaders_join_always_rebalances() -> None:
    assert after_pair("a joins") == "Preparing(1) a,b"


def test_joins_repeated_while_completing_get_the_same_answer() -> None:
    assert tell("a joins; b joins; 6 s; a joins; b joins; b joins protocols=range,rr").endswith(
        "Completing(1) a,b: a leads a,b / Completing(1) a,b: b follows a / Preparing(1) a,b"
    )


def test_a_join_repeated_while_it_waits_answers_the_older_one() -> None:
    assert after_pair("a joins; a joins; b joins") == (
        "Preparing(1) a,b / Preparing(1) a,b: a REBALANCE_IN_PROGRESS / "
        "Completing(2) a,b: a leads a,b, b follows a"
    )


@pytest.mark.parametrize(
    ("join", "error"),
    [
        ("c joins type=connect", "INCONSISTENT_GROUP_PROTOCOL"),
        ("c joins protocols=sticky", "INCONSISTENT_GROUP_PROTOCOL"),
        ("c joins protocols=", "INCONSISTENT_GROUP_PROTOCOL"),
        ("c joins id=stranger", "UNKNOWN_MEMBER_ID"),
        ("c joins id=stranger instance=i", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_joins_that_are_refused(join: str, error: str) -> None:
    assert after_pair(join) == f"Stable(1) a,b: c {error}"


@pytest.mark.parametrize(
    ("join", "error"),
    [
        ("c joins protocols=", "INCONSISTENT_GROUP_PROTOCOL"),
        ("c joins type=", "INCONSISTENT_GROUP_PROTOCOL"),
        ("c joins id=stranger", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_refused_join_leaves_no_group_behind(join: str, error: str) -> None:
    assert tell(join) == f"-: c {error}"


def test_the_protocol_is_voted_for_among_those_that_all_know() -> None:
    world = World()
    world.tell(
        "a joins protocols=range,rr,sticky; b joins protocols=rr,sticky,range; "
        "c joins protocols=sticky,rr; 9 s"
    )
    assert world.group is not None
    assert world.group.protocol_name == "rr"


# Size -----------------------------------------------------------------------------------------


def test_a_full_group_takes_nobody_in() -> None:
    assert after_pair("c joins", max_size=2) == "Stable(1) a,b: c GROUP_MAX_SIZE_REACHED"


def test_a_full_group_that_rebalances_keeps_who_comes_first() -> None:
    assert after_pair("a joins; b joins; c joins", max_size=2).endswith(
        "Completing(2) a,b: a leads a,b, b follows a / Completing(2) a,b: c GROUP_MAX_SIZE_REACHED"
    )


def test_a_group_loaded_over_its_size_sheds_who_comes_last() -> None:
    before = World()
    before.tell(STABLE_PAIR)
    after = World(GroupConfig(max_size=1), before.log)
    after.ids = before.ids
    assert after.tell("b joins; a joins") == (
        "Preparing(1) a,b / Completing(2) b: a GROUP_MAX_SIZE_REACHED, b leads b"
    )


# Syncs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ("b syncs id=stranger", "Stable(1) a,b: b UNKNOWN_MEMBER_ID"),
        ("b syncs generation=0", "Stable(1) a,b: b ILLEGAL_GENERATION"),
        ("b syncs type=connect", "Stable(1) a,b: b INCONSISTENT_GROUP_PROTOCOL"),
        ("b syncs protocol=sticky", "Stable(1) a,b: b INCONSISTENT_GROUP_PROTOCOL"),
        ("b syncs type=consumer protocol=range", "Stable(1) a,b: b has B"),
        ("a joins; b syncs", "Preparing(1) a,b / Preparing(1) a,b: b REBALANCE_IN_PROGRESS"),
    ],
)
def test_syncs_and_their_errors(story: str, told: str) -> None:
    assert after_pair(story) == told


def test_a_sync_in_an_unknown_group_comes_from_an_unknown_member() -> None:
    assert tell("a syncs id=x") == "-: a UNKNOWN_MEMBER_ID"


def test_a_member_that_never_syncs_is_dropped_after_the_rebalance_timeout() -> None:
    story = "a joins session=100; b joins session=100; 6 s; a syncs a=A b=B; 59 s; 1 s"
    assert tell(story).endswith("Stable(1) a,b: a has A / Stable(1) a,b / Preparing(1) a")


def test_a_leader_that_never_syncs_is_dropped_and_the_others_join_again() -> None:
    story = "a joins session=100; b joins session=100; 6 s; b syncs; 60 s; b joins"
    assert tell(story).endswith(
        "Completing(1) a,b / Preparing(1) b: b REBALANCE_IN_PROGRESS / Completing(2) b: b leads b"
    )


def test_nobody_is_told_an_assignment_before_it_is_committed() -> None:
    assert tell("a joins; b joins; 6 s; b syncs; log waits; a syncs a=A b=B; log commits") == (
        "Preparing a / Preparing a,b / Completing(1) a,b: a leads a,b, b follows a / "
        "Completing(1) a,b / Completing(1) a,b / Completing(1) a,b / "
        "Stable(1) a,b: a has A, b has B"
    )


def test_an_assignment_that_comes_too_late_for_its_generation_is_dropped() -> None:
    story = "log waits; a syncs a=A b=B; c joins; log commits"
    assert tell(f"a joins; b joins; 6 s; {story}").endswith(
        "Completing(1) a,b / Preparing(1) a,b,c: a REBALANCE_IN_PROGRESS / Preparing(1) a,b,c"
    )


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        ("NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "COORDINATOR_NOT_AVAILABLE"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "COORDINATOR_NOT_AVAILABLE"),
        ("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
        ("KAFKA_STORAGE_ERROR", "NOT_COORDINATOR"),
        ("MESSAGE_TOO_LARGE", "UNKNOWN_SERVER_ERROR"),
        ("RECORD_LIST_TOO_LARGE", "UNKNOWN_SERVER_ERROR"),
        ("INVALID_FETCH_SIZE", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_an_assignment_that_is_not_kept_makes_all_join_again(refusal: str, told: str) -> None:
    story = f"a joins; b joins; 6 s; b syncs; log refuses {refusal}; a syncs a=A b=B"
    assert end_of(story) == f"Preparing(1) a,b: a {told}, b {told}"


def test_an_assignment_whose_commit_takes_too_long_makes_all_join_again() -> None:
    assert end_of("a joins; b joins; 6 s; log waits; a syncs a=A b=B; 5 s") == (
        "Preparing(1) a,b: a REBALANCE_IN_PROGRESS"
    )


def test_a_repeated_sync_answers_the_older_one() -> None:
    assert tell("a joins; b joins; 6 s; b syncs; b syncs; a syncs b=B").endswith(
        "Completing(1) a,b: b REBALANCE_IN_PROGRESS / Stable(1) a,b: a has nothing, b has B"
    )


# Sessions and leaving -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ("a beats", "Stable(1) a,b: a NONE"),
        ("a beats generation=0", "Stable(1) a,b: a ILLEGAL_GENERATION"),
        ("a beats id=stranger", "Stable(1) a,b: a UNKNOWN_MEMBER_ID"),
        (
            "b joins topics=u; a beats",
            "Preparing(1) a,b / Preparing(1) a,b: a REBALANCE_IN_PROGRESS",
        ),
    ],
)
def test_heartbeats(story: str, told: str) -> None:
    assert after_pair(story) == told


def test_heartbeats_while_completing_and_in_no_group() -> None:
    assert end_of("a joins; 3 s; a beats") == "Completing(1) a: a NONE"
    assert tell("a beats id=x") == "-: a UNKNOWN_MEMBER_ID"
    assert end_of("a joins; 3 s; a leaves; a beats") == "Empty(2): a UNKNOWN_MEMBER_ID"


def test_a_member_not_heard_of_for_a_session_is_dropped() -> None:
    assert after_pair("9 s; a beats; 1 s; a joins") == (
        "Stable(1) a,b / Stable(1) a,b: a NONE / Preparing(1) a / Completing(2) a: a leads a"
    )


def test_commits_keep_a_member_alive() -> None:
    assert after_pair("9 s; a commits t-0 1; b commits t-1 1; 9 s") == (
        "Stable(1) a,b / Stable(1) a,b: a NONE / Stable(1) a,b: b NONE / Stable(1) a,b"
    )


def test_a_member_that_waits_for_its_join_does_not_expire() -> None:
    assert after_pair("a joins; 9 s; b beats; 9 s; b beats; b joins").endswith(
        "Completing(2) a,b: a leads a,b, b follows a"
    )


def test_a_member_that_waits_for_its_sync_does_not_expire() -> None:
    story = "a joins session=50; b joins session=10; 6 s; b syncs; 40 s; a syncs b=B"
    assert end_of(story) == "Stable(1) a,b: a has nothing, b has B"


def test_a_new_member_whose_client_vanished_expires_after_five_minutes() -> None:
    story = "c joins; a joins; 299 s; 1 s"
    pair = "a joins rebalance=1000; b joins rebalance=1000 session=1000; 6 s; a syncs a=A b=B"
    told = tell(f"{pair}; b syncs; {story}").split(" / ")
    assert told[-2:] == ["Preparing(1) a,b,c", "Preparing(1) a,b: c UNKNOWN_MEMBER_ID"]


def test_leaving_and_its_errors() -> None:
    assert after_pair("b leaves; b leaves; c leaves id=stranger") == (
        "Preparing(1) a: b NONE / Preparing(1) a: b UNKNOWN_MEMBER_ID / "
        "Preparing(1) a: c UNKNOWN_MEMBER_ID"
    )
    assert tell("a leaves id=x") == "-: a UNKNOWN_MEMBER_ID"


def test_who_was_only_told_an_id_can_leave() -> None:
    assert tell("a joins v=4; a leaves; a joins v=4") == (
        "Empty: a MEMBER_ID_REQUIRED / Empty: a NONE / Empty: a UNKNOWN_MEMBER_ID"
    )


def test_who_leaves_while_all_wait_for_it_lets_the_others_go_on() -> None:
    assert after_pair("a joins; b leaves") == (
        "Preparing(1) a,b / Completing(2) a: a leads a, b NONE"
    )


# Coordinators that come and go ----------------------------------------------------------------


def test_a_coordinator_that_goes_answers_all_who_wait() -> None:
    world = World()
    told = world.tell("a joins; b joins; 6 s; b syncs; log moves away")
    assert told.endswith("-: b NOT_COORDINATOR")
    assert world.timers.pending == 0
    assert tell("a joins; log moves away") == "Preparing a / -: a NOT_COORDINATOR"


def test_a_coordinator_that_goes_answers_who_waits_for_a_commit() -> None:
    assert tell("log waits; x commits t-0 5; log moves away") == (
        "- / Empty / -: x NOT_COORDINATOR"
    )


def test_a_new_coordinator_goes_on_with_the_same_generation() -> None:
    before = World()
    before.tell(STABLE_PAIR)
    after = World(log=before.log)
    after.ids = before.ids
    assert after.tell("a beats; b syncs; 10 s") == (
        "Stable(1) a,b: a NONE / Stable(1) a,b: b has B / Empty(2)"
    )


def test_a_new_coordinator_gives_every_member_a_whole_session() -> None:
    before = World()
    before.tell(STABLE_PAIR)
    after = World(log=before.log)
    assert after.tell("9 s; 1 s") == "Stable(1) a,b / Empty(2)"
