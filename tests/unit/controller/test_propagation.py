"""What brokers are told after a plan, in which order and in whose name."""

from dataclasses import replace

from odradek.controller import decide
from odradek.controller.decide import Plan, Stop
from odradek.controller.propagation import FULL, INCREMENTAL, Sender, announce
from odradek.protocol.messages.replicas import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from odradek.protocol.types import TopicPartition

from tests.unit.controller.test_decide import world_after

T0 = TopicPartition("t", 0)
SENDER = Sender(1, 7, "PLAINTEXT")
SHORT = {
    LeaderAndIsrRequest: "roles",
    UpdateMetadataRequest: "metadata",
    StopReplicaRequest: "stop",
}


def told(story: str, plan: Plan | None = None):
    """What the last step of a story makes the controller say, in order."""
    world = world_after(story)
    return announce(world.image, plan or world.plans[-1], SENDER)


def outline(requests) -> str:
    return " ".join(f"{broker}:{SHORT[type(request)]}" for broker, request in requests)


def leaders(request: UpdateMetadataRequest) -> dict[str, int]:
    return {
        f"{topic.topic_name}-{state.partition_index}": state.leader
        for topic in request.topic_states
        for state in topic.partition_states
    }


def test_roles_are_told_to_replicas_and_metadata_to_everyone():
    assert outline(told("brokers 1 2 3; topic t 1,2")) == (
        "1:roles 2:roles 1:metadata 2:metadata 3:metadata"
    )


def test_a_death_is_told_before_its_consequences():
    assert outline(told("brokers 1 2 3; topic t 1,2; 1 dies")) == (
        "2:metadata 3:metadata 2:roles 2:metadata 3:metadata"
    )


def test_a_newcomer_is_told_everything_and_the_others_who_came():
    requests = told("brokers 1 2; topic t 1,3; topic u 1; 3 returns")
    assert outline(requests) == "1:metadata 2:metadata 3:metadata 3:roles 3:metadata"
    everything, roles, again = [request for broker, request in requests if broker == 3]
    assert (everything.type, again.type) == (INCREMENTAL, FULL)
    assert again.topic_states == everything.topic_states
    assert roles.type == FULL
    assert [topic.topic_name for topic in roles.topic_states] == ["t"]
    assert [topic.topic_name for topic in everything.topic_states] == ["t", "u"]
    assert [topic.topic_name for topic in requests[0][1].topic_states] == []


def test_a_newcomer_leads_before_its_clients_hear_of_it():
    requests = told("brokers 1 2; topic t 3; topic u 1; 3 dies; 3 returns")
    first, roles, last = [request for broker, request in requests if broker == 3]
    assert leaders(first) == {"t-0": -1, "u-0": 1}
    assert [topic.topic_name for topic in roles.topic_states] == ["t"]
    assert leaders(last) == {"t-0": 3, "u-0": 1}


def test_a_newcomer_never_hears_of_fewer_partitions_than_there_are():
    """A client takes a partition that is missing for one that is gone."""
    requests = told("brokers 1 2; topic t 1 3 2; 3 dies; 3 returns")
    first, _, last = [request for broker, request in requests if broker == 3]
    assert leaders(first) == {"t-0": 1, "t-1": -1, "t-2": 2}
    assert leaders(last) == {"t-0": 1, "t-1": 3, "t-2": 2}


def test_an_isr_change_is_metadata_only():
    assert outline(told("brokers 1 2; topic t 1,2; isr t-0 1")) == "1:metadata 2:metadata"


def test_each_request_names_controller_epoch_and_the_life_it_is_meant_for():
    world = world_after("brokers 1 2; topic t 1,2")
    for broker, request in announce(world.image, world.plans[-1], SENDER):
        assert (request.controller_id, request.controller_epoch) == (1, 7)
        assert request.broker_epoch == world.image.brokers[broker].epoch


def test_a_role_says_all_that_a_replica_needs():
    ((_, request), *_) = told("brokers 1 2; topic t 2,1,3")
    (topic,) = request.topic_states
    (state,) = topic.partition_states
    assert (request.type, topic.topic_id) == (INCREMENTAL, b"t".ljust(16, b"\0"))
    assert (state.leader, state.leader_epoch, state.isr) == (2, 0, [2, 1])
    assert (state.replicas, state.partition_epoch, state.is_new) == ([2, 1, 3], 0, True)
    assert [(b.broker_id, b.host_name) for b in request.live_leaders] == [(2, "host2")]


def test_only_new_replicas_are_told_that_they_begin_empty():
    requests = dict(told("brokers 1 2 3; topic t 1,2; move t-0 1,3"))
    roles = dict(told("brokers 1 2 3; topic t 1,2; move t-0 1,3")[:3])
    assert requests.keys() == {1, 2, 3}
    flags = {b: r.topic_states[0].partition_states[0].is_new for b, r in roles.items()}
    assert flags == {1: False, 2: False, 3: True}


def test_metadata_lists_who_is_offline():
    requests = told("brokers 1 2; topic t 1,2,9; 2 loses t-0")
    (state,) = requests[-1][1].topic_states[0].partition_states
    assert state.offline_replicas == [2, 9]


def test_topics_being_deleted_have_a_leader_that_says_so():
    world = world_after("brokers 1 2; topic t 1,2")
    decision = decide.delete_topics(world.image, {"t"})
    requests = announce(decision.image, decision.plan, SENDER)
    assert outline(requests) == "1:metadata 2:metadata 1:stop 2:stop"
    (state,) = requests[0][1].topic_states[0].partition_states
    assert state.leader == -2
    (stop,) = requests[-1][1].topic_states[0].partition_states
    assert (stop.leader_epoch, stop.delete_partition) == (-2, True)


def test_a_broker_without_the_inter_broker_listener_is_no_reachable_leader():
    world = world_after("brokers 1 2; topic t 1,2")
    requests = announce(world.image, world.plans[-1], replace(SENDER, listener="OTHER"))
    assert requests[0][1].live_leaders == []


def test_nothing_is_said_to_brokers_that_are_gone():
    world = world_after("brokers 1; topic t 1,2")
    plan = Plan(stop=(Stop(T0, 2, delete=True),))
    assert announce(world.image, plan, SENDER) == []
