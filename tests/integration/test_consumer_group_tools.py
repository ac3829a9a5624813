"""Kafka's own tools on our groups of the consumer protocol, and the records beside Kafka's."""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.broker.coordinator.consumer_records import GroupRecords, HoldingRecord, TargetRecord

from scripts.parts import KAFKA_ON_KRAFT
from tests.behaviours.consumer_asking import Consumer as RawConsumer
from tests.behaviours.group_asking import Member as RawMember
from tests.integration.group_party import Party
from tests.integration.group_tools import GROUPS, formatted, read_records, rows_of, tool
from tests.support.java import java_tool
from tests.support.kafka import KafkaBroker
from tests.support.odradek import OdradekBroker

pytestmark = pytest.mark.needs("java")

Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekBroker]:
    with OdradekBroker(tmp_path_factory.mktemp("odradek")) as started:
        yield started


@pytest.fixture
def party(broker: OdradekBroker, fresh: Fresh) -> Iterator[Party]:
    with Party(broker.bootstrap, fresh("tools"), partitions=2) as made:
        yield made


def test_consumer_groups_shows_a_group_of_the_consumer_protocol(party: Party) -> None:
    member = party.join("confluent-consumer", "uniform")
    party.wait_shared([member], each=2)
    party.send(2)
    party.wait_all_read()
    of_group = ("--group", party.group)

    def groups(*args: str) -> str:
        return tool(KAFKA_ON_KRAFT, GROUPS, party.bootstrap, *args)

    party.wait(lambda: party.committed() == {0: 1, 1: 1}, "what was read is committed")
    offsets = {row[2]: row[3:6] for row in rows_of(groups("--describe", *of_group), party.group)}
    assert offsets == {"0": ["1", "1", "0"], "1": ["1", "1", "0"]}
    (state,) = rows_of(groups("--describe", "--state", "--verbose", *of_group), party.group)
    # Coordinator (two words), assignor, state, epoch of the group, of its target, members.
    assert state[-5:] == ["uniform", "Stable", "1", "1", "1"]
    (shown,) = rows_of(groups("--describe", "--members", "--verbose", *of_group), party.group)
    assert "/127.0.0.1" in shown
    assert f"{party.topic}:0,1" in shown
    typed = rows_of(groups("--list", "--type", "consumer", "--state"), party.group)
    assert typed[0][1:] == ["Consumer", "Stable"]
    refused = java_tool(
        KAFKA_ON_KRAFT, GROUPS, "--bootstrap-server", party.bootstrap, "--delete", *of_group
    )
    assert "not empty" in (refused.stdout + refused.stderr).lower()
    member.leave()
    groups("--delete", *of_group)
    assert party.group not in groups("--list").split()


def test_kafkas_formatters_pass_over_records_of_the_consumer_protocol(party: Party) -> None:
    """That of Kafka 3.9 for groups does not, whoever wrote the records."""
    member = party.join("confluent-consumer", "uniform")
    party.wait_shared([member], each=2)
    party.send(2)
    party.wait_all_read()
    member.leave()
    assert formatted(party, KAFKA_ON_KRAFT, "GroupMetadataMessageFormatter") == []
    offsets = formatted(party, KAFKA_ON_KRAFT, "OffsetsMessageFormatter")
    assert {record["key"]["data"]["partition"] for record in offsets} == {0, 1}


def test_kafkas_log_dump_reads_every_kind_of_record(tmp_path: Path, fresh: Fresh) -> None:
    group = fresh("dump")
    with OdradekBroker(tmp_path) as broker, Party(broker.bootstrap, group, partitions=2) as party:
        await_coordinator(broker.port, group)
        with RawConsumer(broker.port, group, "a") as a:
            a.join(pattern=f"{group}-[a-z]+")
            party.wait(lambda: bool(a.beat() and a.held), "the pattern is resolved")
            assert a.leave() == 0
        party.admin.delete_consumer_groups([group])[group].result()
    logs = tmp_path.glob("__consumer_offsets-*/*.log")
    files = ",".join(str(log) for log in logs if log.stat().st_size)
    dumped = java_tool(
        KAFKA_ON_KRAFT, "kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", files
    ).stdout
    kinds = {
        int(kind)
        for kind, name in re.findall(r'key: {"type":"(\d+)","data":{"groupId":"([^"]+)"', dumped)
        if name == group
    }
    assert kinds == {3, 4, 5, 6, 7, 8, 16}
    assert f'"topics":["{group}-topic"]' in dumped


# Byte for byte ---------------------------------------------------------------------------------


def await_coordinator(port: int, group: str) -> None:
    """Wait until the group's topic is known to the coordinator, for which it must be there."""
    with RawMember(port, group) as somebody:
        somebody.find()
    for number in itertools.count():
        with RawConsumer(port, f"{group}-{number}", "probe") as probe:
            probe.join(f"{group}-topic")
            if probe.held:
                return


def live_in_a_consumer_group(bootstrap: str, group: str) -> None:
    port = int(bootstrap.rpartition(":")[2])
    with (
        Party(bootstrap, group, partitions=2) as party,
        RawConsumer(port, group, "a") as a,
        RawConsumer(port, group, "b", instance="i") as b,
        RawConsumer(port, group, "c", instance="i") as c,
    ):
        await_coordinator(port, group)
        assert a.join(party.topic, rack_id="r").error_code == 0
        assert b.join(party.topic, server_assignor="range").error_code == 0
        a.settle()
        b.settle()
        assert b.send(-2).error_code == 0
        assert c.join(party.topic).error_code == 0
        assert c.leave() == a.leave() == 0
        party.admin.delete_consumer_groups([group])[group].result()


def without_what_differs(key: bytes, value: bytes | None) -> bytes | None:
    """A topic has another id in each cluster, and its hash is each broker's own."""
    if value is None or key[:2] not in (b"\0\3", b"\0\7", b"\0\x08"):
        return value
    if key[:2] == b"\0\3":
        return value[:6]
    found = GroupRecords().decode(key, value)
    assert isinstance(found, TargetRecord | HoldingRecord)
    for each in topics_of(found):
        each.topic_id = bytes(16)
    return GroupRecords().encode(found)[1]


def topics_of(record: TargetRecord | HoldingRecord) -> list[Any]:
    assert record.value is not None
    if isinstance(record, TargetRecord):
        return [*record.value.topic_partitions]
    return [*record.value.assigned_partitions, *record.value.partitions_pending_revocation]


def test_our_records_of_consumer_groups_are_kafkas(
    broker: OdradekBroker, kafka_on_kraft: KafkaBroker, fresh: Fresh
) -> None:
    group = fresh("modern")
    found = []
    for bootstrap in (broker.bootstrap, kafka_on_kraft.bootstrap):
        live_in_a_consumer_group(bootstrap, group)
        found.append(
            [
                (key, without_what_differs(key, value))
                for key, value in read_records(bootstrap, group)
                if group.encode() + b"-" not in key
            ]
        )
    ours, theirs = found
    assert [key.hex() for key, _ in ours] == [key.hex() for key, _ in theirs]
    assert ours == theirs
