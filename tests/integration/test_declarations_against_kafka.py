"""Our declarations against the definitions that Kafka generates its own serializers from.

Kafka 3.9 is the broker we stand in for, Kafka 4 the newest whose clients we serve. Where both
define a version of a message they must agree with us, but for what `RENAMED`, `RESHAPED` and
tagged fields that the newer added explain.
"""

from dataclasses import replace

import pytest
from odradek.protocol.registry import all_messages

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER, KAFKA_VERSIONS
from tests.support.definitions import Member, catalogue, declared

pytestmark = pytest.mark.needs(*(f"kafka-{version}" for version in KAFKA_VERSIONS))

# What the coordinators of share and streams groups keep to themselves: no Kafka on ZooKeeper ever
# writes it, and no client reads it.
FOREIGN = ("ShareGroup", "StreamsGroup")
FOREIGN_RECORDS = ("Key", "Value")

# Fields that Kafka renamed without changing how they travel; we use the newer name.
RENAMED = {
    ("VoteRequest", "candidate_epoch"): "replica_epoch",
    ("VoteRequest", "candidate_id"): "replica_id",
    ("VoteRequest", "candidate_directory_id"): "replica_directory_id",
}

# Versions that Kafka changed after 3.9 had shown a draft of them, switched off.
RESHAPED = {("ReadShareGroupStateSummaryResponse", 0)}


def test_no_message_and_no_version_of_kafka_is_missing() -> None:
    ours = {
        (message.__name__, version) for message in all_messages() for version in message.versions
    }
    theirs = {
        (name, version)
        for kafka in KAFKA_VERSIONS
        for name, version in catalogue(kafka)
        if not (name.startswith(FOREIGN) and name.endswith(FOREIGN_RECORDS))
    }
    assert sorted(theirs - ours) == [], "Kafka has messages that are not declared"
    assert sorted(ours - theirs) == [], "messages are declared that Kafka does not have"


@pytest.mark.parametrize("kafka", KAFKA_VERSIONS)
def test_the_same_versions_are_flexible(kafka: str) -> None:
    differing = [
        (message.__name__, version)
        for message in all_messages()
        for version in message.versions
        if (theirs := catalogue(kafka).get((message.__name__, version)))
        and theirs.flexible != (version in message.flexible)
    ]
    assert differing == []


def test_every_field_travels_as_in_kafka_4() -> None:
    assert _differences(KAFKA_ON_KRAFT) == []


def test_every_field_travels_as_in_kafka_3_9() -> None:
    assert _differences(KAFKA_ON_ZOOKEEPER) == []


def _differences(kafka: str) -> list[str]:
    found: list[str] = []
    for message in all_messages():
        for version in message.versions:
            name = message.__name__
            theirs = catalogue(kafka).get((name, version))
            if theirs is None or (kafka == KAFKA_ON_ZOOKEEPER and (name, version) in RESHAPED):
                continue
            members = _with_new_names(name, theirs.members)
            found += _compare(f"{name} v{version}", members, declared(message, version))
    return found


def _with_new_names(message: str, members: tuple[Member, ...]) -> tuple[Member, ...]:
    return tuple(
        replace(
            member,
            name=RENAMED.get((message, member.name), member.name),
            type=member.type
            if isinstance(member.type, str)
            else _with_new_names(message, member.type),
        )
        for member in members
    )


def _compare(where: str, theirs: tuple[Member, ...], ours: tuple[Member, ...]) -> list[str]:
    known = {member.name for member in theirs}
    # A newer Kafka may add a tagged field to a version that is out already.
    ours = tuple(member for member in ours if member.tag is None or member.name in known)
    if [member.name for member in theirs] != [member.name for member in ours]:
        return [f"{where}: Kafka has {[m.name for m in theirs]}, we {[m.name for m in ours]}"]
    found = []
    for their, our in zip(theirs, ours, strict=True):
        place = f"{where} {their.name}"
        if not isinstance(their.type, str) and not isinstance(our.type, str):
            found += _compare(place, their.type, our.type)
            their, our = replace(their, type="struct"), replace(our, type="struct")
        if _may_default_to_null(our):
            their = replace(their, default=None)
        if their != our:
            found.append(f"{place}: Kafka has {their}, we {our}")
    return found


def _may_default_to_null(ours: Member) -> bool:
    """Null says "nothing" better than an empty text, where a default never decides what travels."""
    return ours.default is None and ours.tag is None
