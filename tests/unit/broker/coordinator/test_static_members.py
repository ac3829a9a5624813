"""Transcripts of groups with static members, which come back under their instance id."""

from tests.unit.broker.coordinator.story import World, tell

PAIR = "a joins instance=i; b joins instance=j; 6 s; a syncs instance=i a=A b=B; b syncs instance=j"


def after_pair(story: str) -> str:
    told = tell(f"{PAIR}; {story}").split(" / ")
    return " / ".join(told[len(PAIR.split(";")) :])


def test_a_static_member_joins_without_being_told_an_id_first() -> None:
    assert tell("a joins instance=i v=9; 3 s") == "Preparing a / Completing(1) a: a leads a"


def test_a_returning_follower_causes_no_rebalance() -> None:
    assert after_pair("b joins id=none instance=j; b syncs instance=j; a beats instance=i") == (
        "Stable(1) a,b: b follows a / Stable(1) a,b: b has B / Stable(1) a,b: a NONE"
    )


def test_a_returning_leader_skips_assignment_from_version_9_on() -> None:
    assert after_pair("a joins id=none instance=i v=9; a syncs instance=i") == (
        "Stable(1) a,b: a leads a,b skips assignment / Stable(1) a,b: a has A"
    )


def test_a_returning_leader_is_told_its_old_id_before_version_9() -> None:
    world = World()
    world.tell(PAIR)
    old_id = world.ids["a"]
    del world.ids["a"]
    assert world.tell("a joins id=none instance=i v=8") == f"Stable(1) a,b: a follows {old_id}"


def test_the_old_id_is_fenced_everywhere() -> None:
    world = World()
    world.tell(PAIR)
    world.ids["old"] = world.ids["b"]
    assert world.tell(
        "b joins id=none instance=j; old beats instance=j; old syncs instance=j; "
        "old joins instance=j; old commits t-0 1 instance=j; old leaves instance=j; old beats"
    ) == (
        "Stable(1) a,b: b follows a / Stable(1) a,b: old FENCED_INSTANCE_ID / "
        "Stable(1) a,b: old FENCED_INSTANCE_ID / Stable(1) a,b: old FENCED_INSTANCE_ID / "
        "Stable(1) a,b: old FENCED_INSTANCE_ID / Stable(1) a,b: old FENCED_INSTANCE_ID / "
        "Stable(1) a,b: old UNKNOWN_MEMBER_ID"
    )


def test_a_parked_join_of_the_old_id_is_fenced() -> None:
    assert after_pair("b joins instance=j topics=u; b joins id=none instance=j topics=u") == (
        "Preparing(1) a,b / Preparing(1) a,b: b FENCED_INSTANCE_ID"
    )


def test_a_parked_sync_of_the_old_id_is_fenced() -> None:
    story = "a joins instance=i; b joins instance=j; 6 s; b syncs instance=j"
    assert tell(f"{story}; b joins id=none instance=j").endswith(
        "Completing(1) a,b / Preparing(1) a,b: b FENCED_INSTANCE_ID"
    )


def test_the_new_id_is_persisted_before_the_member_hears_of_it() -> None:
    """Reliability, item 48: an id that only memory knew would be lost with its coordinator."""
    world = World()
    world.tell(PAIR)
    assert world.tell("log waits; b joins id=none instance=j; log commits") == (
        "Stable(1) a,b / Stable(1) a,b / Stable(1) a,b: b follows a"
    )
    after = World(log=world.log)
    after.ids = world.ids
    assert after.tell("b beats instance=j") == "Stable(1) a,b: b NONE"


def test_a_new_id_that_cannot_be_persisted_is_taken_back() -> None:
    world = World()
    world.tell(PAIR)
    world.ids["old"] = world.ids["b"]
    assert world.tell(
        "log refuses NOT_ENOUGH_REPLICAS; c joins id=none instance=j; old beats instance=j"
    ) == ("Stable(1) a,b / Stable(1) a,b: c COORDINATOR_NOT_AVAILABLE / Stable(1) a,b: old NONE")


def test_a_return_with_another_preferred_protocol_rebalances() -> None:
    assert after_pair("b joins id=none instance=j protocols=range,rr").startswith(
        "Stable(1) a,b: b follows a"
    )
    story = "a joins instance=i protocols=range,rr; 3 s; a syncs instance=i a=A"
    assert tell(f"{story}; a joins id=none instance=i protocols=rr,range").endswith(
        "Completing(2) a: a leads a"
    )


def test_a_rebalance_under_way_answers_a_return_whose_record_comes_late() -> None:
    story = "log waits; b joins id=none instance=j; c joins; log commits; a joins instance=i"
    assert after_pair(story) == (
        "Stable(1) a,b / Stable(1) a,b / Preparing(1) a,b,c / Preparing(1) a,b,c / "
        "Completing(2) a,b,c: a leads a,b,c, b follows a, c follows a"
    )


def test_static_members_that_do_not_come_stay_until_their_session_ends() -> None:
    pair = "a joins instance=i session=100; b joins instance=j; 6 s; a syncs instance=i a=A b=B"
    story = "b syncs instance=j; b joins instance=j topics=u; 60 s; b syncs instance=j a=A b=B"
    assert tell(f"{pair}; {story}").endswith(
        "Preparing(1) a,b / Completing(2) a,b: b leads a,b / Stable(2) a,b: b has B"
    )


def test_a_rebalance_for_which_no_static_member_comes_begins_anew() -> None:
    story = (
        "a joins instance=i session=100; c joins; 6 s; a syncs instance=i a=A c=C; c syncs; "
        "c joins topics=u; c leaves; 60 s; 39 s; 1 s"
    )
    assert tell(story).endswith(
        "Preparing(1) a: c UNKNOWN_MEMBER_ID, c NONE / Preparing(1) a / Preparing(1) a / Empty(2)"
    )


def test_administrators_remove_static_members_by_instance_alone() -> None:
    assert after_pair("admin leaves id=none instance=j; admin leaves id=none instance=x") == (
        "Preparing(1) a: admin NONE / Preparing(1) a: admin UNKNOWN_MEMBER_ID"
    )
