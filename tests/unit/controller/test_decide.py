"""Leaders, in-sync replicas and moves, told as stories."""

from dataclasses import replace

import pytest
from odradek.controller import decide, leadership, reassignment
from odradek.controller.decide import Membership, Stop, Terms
from odradek.controller.isr_changes import Granted, IsrChange, judge
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition

from tests.unit.controller.transcript import World, broker, tell

T0 = TopicPartition("t", 0)


def world_after(story: str) -> World:
    world = World(Terms(controller_epoch=1))
    for step in story.split(";"):
        world.step(step.strip())
    return world


def test_a_new_partition_is_led_by_its_first_live_replica():
    assert tell("brokers 1 2; topic t 3,1,2 2,1") == (
        "t-0 leader 1 epoch 0 isr 1,2, t-1 leader 2 epoch 0 isr 2,1"
    )


def test_a_partition_without_live_replicas_waits_for_one():
    assert tell("brokers 1; topic t 2,3; 3 returns; 2 returns") == (
        "- / t-0 leader 3 epoch 0 isr 3 / -"
    )


def test_a_dead_leader_is_succeeded_by_an_in_sync_replica():
    assert tell("brokers 1 2 3; topic t 1,2,3; 1 dies; 2 dies") == (
        "t-0 leader 1 epoch 0 isr 1,2,3 / t-0 leader 2 epoch 1 isr 2,3 / t-0 leader 3 epoch 2 isr 3"
    )


def test_a_dead_follower_leaves_the_isr_under_a_new_epoch():
    assert tell("brokers 1 2 3; topic t 1,2,3; 3 dies") == (
        "t-0 leader 1 epoch 0 isr 1,2,3 / t-0 leader 1 epoch 1 isr 1,2"
    )


def test_the_last_in_sync_replica_stays_listed_and_alone_may_lead_again():
    assert tell("brokers 1 2; topic t 1,2; 2 dies; 1 dies; 2 returns; 1 returns") == (
        "t-0 leader 1 epoch 0 isr 1,2 / t-0 leader 1 epoch 1 isr 1 / t-0 leader none epoch 2 isr 1"
        " / - / t-0 leader 1 epoch 3 isr 1"
    )


def test_replicas_that_die_together_all_stay_in_the_isr():
    assert tell("brokers 1 2 3; topic t 1,2; 1,2 die; 2 returns") == (
        "t-0 leader 1 epoch 0 isr 1,2 / t-0 leader none epoch 1 isr 1,2"
        " / t-0 leader 2 epoch 2 isr 2"
    )


def test_an_unclean_leader_is_elected_only_where_the_topic_allows_it():
    story = "brokers 1 2; topic t 1,2; 2 dies; 1 dies; 2 returns"
    assert tell(story).endswith("/ -")
    allowed = "; config t unclean.leader.election.enable true"
    assert tell(story + allowed).endswith("t-0 leader 2 epoch 3 isr 2 recovering")
    by_default = Terms(controller_epoch=1, unclean_by_default=True)
    assert tell(story, by_default).endswith("t-0 leader 2 epoch 3 isr 2 recovering")


@pytest.mark.parametrize(
    ("returned", "leader", "isr"),
    [
        ({2}, 1, (1, 3)),
        ({1}, 2, (2, 3)),
        ({1, 2}, 3, (3,)),
        # Nobody stayed: they are all there is, but in a new epoch.
        ({1, 2, 3}, 1, (1, 2, 3)),
    ],
)
def test_members_that_came_back_unseen_are_as_good_as_gone(
    returned: set[int], leader: int, isr: tuple[int, ...]
):
    world = world_after("brokers 1 2 3; topic t 1,2,3")
    image = replace(world.image, returned={T0: frozenset(returned)})
    decision = decide.take_office(image, world.terms)
    state = decision.plan.states[T0]
    assert (state.leader, state.isr, state.leader_epoch) == (leader, isr, 1)
    assert not decision.image.returned


def test_a_lone_replica_that_came_back_unseen_goes_on_as_it_was():
    world = world_after("brokers 1; topic t 1")
    image = replace(world.image, returned={T0: frozenset({1})})
    assert not decide.take_office(image, world.terms).plan.states


def test_a_bounce_within_the_session_is_death_then_birth():
    """Same id, new broker epoch: the old life's place in the ISR is not inherited."""
    assert tell("brokers 1 2; topic t 1,2; 1 bounces; isr t-0 2,1") == (
        "t-0 leader 1 epoch 0 isr 1,2 / t-0 leader 2 epoch 1 isr 2 / t-0 leader 2 epoch 1 isr 2,1"
    )
    assert tell("brokers 1; topic t 1; 1 bounces") == (
        "t-0 leader 1 epoch 0 isr 1 / t-0 leader none epoch 1 isr 1, t-0 leader 1 epoch 2 isr 1"
    )


def test_membership_tells_bounces_from_moves():
    before = {1: broker(1, 10), 2: broker(2, 11), 3: broker(3, 12)}
    now = {1: broker(1, 20), 2: broker(2, 11, rack="r"), 4: broker(4, 21)}
    change = Membership.between(before, now)
    assert (change.left, change.came, change.moved) == ({1, 3}, {1, 4}, {2})


def test_a_controlled_shutdown_moves_leaders_and_empties_the_isr():
    assert tell("brokers 1 2 3; topic t 1,2,3 2,3,1 1; 1 shuts down") == (
        "t-0 leader 1 epoch 0 isr 1,2,3, t-1 leader 2 epoch 0 isr 2,3,1, t-2 leader 1 epoch 0 isr 1"
        " / t-0 leader 2 epoch 1 isr 2,3, t-1 leader 2 epoch 1 isr 2,3, stop t-1 on 1"
    )


def test_a_controlled_shutdown_reports_what_nobody_else_can_lead():
    world = world_after("brokers 1 2; topic t 1,2 1; isr t-0 1; 1 shuts down")
    assert decide.still_led_by(world.image, 1) == [T0]


def test_a_stopping_broker_is_given_nothing_new():
    story = "brokers 1 2 3; topic t 1,2,3; 2 shuts down; 1 dies"
    assert tell(story).endswith("t-0 leader 3 epoch 2 isr 3")
    assert tell("brokers 1 2; topic t 1,2; 2 shuts down; isr t-0 1,2").endswith(
        "INELIGIBLE_REPLICA"
    )
    story = "brokers 1 2; topic t 1,2; 2 shuts down; 2 bounces; isr t-0 1,2"
    assert tell(story).endswith("t-0 leader 1 epoch 1 isr 1,2")


def test_a_failed_directory_is_like_a_dead_replica():
    assert tell("brokers 1 2; topic t 1,2 1,2; 1 loses t-0; 1 bounces; isr t-0 2,1") == (
        "t-0 leader 1 epoch 0 isr 1,2, t-1 leader 1 epoch 0 isr 1,2"
        " / t-0 leader 2 epoch 1 isr 2"
        " / t-1 leader 2 epoch 1 isr 2"
        " / t-0 leader 2 epoch 1 isr 2,1"
    )


def test_preferred_leaders_are_elected_when_in_sync():
    story = "brokers 1 2; topic t 1,2; 1 dies; 1 returns; elect preferred t-0"
    assert tell(story).endswith("PREFERRED_LEADER_NOT_AVAILABLE")
    story = "brokers 1 2; topic t 1,2; 1 dies; 1 returns; isr t-0 2,1; elect preferred t-0"
    assert tell(story).endswith("t-0 leader 1 epoch 2 isr 2,1")
    assert tell(story + "; elect preferred t-0").endswith("ELECTION_NOT_NEEDED")
    assert tell("brokers 1; topic t 1; elect preferred u-0").endswith("UNKNOWN_TOPIC_OR_PARTITION")


def test_unclean_election_on_request_needs_an_offline_partition():
    story = "brokers 1 2; topic t 1,2; elect unclean t-0; 2 dies; 1 dies; elect unclean t-0"
    assert "ELECTION_NOT_NEEDED" in tell(story)
    assert tell(story).endswith("ELIGIBLE_LEADERS_NOT_AVAILABLE")
    assert tell(story + "; 2 returns; elect unclean t-0").endswith(
        "leader 2 epoch 3 isr 2 recovering"
    )


def test_a_move_adds_then_removes():
    assert tell("brokers 1 2 3 4; topic t 1,2; move t-0 3,4; isr t-0 1,2,3; isr t-0 1,2,3,4") == (
        "t-0 leader 1 epoch 0 isr 1,2"
        " / t-0 leader 1 epoch 1 isr 1,2, t-0 replicas 3,4,1,2 +3,4 -1,2"
        " / t-0 leader 1 epoch 1 isr 1,2,3"
        " / t-0 leader 1 epoch 1 isr 1,2,3,4,"
        " t-0 leader 3 epoch 2 isr 3,4, stop t-0 on 1 and delete, stop t-0 on 2 and delete"
        "t-0 replicas 3,4"
    )


def test_a_move_keeps_a_leader_that_stays():
    assert tell("brokers 1 2 3; topic t 1,2; move t-0 1,3; isr t-0 1,2,3").endswith(
        "t-0 leader 1 epoch 2 isr 1,3, stop t-0 on 2 and deletet-0 replicas 1,3"
    )


def test_a_move_can_be_cancelled():
    assert tell("brokers 1 2 3; topic t 1,2; move t-0 3; isr t-0 1,2; cancel t-0").endswith(
        "t-0 leader 1 epoch 2 isr 1,2, stop t-0 on 3 and delete, t-0 replicas 1,2"
    )


def test_a_move_can_be_redirected():
    assert tell("brokers 1 2 3 4; topic t 1,2; move t-0 1,3; move t-0 1,4").endswith(
        "t-0 leader 1 epoch 2 isr 1,2, stop t-0 on 3 and delete, t-0 replicas 1,4,2 +4 -2"
    )


def test_replicas_can_be_reordered_without_moving():
    assert tell("brokers 1 2; topic t 1,2; move t-0 2,1").endswith(
        "t-0 leader 1 epoch 1 isr 1,2, t-0 replicas 2,1"
    )


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ((), Errors.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), Errors.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), Errors.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), Errors.INVALID_REPLICA_ASSIGNMENT),
        (None, Errors.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_a_move_that_cannot_be_is_refused(wanted, error):
    world = world_after("brokers 1 2; topic t 1,2")
    with pytest.raises(KafkaError) as refused:
        reassignment.check(world.image, T0, wanted)
    assert refused.value.error is error


def test_a_move_that_leaves_nobody_in_sync_is_refused():
    world = world_after("brokers 1 2 3; topic t 1; move t-0 2,3; isr t-0 1,2; 1 dies")
    assert world.image.states[T0].isr == (2,)
    with pytest.raises(KafkaError, match="in-sync"):
        reassignment.check(world.image, T0, None)


def test_a_new_controller_settles_what_the_old_one_left_and_tells_everyone():
    world = world_after("brokers 1 2; topic t 1,2; 1 dies; new controller")
    assert world.plans[-1].states == {}
    assert world.plans[-1].welcome == {2}
    assert world.plans[-1].members_changed


def test_nothing_is_planned_twice():
    world = world_after("brokers 1 2 3; topic t 1,2,3; 1 dies; 3 shuts down; 2 loses t-0")
    assert decide.settle(world.image, world.terms).is_empty


def test_a_topic_being_deleted_is_not_revived():
    world = world_after("brokers 1 2; topic t 1,2")
    decision = decide.delete_topics(world.image, {"t"})
    assert decision.plan.stop == (Stop(T0, 1, True), Stop(T0, 2, True))
    assert decision.plan.vanishing == {"t"}
    assert decide.brokers_left(decision.image, {1}, world.terms).plan.states == {}


def test_preferred_leaders_return_when_too_many_are_away():
    topic = "topic t " + " ".join(["1,2"] * 10)
    world = world_after(f"brokers 1 2; {topic}; 1 dies; 1 returns; isr t-0 2,1; isr t-1 2,1")
    assert leadership.imbalanced(world.image, 10) == [T0, TopicPartition("t", 1)]
    assert leadership.imbalanced(world.image, 100) == []


class TestIsrChanges:
    """AlterPartition: each rule of `judge`, from a partition led by 1 with isr 1,2 of 1,2,3."""

    def ask(self, **changes: object) -> Granted | Errors:
        world = world_after("brokers 1 2 3 4; topic t 1,2,3; isr t-0 1,2")
        state = world.image.states[T0]
        members = {b: world.image.brokers[b].epoch for b in (1, 2, 3)}
        asked = IsrChange(T0, 1, state.leader_epoch, state.partition_epoch, members)
        return judge(world.image, replace(asked, **changes), world.terms)

    def test_a_live_replica_is_let_in(self):
        granted = self.ask()
        assert isinstance(granted, Granted)
        assert (granted.state.isr, granted.state.leader_epoch, granted.is_done) == (
            (1, 2, 3),
            0,
            False,
        )

    def test_a_change_made_already_is_granted_again(self):
        """The first answer was lost: the retry carries the old partition epoch."""
        granted = self.ask(members={1: -1, 2: -1}, partition_epoch=0)
        assert isinstance(granted, Granted)
        assert granted.is_done

    def test_an_older_partition_epoch_is_a_conflict(self):
        assert self.ask(partition_epoch=0) is Errors.INVALID_UPDATE_VERSION

    def test_an_older_leader_is_fenced(self):
        assert self.ask(leader_epoch=-1) is Errors.FENCED_LEADER_EPOCH

    def test_a_broker_that_knows_more_is_sent_to_the_real_controller(self):
        assert self.ask(partition_epoch=9) is Errors.NOT_CONTROLLER
        assert self.ask(leader_epoch=9) is Errors.NOT_CONTROLLER

    def test_only_the_leader_may_ask(self):
        assert self.ask(leader=2) is Errors.INVALID_REQUEST

    def test_members_must_be_replicas_and_include_the_leader(self):
        assert self.ask(members={1: -1, 4: -1}) is Errors.INVALID_REQUEST
        assert self.ask(members={2: -1, 3: -1}) is Errors.INVALID_REQUEST
        assert self.ask(members={}) is Errors.INVALID_REQUEST

    def test_a_member_of_an_earlier_life_is_not_let_in(self):
        """It restarted, perhaps with an empty disk, after the leader had seen it catch up."""
        assert self.ask(members={1: -1, 2: -1, 3: 7}) is Errors.INELIGIBLE_REPLICA

    def test_a_dead_member_is_not_let_in(self):
        world = world_after("brokers 1 2; topic t 1,2,3")
        state = world.image.states[T0]
        change = IsrChange(T0, 1, 0, state.partition_epoch, {1: -1, 2: -1, 3: -1})
        assert judge(world.image, change, world.terms) is Errors.INELIGIBLE_REPLICA

    def test_unknown_partitions_are_told(self):
        gone = TopicPartition("t", 7)
        assert self.ask(where=gone) is Errors.UNKNOWN_TOPIC_OR_PARTITION

    def test_recovery_ends_and_never_begins_here(self):
        assert self.ask(members={1: -1}, recovering=True) is Errors.INVALID_REQUEST
        world = world_after(
            "brokers 1 2; topic t 1,2; 2 dies; 1 dies; 2 returns; elect unclean t-0"
        )
        state = world.image.states[T0]
        change = IsrChange(T0, 2, state.leader_epoch, state.partition_epoch, {2: -1})
        granted = judge(world.image, change, world.terms)
        assert isinstance(granted, Granted)
        assert not granted.state.recovering
