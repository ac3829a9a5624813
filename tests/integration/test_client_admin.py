"""Administering every broker the client must get along with."""

import asyncio
from collections.abc import Callable

import pytest
from odradek.client.admin import (
    Admin,
    Change,
    NewTopic,
    Operation,
    Resource,
    ResourceType,
    raise_failures,
)
from odradek.client.admin_cluster import Election
from odradek.client.consumer import Consumer
from odradek.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from odradek.client.producer import Producer
from odradek.client.retry import Backoff, until_done
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.partitions import ElectLeadersRequest
from odradek.protocol.settings import Source
from odradek.protocol.types import TopicPartition

from tests.integration.client_room import make_topic, require_api, take

Fresh = Callable[[str], str]
# How the brokers say it differs with their version.
REFUSED_LEVELS = {
    Errors.INVALID_REQUEST,
    Errors.INVALID_UPDATE_VERSION,
    Errors.FEATURE_UPDATE_FAILED,
}


async def fill(bootstrap: str, topic: str, count: int) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, timestamp_ms=1000 + number)


def code(result: object) -> Errors | None:
    return result.error if isinstance(result, KafkaError) else None


def test_topics_are_made_described_grown_and_deleted(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        name, placed = fresh("topic"), fresh("placed")
        async with Admin(bootstrap_servers=bootstrap) as admin:
            (broker,) = (await admin.describe_cluster()).nodes
            topics = [
                NewTopic(name, 3, 1, {"retention.ms": "60000"}),
                NewTopic(placed, replicas={0: [broker.id], 1: [broker.id]}),
                NewTopic("no/slashes", 1, 1),
            ]
            made = await admin.create_topics(topics)
            assert code(made["no/slashes"]) is Errors.INVALID_TOPIC_EXCEPTION
            again = await admin.create_topics([NewTopic(name, 1, 1)])
            assert code(again[name]) is Errors.TOPIC_ALREADY_EXISTS
            trial = fresh("trial")
            raise_failures(await admin.create_topics([NewTopic(trial, 1, 1)], validate_only=True))

            async def look() -> None:
                told = raise_failures(await admin.describe_topics([name, placed]))
                assert [told[name].partition_count, told[placed].partition_count] == [3, 2]

            await until_done(look, backoff=Backoff(20, 100, admin._cluster.random), timeout_s=30)
            listed = await admin.list_topics()
            assert {name, placed} <= set(listed)
            assert trial not in listed
            assert code((await admin.describe_topics([trial]))[trial]) is (
                Errors.UNKNOWN_TOPIC_OR_PARTITION
            )
            raise_failures(await admin.create_partitions({name: 5}))
            smaller = await admin.create_partitions({name: 2})
            assert code(smaller[name]) is Errors.INVALID_PARTITIONS
            raise_failures(await admin.delete_topics([name]))
            gone = await admin.delete_topics([fresh("missing")])
            assert [code(row) for row in gone.values()] == [Errors.UNKNOWN_TOPIC_OR_PARTITION]

    asyncio.run(run())


def test_settings_are_read_with_their_source_and_changed_one_by_one(
    bootstrap: str, fresh: Fresh
) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), retention_ms="60000")
        resource = Resource(ResourceType.TOPIC, topic)
        async with Admin(bootstrap_servers=bootstrap) as admin:

            async def setting(name: str) -> tuple[str | None, Source]:
                told = raise_failures(await admin.describe_configs([resource], names=[name]))
                entry = told[resource][name]
                return entry.value, entry.source

            assert await setting("retention.ms") == ("60000", Source.TOPIC)
            assert (await setting("max.message.bytes"))[1] is Source.DEFAULT
            changes = [
                Change("max.message.bytes", "5000"),
                Change("retention.ms", None, Operation.DELETE),
            ]
            raise_failures(await admin.alter_configs({resource: changes}))

            async def look() -> None:
                if await setting("max.message.bytes") != ("5000", Source.TOPIC):
                    raise KafkaError(Errors.REQUEST_TIMED_OUT, "not seen yet")

            await until_done(look, backoff=Backoff(20, 100, admin._cluster.random), timeout_s=30)
            assert (await setting("retention.ms"))[1] is Source.DEFAULT
            wrong = await admin.alter_configs({resource: [Change("retention.ms", "soon")]})
            assert code(wrong[resource]) is Errors.INVALID_CONFIG
            (broker,) = (await admin.describe_cluster()).nodes
            own = Resource(ResourceType.BROKER, str(broker.id))
            entries = raise_failures(await admin.describe_configs([own]))[own]
            assert entries["log.retention.hours"].value == "168"

    asyncio.run(run())


def test_records_are_found_and_deleted(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic, 20)
        async with Admin(bootstrap_servers=bootstrap) as admin:

            async def offset(timestamp: int) -> int:
                row = (await admin.list_offsets({partition: timestamp}))[partition]
                assert row is not None
                return row.offset

            asked = (EARLIEST, LATEST, MAX_TIMESTAMP, 1007)
            assert [await offset(which) for which in asked] == [0, 20, 19, 7]
            assert await admin.delete_records({partition: 5}) == {partition: 5}
            assert await offset(EARLIEST) == 5
            with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
                await admin.delete_records({partition: 500})

    asyncio.run(run())


def test_groups_are_listed_described_moved_and_deleted(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"), partitions=2)
        group = fresh("group")
        partition = TopicPartition(topic, 0)
        await fill(bootstrap, topic, 20)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            async with Consumer(
                bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
            ) as consumer:
                consumer.subscribe([topic])
                await take(consumer, 20)
                await consumer.commit()
                told = raise_failures(await admin.describe_groups([group]))[group]
                assert (told.state, told.assignor, len(told.members)) == ("Stable", "range", 1)
                assert set(told.members[0].assignment) == consumer.assignment()
                assert code((await admin.delete_groups([group]))[group]) is Errors.NON_EMPTY_GROUP
                assert group in {row.group_id for row in await admin.list_groups()}
            committed = await admin.list_group_offsets(group)
            assert sum(row.offset for row in committed.values()) == 20
            await admin.alter_group_offsets(group, {partition: OffsetAndMetadata(3)})
            assert (await admin.list_group_offsets(group, [partition]))[partition].offset == 3
            raise_failures(await admin.delete_group_offsets(group, [partition]))
            assert partition not in await admin.list_group_offsets(group)
            raise_failures(await admin.delete_groups([group]))
            assert group not in {row.group_id for row in await admin.list_groups()}

    asyncio.run(run())


def test_offsets_that_a_transaction_commits_are_waited_for_on_demand(
    bootstrap: str, fresh: Fresh
) -> None:
    async def run() -> None:
        topic, group = await make_topic(bootstrap, fresh("topic")), fresh("group")
        partition = TopicPartition(topic, 0)
        settings = {"bootstrap.servers": bootstrap, "transactional.id": fresh("id")}
        async with Producer(settings) as producer, Admin(bootstrap_servers=bootstrap) as admin:
            await producer.init_transactions()
            await producer.begin_transaction()
            offsets = {partition: OffsetAndMetadata(7)}
            await producer.send_offsets_to_transaction(offsets, GroupMetadata(group))
            assert not await admin.list_group_offsets(group, [partition])
            stable = admin.list_group_offsets(group, [partition], require_stable=True)
            waiting = asyncio.create_task(stable)
            done, _ = await asyncio.wait([waiting], timeout=0.3)
            assert not done
            await producer.commit_transaction()
            assert (await waiting)[partition].offset == 7

    asyncio.run(run())


def test_members_are_taken_out_of_their_group(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        group = fresh("group")
        async with Admin(bootstrap_servers=bootstrap) as admin:
            async with Consumer(
                bootstrap_servers=bootstrap, group_id=group, group_instance_id="static"
            ) as consumer:
                consumer.subscribe([topic])
                async with asyncio.timeout(30):
                    while not consumer.assignment():
                        await consumer.poll(0.1)
            (member,) = raise_failures(await admin.describe_groups([group]))[group].members
            raise_failures(await admin.remove_members(group, [member], reason="test"))
            assert raise_failures(await admin.describe_groups([group]))[group].members == ()

    asyncio.run(run())


def test_the_cluster_and_its_directories_are_described(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        await fill(bootstrap, topic, 20)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            cluster = await admin.describe_cluster()
            assert cluster.controller == cluster.nodes[0]
            assert cluster.cluster_id is not None
            assert len(cluster.cluster_id) == 22
            versions = (await admin.api_versions())[cluster.nodes[0].id]
            assert versions.newest(MetadataRequest) in (12, 13)
            (directory,) = (await admin.describe_log_dirs())[cluster.nodes[0].id]
            assert directory.replicas[TopicPartition(topic, 0)].size_bytes > 100

    asyncio.run(run())


def test_levels_of_features_are_read_and_checked_before_they_change(bootstrap: str) -> None:
    async def run() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            levels = await admin.finalized_features()
            if levels:
                same = dict([next(iter(levels.items()))])
                kept = await admin.update_features(same, validate_only=True)
                assert raise_failures(kept) == dict.fromkeys(same)
            with pytest.raises(KafkaError) as refused:
                raise_failures(await admin.update_features({"nobody.has": 1}, validate_only=True))
            assert refused.value.error in REFUSED_LEVELS
            assert await admin.finalized_features() == levels

    asyncio.run(run())


def test_elections_and_reassignments(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        await require_api(bootstrap, ElectLeadersRequest)
        topic = await make_topic(bootstrap, fresh("topic"))
        partition = TopicPartition(topic, 0)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            elected = await admin.elect_leaders(Election.PREFERRED, [partition])
            assert code(elected[partition]) is Errors.ELECTION_NOT_NEEDED
            assert await admin.list_reassignments() == {}
            cancelled = await admin.reassign_partitions({partition: None})
            assert code(cancelled[partition]) is Errors.NO_REASSIGNMENT_IN_PROGRESS
            wrong = await admin.reassign_partitions({partition: [77]})
            assert code(wrong[partition]) is Errors.INVALID_REPLICA_ASSIGNMENT

    asyncio.run(run())


def test_transactions_are_seen_and_ended_from_outside(bootstrap: str, fresh: Fresh) -> None:
    async def run() -> None:
        topic = await make_topic(bootstrap, fresh("topic"))
        partition = TopicPartition(topic, 0)
        name = fresh("transactional")
        async with (
            Admin(bootstrap_servers=bootstrap) as admin,
            Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer,
        ):
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"hangs")
            told = raise_failures(await admin.describe_transactions([name]))[name]
            assert (told.state, told.partitions) == ("Ongoing", (partition,))
            listed = {row.transactional_id: row.state for row in await admin.list_transactions()}
            assert listed[name] == "Ongoing"
            (known,) = (await admin.describe_producers([partition]))[partition]
            assert (known.producer_id, known.transaction_start) == (told.identity.producer_id, 0)
            fenced = await admin.fence_producer(name)
            assert fenced.epoch > told.identity.epoch
            with pytest.raises(KafkaError):
                await producer.commit_transaction()

    asyncio.run(run())
