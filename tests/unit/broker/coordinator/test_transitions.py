"""Every transition that a classic group may make, each with the shortest story that ends in it."""

import pytest
from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_states import TRANSITIONS, GroupState

from tests.unit.broker.coordinator.story import tell

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState

JOINED = "a joins; b joins; 6 s"
SHARED = f"{JOINED}; a syncs a=A b=B"
STORIES = [
    (EMPTY, PREPARING, "a joins"),
    (EMPTY, PREPARING, "x commits t-0 1; a joins"),
    (EMPTY, DEAD, "x commits t-0 1; 7 days; expire"),
    (EMPTY, DEAD, "x commits t-0 1; delete group"),
    (EMPTY, DEAD, "x commits t-0 1; log moves away"),
    (PREPARING, COMPLETING, JOINED),
    (PREPARING, EMPTY, "a joins; a leaves; 3 s"),
    (PREPARING, EMPTY, f"{SHARED}; a leaves; b leaves"),
    (PREPARING, EMPTY, f"{SHARED}; 10 s"),
    (PREPARING, DEAD, "a joins; log moves away"),
    (COMPLETING, STABLE, SHARED),
    (COMPLETING, PREPARING, f"{JOINED}; c joins"),
    (COMPLETING, PREPARING, f"{JOINED}; b joins topics=u"),
    (COMPLETING, PREPARING, f"{JOINED}; b leaves"),
    (COMPLETING, PREPARING, f"{JOINED}; 9 s; a beats; 1 s"),
    (COMPLETING, PREPARING, f"{JOINED}; log refuses NOT_ENOUGH_REPLICAS; a syncs a=A b=B"),
    (COMPLETING, DEAD, f"{JOINED}; log moves away"),
    (STABLE, PREPARING, f"{SHARED}; c joins"),
    (STABLE, PREPARING, f"{SHARED}; b syncs; a joins"),
    (STABLE, PREPARING, f"{SHARED}; a joins; 100 ms"),
    (STABLE, PREPARING, f"{SHARED}; b joins topics=u"),
    (STABLE, PREPARING, f"{SHARED}; b leaves"),
    (STABLE, PREPARING, f"{SHARED}; 9 s; a beats; 1 s"),
    (STABLE, DEAD, f"{SHARED}; log moves away"),
]


@pytest.mark.parametrize(("before", "after", "story"), STORIES)
def test_a_story_ends_in_its_transition(
    before: GroupState, after: GroupState, story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[GroupState, GroupState]] = []
    become = Group.become

    def noted(group: Group, state: GroupState, now_ms: int) -> None:
        seen.append((group.state, state))
        become(group, state, now_ms)

    monkeypatch.setattr(Group, "become", noted)
    tell(story)
    assert seen[-1] == (before, after)


def test_no_transition_is_without_a_story() -> None:
    told = {(before, after) for before, after, _ in STORIES}
    assert told == {(before, after) for before, many in TRANSITIONS.items() for after in many}


@pytest.mark.parametrize("before", GroupState)
def test_no_other_transition_is_made(before: GroupState) -> None:
    for after in set(GroupState) - TRANSITIONS[before]:
        group = Group("g", 0)
        group.state = before
        with pytest.raises(AssertionError, match="cannot become"):
            group.become(after, 0)
