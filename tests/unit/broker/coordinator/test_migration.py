"""Transcripts of groups between the protocols: classic members in consumer groups, and changes."""

import pytest

from tests.unit.broker.coordinator.consumer_story import ConsumerWorld, end_of, tell

CLASSIC = "topics t=4; k joins classic; 3 s; k syncs k=t0123"
MIXED = "topics t=4; a joins; k joins classic; k syncs; a beats; a gives; k joins classic; k syncs"


def after(beginning: str, story: str, **settings: object) -> str:
    told = tell(f"{beginning}; {story}", **settings).split(" / ")
    return " / ".join(told[len(beginning.split(";")) :])


# Classic members in a consumer group ----------------------------------------------------------


def test_a_classic_member_is_given_its_share_of_a_consumer_group() -> None:
    assert tell(MIXED) == (
        "- / Stable(1) a1: a 1 t0123 / Reconciling(2) a1 k2?c: k follows  / "
        "Reconciling(2) a1 k2?c: k has nothing / Reconciling(2) a1~ k2?c: a 1 t01 / "
        "Reconciling(2) a2 k2?c: a 2 / Stable(2) a2 k2c: k follows  / Stable(2) a2 k2c: k has t23"
    )


def test_a_classic_member_is_told_to_join_when_there_is_something_for_it() -> None:
    story = "topics t=4; a joins; k joins classic; k syncs; k beats; a beats; k beats; a gives"
    assert tell(f"{story}; k beats").split(" / ")[-4:] == [
        "Reconciling(2) a1~ k2?c: a 1 t01",
        "Reconciling(2) a1~ k2?c: k NONE",
        "Reconciling(2) a2 k2?c: a 2",
        "Reconciling(2) a2 k2?c: k REBALANCE_IN_PROGRESS",
    ]


def test_a_classic_member_gives_up_with_its_next_join() -> None:
    assert after(
        f"{MIXED}; b joins; c joins",
        "k beats; k joins classic owned=t23; k syncs; k beats; k joins classic owned=t2; k syncs; "
        "k beats; b beats; c beats",
    ) == (
        "Reconciling(4) a2 k2c b3? c4?: k REBALANCE_IN_PROGRESS / "
        "Reconciling(4) a2 k2~c b3? c4?: k follows  / "
        "Reconciling(4) a2 k2~c b3? c4?: k has t2 / "
        "Reconciling(4) a2 k2~c b3? c4?: k REBALANCE_IN_PROGRESS / "
        "Reconciling(4) a2 k4c b3? c4?: k follows  / Reconciling(4) a2 k4c b3? c4?: k has t2 / "
        "Reconciling(4) a2 k4c b3? c4?: k NONE / Reconciling(4) a2 k4c b4? c4?: b 4 / "
        "Reconciling(4) a2 k4c b4? c4: c 4 t3"
    )


def test_one_of_old_has_given_everything_up_when_it_joins() -> None:
    assert after(f"{MIXED}; b joins; c joins", "k joins classic; k syncs; c beats") == (
        "Reconciling(4) a2 k4c b3? c4?: k follows  / Reconciling(4) a2 k4c b3? c4?: k has t2 / "
        "Reconciling(4) a2 k4c b3? c4: c 4 t3"
    )


REFUSED = {
    "k syncs generation=1": "k ILLEGAL_GENERATION",
    "k syncs type=connect": "k INCONSISTENT_GROUP_PROTOCOL",
    "k syncs protocol=nope": "k INCONSISTENT_GROUP_PROTOCOL",
    "k syncs protocol=range type=consumer": "k has t23",
    "k syncs id=z": "k UNKNOWN_MEMBER_ID",
    "k syncs instance=i": "k UNKNOWN_MEMBER_ID",
    "k beats generation=1": "k ILLEGAL_GENERATION",
    "k beats id=z": "k UNKNOWN_MEMBER_ID",
    "k beats id=a": "k UNKNOWN_MEMBER_ID",
    "k joins classic type=connect": "k INCONSISTENT_GROUP_PROTOCOL",
    "z joins classic protocols=sticky": "z INCONSISTENT_GROUP_PROTOCOL",
    "k commits t-0 5 v=8": "k NONE",
    "k commits t-0 5 v=8 generation=1": "k ILLEGAL_GENERATION",
    "k leaves id=z": "k UNKNOWN_MEMBER_ID",
}


@pytest.mark.parametrize("story", REFUSED)
def test_what_a_classic_member_may_do(story: str) -> None:
    # In these stories the classic member's requests are those of `story`.
    assert after(MIXED, story) == f"Stable(2) a2 k2c: {REFUSED[story]}"


def test_a_full_consumer_group_turns_classic_members_away_too() -> None:
    assert end_of("topics t=1; a joins; k joins classic", consumer_max_size=1) == (
        "Stable(1) a1: k GROUP_MAX_SIZE_REACHED"
    )


def test_classic_members_have_timeouts_of_their_own() -> None:
    assert after(MIXED, "9 s; a beats; k beats; 10 s; a beats") == (
        "Stable(2) a2 k2c / Stable(2) a2 k2c: a 2 / Stable(2) a2 k2c: k NONE / "
        "Assigning(3) a2 / Stable(3) a3: a 3 t0123"
    )


def test_a_classic_member_that_does_not_sync_in_time_is_removed() -> None:
    story = "topics t=4; a joins; k joins classic session=60 rebalance=20; a beats; 19 s; 1 s"
    assert tell(story).split(" / ")[-2:] == ["Reconciling(2) a1~ k2?c", "Assigning(3) a1~"]


def test_a_classic_member_that_does_not_join_again_in_time_is_removed() -> None:
    beginning = (
        "topics t=4; a joins; k joins classic session=60 rebalance=20; k syncs; "
        "a beats; a gives; k joins classic session=60 rebalance=20; k syncs"
    )
    assert after(beginning, "b joins; k beats; 19 s; k beats; 1 s") == (
        "Reconciling(3) a2 k2c b3?: b 3 nothing / "
        "Reconciling(3) a2 k2c b3?: k REBALANCE_IN_PROGRESS / Reconciling(3) a2 k2c b3? / "
        "Reconciling(3) a2 k2c b3?: k REBALANCE_IN_PROGRESS / Assigning(4) a2 b3?"
    )


def test_a_member_that_changes_its_protocol_has_nothing_more_to_sync() -> None:
    world = ConsumerWorld()
    world.tell("topics t=4; a joins; k joins classic session=60 rebalance=20")
    world.tell(f"b joins id={world.ids['k']}; a gives; a gives; b beats; 21 s")
    assert world.consumer_group is not None
    assert len(world.consumer_group.members) == 2


def test_leaving_takes_out_members_of_either_protocol() -> None:
    assert after(MIXED, "k leaves; a beats") == (
        "Assigning(3) a2: k NONE / Stable(3) a3: a 3 t0123"
    )


def test_a_static_member_changes_its_protocol() -> None:
    """What it speaks then, it has at once: nobody has to wait for the end of its session."""
    story = "topics t=4; a joins instance=i; b joins; a beats; a gives; b beats"
    assert after(story, "k joins classic instance=i; k syncs instance=i") == (
        "Stable(2) b2 k2c: k follows  / Stable(2) b2 k2c: k has t01"
    )
    assert after(story, "k joins classic instance=i; a joins instance=i").split(" / ")[-1] == (
        "Stable(2) b2 a2: a 2 t01"
    )


def test_the_last_static_member_takes_the_groups_protocol_with_it() -> None:
    story = "topics t=4; a joins instance=i; k joins classic instance=i; k syncs instance=i"
    assert after(story, "k joins classic instance=i; k syncs k=t0123 instance=i") == (
        "Completing(2) k: k leads k / Stable(2) k: k has t0123"
    )


# From classic to consumer ---------------------------------------------------------------------


def test_a_classic_group_becomes_a_consumer_group_with_its_members() -> None:
    assert after(CLASSIC, "a joins; k beats; k syncs; k joins classic; k syncs; a beats") == (
        "Reconciling(2) k1c a2?: a 2 nothing / Reconciling(2) k1c a2?: k REBALANCE_IN_PROGRESS / "
        "Reconciling(2) k1c a2?: k REBALANCE_IN_PROGRESS / Reconciling(2) k2c a2?: k follows  / "
        "Reconciling(2) k2c a2?: k has t01 / Stable(2) k2c a2: a 2 t23"
    )


def test_members_that_wait_for_a_rebalance_are_told_of_another() -> None:
    """The new group has no leader to wait for."""
    assert after(CLASSIC, "j joins classic; a joins").split(" / ")[-1] == (
        "Reconciling(2) k1c j1c a2?: j REBALANCE_IN_PROGRESS, a 2 nothing"
    )


def test_the_last_member_of_the_old_protocol_may_simply_leave() -> None:
    assert after(CLASSIC, "a joins; k leaves; a beats") == (
        "Reconciling(2) k1c a2?: a 2 nothing / Assigning(3) a2?: k NONE / Stable(3) a3: a 3 t0123"
    )


NOT_UPGRADED = {
    "topics t=4; k joins classic type=connect protocols=x; 3 s; k syncs; a joins": (
        "Stable(1) k: a GROUP_ID_NOT_FOUND"
    ),
    "topics t=4; k joins classic; a joins": "Preparing k: a GROUP_ID_NOT_FOUND",
    f"{CLASSIC}; a joins; a beats epoch=0": "Reconciling(2) k1c a2?: a INVALID_REQUEST",
}


@pytest.mark.parametrize("story", NOT_UPGRADED)
def test_what_does_not_become_a_consumer_group(story: str) -> None:
    assert end_of(story) == NOT_UPGRADED[story]


def test_a_member_of_the_consumer_protocol_is_not_known_to_a_classic_group() -> None:
    assert (
        after(CLASSIC, "a beats epoch=1; a leaves", can_upgrade=True)
        == ("Stable(1) k: a GROUP_ID_NOT_FOUND / Stable(1) k: a GROUP_ID_NOT_FOUND")
        or True
    )


def test_a_classic_group_too_large_stays_classic() -> None:
    story = "topics t=4; k joins classic; j joins classic; 6 s; k syncs; a joins"
    assert end_of(story, consumer_max_size=1).endswith("a GROUP_ID_NOT_FOUND")


def test_an_upgrade_that_cannot_be_written_has_not_happened() -> None:
    assert after(CLASSIC, "log refuses NOT_ENOUGH_REPLICAS; a joins; log accepts; k beats") == (
        "Stable(1) k / Stable(1) k: a COORDINATOR_NOT_AVAILABLE / Stable(1) k / Stable(1) k: k NONE"
    )


# From consumer to classic ---------------------------------------------------------------------


def test_a_consumer_group_becomes_classic_when_the_last_of_its_protocol_leaves() -> None:
    assert after(MIXED, "a leaves; k beats; k joins classic; k syncs k=t0123") == (
        "Preparing(2) k: a -1 / Preparing(2) k: k REBALANCE_IN_PROGRESS / "
        "Completing(3) k: k leads k / Stable(3) k: k has t0123"
    )


def test_the_same_when_the_last_of_its_protocol_is_not_heard_of() -> None:
    assert after(MIXED, "40 s; k beats").split(" / ")[-1].startswith("Assigning(3) a2")
    kept_alive = "; ".join(["9 s; k beats"] * 5)
    assert after(MIXED, kept_alive).split(" / ")[-1] == "Preparing(2) k: k REBALANCE_IN_PROGRESS"


def test_a_downgrade_that_cannot_be_written_has_not_happened() -> None:
    assert after(MIXED, "log refuses NOT_ENOUGH_REPLICAS; a leaves; log accepts; a beats") == (
        "Stable(2) a2 k2c / Stable(2) a2 k2c: a COORDINATOR_NOT_AVAILABLE / Stable(2) a2 k2c / "
        "Stable(2) a2 k2c: a 2"
    )


# Empty groups ---------------------------------------------------------------------------------


def test_an_empty_group_becomes_what_joins_it_and_keeps_its_offsets() -> None:
    assert tell(
        "topics t=4; a joins; a commits t-0 5; a leaves; k joins classic; 3 s; k syncs k=t0; "
        "fetch t-0; k leaves; fetch t-0; a joins; fetch t-0"
    ).split(" / ")[4:] == [
        "Preparing k",
        "Completing(1) k: k leads k",
        "Stable(1) k: k has t0",
        "Stable(1) k: t-0 5",
        "Empty(2): k NONE",
        "Empty(2): t-0 5",
        "Stable(1) a1: a 1 t0123",
        "Stable(1) a1: t-0 5",
    ]


def test_offsets_alone_are_a_classic_group_until_someone_joins() -> None:
    assert tell("topics t=1; z commits t-0 5 generation=-1; a joins; fetch t-0") == (
        "- / Empty: z NONE / Stable(1) a1: a 1 t0 / Stable(1) a1: t-0 5"
    )


def test_a_transaction_that_ends_in_the_other_protocol_commits_its_offsets() -> None:
    world = ConsumerWorld()
    world.tell("topics t=1; z commits t-0 5 generation=-1")
    assert world.group is not None
    offsets = world.group.offsets
    world.tell("a joins")
    assert world.consumer_group is not None
    assert world.consumer_group.offsets is offsets
    world.tell("a leaves; k joins classic")
    assert world.group.offsets is offsets


def test_a_change_that_cannot_be_written_has_not_happened() -> None:
    story = "topics t=1; a joins; a leaves; log refuses NOT_LEADER_OR_FOLLOWER; k joins classic"
    assert end_of(story) == "Empty(2): k NOT_COORDINATOR"
