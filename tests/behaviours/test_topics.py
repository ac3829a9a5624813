"""CreateTopics, CreatePartitions and DeleteTopics, as clients depend on them."""

from collections.abc import Mapping, Sequence

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from odradek.protocol.types import random_id

from tests.behaviours.asking import Asker, batch, until
from tests.behaviours.bad_input import ILLEGAL_NAMES


def wish(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    assignments: Mapping[int, list[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def create(
    asker: Asker, *topics: CreatableTopic, validate_only: bool = False, version: int = 7
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(
        topics=list(topics), timeout_ms=10_000, validate_only=validate_only
    )
    return asker.ask(request, version).topics


def error_of(asker: Asker, topic: CreatableTopic) -> int:
    return create(asker, topic)[0].error_code


def exists(asker: Asker, name: str) -> bool:
    return asker.metadata([name]).topics[0].error_code == 0


def broker_id(asker: Asker) -> int:
    return asker.metadata([]).controller_id


def test_a_created_topic_is_described_in_the_answer(asker: Asker, name: str) -> None:
    (result,) = create(asker, wish(name, 3, configs={"retention.ms": "5000"}))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    configs = {config.name: config for config in result.configs}
    assert configs["retention.ms"].value == "5000"
    assert configs["retention.ms"].config_source == 1
    assert configs["cleanup.policy"].value == "delete"
    metadata = asker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    assert metadata.topics[0].topic_id == result.topic_id


def test_minus_one_asks_for_the_brokers_defaults(asker: Asker, name: str) -> None:
    (result,) = create(asker, wish(name, -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 1)


def test_a_topic_that_exists_is_not_created_again(asker: Asker, topic: str) -> None:
    assert error_of(asker, wish(topic)) == Errors.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("partitions", "factor", "error"),
    [
        (0, 1, Errors.INVALID_PARTITIONS),
        (-2, 1, Errors.INVALID_PARTITIONS),
        (1, 0, Errors.INVALID_REPLICATION_FACTOR),
        (1, 2, Errors.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_numbers_are_refused(
    asker: Asker, name: str, partitions: int, factor: int, error: Errors
) -> None:
    assert error_of(asker, wish(name, partitions, factor)) == error
    assert not exists(asker, name)


# Kafka would begin to make them.
@pytest.mark.odradek_only
def test_a_million_partitions_are_refused_before_one_is_made(asker: Asker, name: str) -> None:
    assert error_of(asker, wish(name, 1_000_000)) == Errors.POLICY_VIOLATION
    assert not exists(asker, name)


@pytest.mark.parametrize("illegal", ILLEGAL_NAMES, ids=repr)
def test_illegal_names_are_refused(asker: Asker, illegal: str) -> None:
    assert error_of(asker, wish(illegal)) == Errors.INVALID_TOPIC_EXCEPTION


def test_dots_and_underscores_collide(asker: Asker, name: str) -> None:
    flat = name.replace(".", "_")
    create(asker, wish(f"{flat}.x"))
    assert error_of(asker, wish(f"{flat}_x")) == Errors.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    "configs",
    [{"no.such.setting": "1"}, {"retention.ms": "soon"}, {"cleanup.policy": "burn"}],
)
def test_bad_settings_are_refused(asker: Asker, name: str, configs: dict[str, str]) -> None:
    assert error_of(asker, wish(name, configs=configs)) == Errors.INVALID_CONFIG
    assert not exists(asker, name)


def test_a_topic_named_twice_is_refused(asker: Asker, name: str) -> None:
    results = create(asker, wish(name), wish(name))
    assert {result.error_code for result in results} == {Errors.INVALID_REQUEST}
    assert not exists(asker, name)


def test_counts_and_replicas_together_are_refused(asker: Asker, name: str) -> None:
    replicas = {0: [broker_id(asker)]}
    assert error_of(asker, wish(name, 1, 1, assignments=replicas)) == Errors.INVALID_REQUEST


def test_replicas_may_be_given(asker: Asker, name: str) -> None:
    here = broker_id(asker)
    (result,) = create(asker, wish(name, -1, -1, assignments={0: [here], 1: [here]}))
    assert (result.error_code, result.num_partitions) == (0, 2)


@pytest.mark.parametrize("indexes", [[0, 2], [1]])
def test_gaps_in_given_partitions_are_refused(
    asker: Asker, name: str, indexes: Sequence[int]
) -> None:
    here = broker_id(asker)
    assigned = {index: [here] for index in indexes}
    error = error_of(asker, wish(name, -1, -1, assignments=assigned))
    assert error == Errors.INVALID_REPLICA_ASSIGNMENT


def test_a_replica_listed_twice_is_refused(asker: Asker, name: str) -> None:
    here = broker_id(asker)
    error = error_of(asker, wish(name, -1, -1, assignments={0: [here, here]}))
    assert error == Errors.INVALID_REPLICA_ASSIGNMENT


def test_validate_only_creates_nothing(asker: Asker, name: str) -> None:
    (fine,) = create(asker, wish(name), validate_only=True)
    assert fine.error_code == 0
    (refused,) = create(asker, wish(name, 0), validate_only=True)
    assert refused.error_code == Errors.INVALID_PARTITIONS
    assert not exists(asker, name)


# More partitions ----------------------------------------------------------------------------


def grow(
    asker: Asker,
    name: str,
    count: int,
    *,
    assignments: Sequence[list[int]] | None = None,
    validate_only: bool = False,
) -> CreatePartitionsTopicResult:
    given = None
    if assignments is not None:
        given = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=given)],
        timeout_ms=10_000,
        validate_only=validate_only,
    )
    return asker.ask(request, 1).results[0]


def partitions_of(asker: Asker, name: str) -> int:
    return len(asker.metadata([name]).topics[0].partitions)


def test_a_topic_can_grow(asker: Asker, topic: str) -> None:
    assert grow(asker, topic, 3).error_code == 0
    until(lambda: partitions_of(asker, topic) == 3, "it has three partitions")
    assert grow(asker, topic, 4, validate_only=True).error_code == 0
    assert partitions_of(asker, topic) == 3


@pytest.mark.odradek_only
def test_a_topic_cannot_grow_to_a_million_partitions(asker: Asker, topic: str) -> None:
    assert grow(asker, topic, 1_000_000).error_code == Errors.POLICY_VIOLATION
    assert partitions_of(asker, topic) == 1


@pytest.mark.parametrize("count", [0, 1, -1])
def test_a_topic_cannot_shrink_or_stay(asker: Asker, topic: str, count: int) -> None:
    assert grow(asker, topic, count).error_code == Errors.INVALID_PARTITIONS


def test_growth_of_nothing_is_unknown(asker: Asker, name: str) -> None:
    assert grow(asker, name, 2).error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_growth_with_wrong_replicas_is_refused(asker: Asker, topic: str) -> None:
    here = broker_id(asker)
    wrong_count = grow(asker, topic, 3, assignments=[[here]])
    assert wrong_count.error_code == Errors.INVALID_REPLICA_ASSIGNMENT
    stranger = grow(asker, topic, 2, assignments=[[here + 50]])
    assert stranger.error_code == Errors.INVALID_REPLICA_ASSIGNMENT


# Deletion -----------------------------------------------------------------------------------


def test_a_deleted_topic_goes_and_its_name_is_free_again(asker: Asker, topic: str) -> None:
    asker.produce(topic, batch())
    answer = asker.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 4)
    assert [(r.name, r.error_code) for r in answer.responses] == [(topic, 0)]
    until(lambda: not exists(asker, topic), "it is gone")
    until(lambda: asker.create(topic).error_code != Errors.TOPIC_ALREADY_EXISTS, "its name is free")
    assert asker.list_offset(topic, -1).offset == 0


def test_deleting_what_is_not_there(asker: Asker, name: str) -> None:
    answer = asker.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 4)
    assert answer.responses[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    state = DeleteTopicState(name=None, topic_id=random_id())
    by_id = asker.ask(DeleteTopicsRequest(topics=[state], timeout_ms=1000), 6)
    assert by_id.responses[0].error_code == Errors.UNKNOWN_TOPIC_ID


def test_a_topic_can_be_deleted_by_id(asker: Asker, name: str) -> None:
    (made,) = create(asker, wish(name))
    state = DeleteTopicState(name=None, topic_id=made.topic_id)
    answer = asker.ask(DeleteTopicsRequest(topics=[state], timeout_ms=10_000), 6)
    assert [(r.name, r.error_code) for r in answer.responses] == [(name, 0)]
