"""A topic is checked before anything is written, with Kafka's error codes."""

from random import Random

import pytest
from odradek.controller.image import Topic
from odradek.controller.topics import (
    Growth,
    NewTopic,
    TopicRules,
    check_name,
    plan_growth,
    plan_topic,
)
from odradek.controller.znodes import Assignment
from odradek.protocol.errors import Errors, KafkaError

RACKS = {1: None, 2: None, 3: None}


def plan(new: NewTopic, *, existing=(), rules=None, racks=RACKS):
    return plan_topic(
        new, existing=existing, racks=racks, rules=rules or TopicRules(), random=Random(1)
    )


def error_of(new: NewTopic, **world) -> Errors:
    with pytest.raises(KafkaError) as refused:
        plan(new, **world)
    return refused.value.error


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "-"])
def test_legal_names_pass(name):
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\0b", "é", "a b", "x" * 250, "a\n", "a:b", "ａ"]
)
def test_illegal_names_are_refused_whatever_else_is_asked(name):
    assert error_of(NewTopic(name)) is Errors.INVALID_TOPIC_EXCEPTION


def test_defaults_fill_what_is_not_given():
    rules = TopicRules(default_partitions=4, default_replication_factor=2)
    placed = plan(NewTopic("t"), rules=rules)
    assert len(placed) == 4
    assert {len(replicas) for replicas in placed.values()} == {2}


def test_given_replicas_are_taken_as_they_are():
    assert plan(NewTopic("t", assignments={1: (2, 3), 0: (1, 2)})) == {0: (1, 2), 1: (2, 3)}


def refuse_config(configs):
    if configs:
        raise KafkaError(Errors.INVALID_CONFIG)


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewTopic("t", partitions=0), Errors.INVALID_PARTITIONS),
        (NewTopic("t", partitions=-2), Errors.INVALID_PARTITIONS),
        (NewTopic("t", partitions=1_000_000), Errors.POLICY_VIOLATION),
        (NewTopic("t", replication_factor=0), Errors.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", replication_factor=4), Errors.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", partitions=1, assignments={0: (1,)}), Errors.INVALID_REQUEST),
        (NewTopic("t", replication_factor=1, assignments={0: (1,)}), Errors.INVALID_REQUEST),
        (NewTopic("t", assignments={1: (1,)}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: ()}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: (1, 1)}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: (1,), 1: (1, 2)}), Errors.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", configs={"a": None}), Errors.INVALID_CONFIG),
        (NewTopic("t", configs={"a": "b"}), Errors.INVALID_CONFIG),
        (NewTopic("old"), Errors.TOPIC_ALREADY_EXISTS),
        (NewTopic("a_b"), Errors.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_bad_topics_are_refused(new, error):
    rules = TopicRules(check_config=refuse_config)
    assert error_of(new, existing={"old", "a.b"}, rules=rules) is error


def test_a_new_topic_may_wait_for_brokers_that_are_not_there():
    assert plan(NewTopic("t", assignments={0: (9, 1)})) == {0: (9, 1)}


def test_without_brokers_there_are_no_topics():
    assert error_of(NewTopic("t"), racks={}) is Errors.INVALID_REPLICATION_FACTOR


TOPIC = Topic("t", bytes(16), {0: Assignment((2, 3)), 1: Assignment((3, 1))})


def test_growth_goes_on_in_the_same_circle():
    added = plan_growth(Growth("t", 4), TOPIC, racks=RACKS, rules=TopicRules())
    assert added == {2: (1, 3), 3: (2, 3)}


def test_growth_takes_given_replicas():
    growth = Growth("t", 3, [(1, 2)])
    assert plan_growth(growth, TOPIC, racks=RACKS, rules=TopicRules()) == {2: (1, 2)}


MOVING = Topic("t", bytes(16), {0: Assignment((2, 3), (2,))})


@pytest.mark.parametrize(
    ("growth", "topic", "error"),
    [
        (Growth("t", 2), TOPIC, Errors.INVALID_PARTITIONS),
        (Growth("t", 1), TOPIC, Errors.INVALID_PARTITIONS),
        (Growth("t", -1), TOPIC, Errors.INVALID_PARTITIONS),
        (Growth("t", 1_000_000), TOPIC, Errors.POLICY_VIOLATION),
        (Growth("t", 4, [(1, 2)]), TOPIC, Errors.INVALID_REPLICA_ASSIGNMENT),
        (Growth("t", 3, [(1,)]), TOPIC, Errors.INVALID_REPLICA_ASSIGNMENT),
        (Growth("t", 3, [(1, 1)]), TOPIC, Errors.INVALID_REPLICA_ASSIGNMENT),
        (Growth("t", 3, [(1, 9)]), TOPIC, Errors.INVALID_REPLICA_ASSIGNMENT),
        (Growth("t", 2), MOVING, Errors.REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_bad_growth_is_refused(growth, topic, error):
    with pytest.raises(KafkaError) as refused:
        plan_growth(growth, topic, racks=RACKS, rules=TopicRules())
    assert refused.value.error is error
