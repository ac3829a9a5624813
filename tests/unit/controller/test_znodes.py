"""Nodes hold exactly Kafka's JSON; anything else is refused, logged and skipped."""

import logging

import pytest
from odradek.controller import paths
from odradek.controller.fields import MAX_NODE_BYTES, BadNode, readable
from odradek.controller.znodes import (
    Assignment,
    BrokerRegistration,
    ConfigChange,
    ConfigNode,
    ControllerNode,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
    decode_cluster_id,
    decode_epoch,
    decode_features,
    decode_log_dir_event,
    decode_partitions,
    decode_reassignment,
    encode_cluster_id,
    encode_epoch,
    encode_features,
    encode_log_dir_event,
    encode_partitions,
    encode_reassignment,
)
from odradek.controller.znodes_security import (
    AclChange,
    AclEntry,
    DelegationToken,
    decode_acls,
    decode_literal_acl_change,
    encode_acls,
    encode_literal_acl_change,
)
from odradek.protocol.endpoints import Endpoint, SecurityProtocol
from odradek.protocol.types import NO_ID, TopicPartition, id_from_text

PLAINTEXT = SecurityProtocol.PLAINTEXT
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAKg"

# (value, its JSON) for every class of node that encodes itself.
NODES = [
    (
        ControllerNode(1, 1700000000000),
        b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}',
    ),
    (
        BrokerRegistration((Endpoint("LISTENER", PLAINTEXT, "h", 9092),), 17, rack="r1"),
        b'{"version":5,"host":"h","port":9092,"endpoints":["LISTENER://h:9092"],'
        b'"listener_security_protocol_map":{"LISTENER":"PLAINTEXT"},"jmx_port":-1,'
        b'"timestamp":"17","rack":"r1","features":{}}',
    ),
    (
        BrokerRegistration((Endpoint("OUT", SecurityProtocol.SASL_SSL, "::1", 9093),), 17),
        b'{"version":5,"host":null,"port":-1,"endpoints":["OUT://[::1]:9093"],'
        b'"listener_security_protocol_map":{"OUT":"SASL_SSL"},"jmx_port":-1,'
        b'"timestamp":"17","features":{}}',
    ),
    (
        TopicAssignment(id_from_text(TOPIC_ID), {0: Assignment((1, 2))}),
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAKg","partitions":{"0":[1,2]},'
        b'"adding_replicas":{},"removing_replicas":{}}',
    ),
    (
        TopicAssignment(id_from_text(TOPIC_ID), {0: Assignment((3, 1), (3,), (1,))}),
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAKg","partitions":{"0":[3,1]},'
        b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}',
    ),
    (
        PartitionState(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=1),
        b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,2]}',
    ),
    (
        PartitionState(leader=1, leader_epoch=3, isr=(1,), controller_epoch=1, recovering=True),
        b'{"version":1,"leader":1,"leader_epoch":3,"controller_epoch":1,"isr":[1],'
        b'"leader_recovery_state":1}',
    ),
    (ConfigNode({"k": "v"}), b'{"version":1,"config":{"k":"v"}}'),
    (ConfigChange("topics/T"), b'{"version":2,"entity_path":"topics/T"}'),
    (
        ProducerIdBlock(3, 0, 999),
        b'{"version":1,"broker":3,"block_start":"0","block_end":"999"}',
    ),
    (
        AclChange("TOPIC", "n", "PREFIXED"),
        b'{"version":1,"resourceType":"TOPIC","name":"n","patternType":"PREFIXED"}',
    ),
    (
        DelegationToken("id", "User:a", "User:b", ("User:c",), 1, 2, 3),
        b'{"version":3,"owner":"User:a","tokenRequester":"User:b","renewers":["User:c"],'
        b'"issueTimestamp":1,"maxTimestamp":2,"expiryTimestamp":3,"tokenId":"id"}',
    ),
]


@pytest.mark.parametrize(("value", "text"), NODES, ids=lambda x: type(x).__name__)
def test_a_node_is_written_and_read_as_kafka_does(value, text):
    assert value.encode() == text
    assert type(value).decode(text) == value


def test_plain_nodes_are_written_and_read_as_kafka_does():
    where = TopicPartition("T", 0)
    assert (encode_epoch(7), decode_epoch(b"7")) == (b"7", 7)
    assert encode_cluster_id("abc") == b'{"version":"1","id":"abc"}'
    assert decode_cluster_id(b'{"version":"1","id":"abc"}') == "abc"
    text = b'{"version":1,"partitions":[{"topic":"T","partition":0,"replicas":[1]}]}'
    assert encode_reassignment({where: (1,)}) == text
    assert decode_reassignment(text) == {where: (1,)}
    text = b'{"version":1,"partitions":[{"topic":"T","partition":0}]}'
    assert encode_partitions([where]) == text
    assert decode_partitions(text) == [where]
    assert encode_log_dir_event(4) == b'{"version":1,"broker":4,"event":1}'
    assert decode_log_dir_event(b'{"version":1,"broker":4,"event":1}') == 4
    assert encode_features({"f": 2}) == b'{"version":2,"status":1,"features":{"f":2}}'
    assert decode_features(b'{"version":2,"status":1,"features":{"f":2}}') == {"f": 2}
    assert decode_features(b'{"version":2,"status":0,"features":{"f":2}}') == {}
    text = (
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow",'
        b'"operation":"Read","host":"*"}]}'
    )
    assert encode_acls([AclEntry("User:a", "Allow", "Read")]) == text
    assert decode_acls(text) == [AclEntry("User:a", "Allow", "Read")]
    assert encode_literal_acl_change("TOPIC", "a:b") == b"TOPIC:a:b"
    assert decode_literal_acl_change(b"TOPIC:a:b") == ("TOPIC", "a:b")


def test_older_versions_are_read():
    old = ControllerNode.decode(b'{"version":1,"brokerid":3,"timestamp":"12"}')
    assert old == ControllerNode(3, 12)
    topic = TopicAssignment.decode(b'{"version":1,"partitions":{"1":[2],"0":[1]}}')
    assert topic == TopicAssignment(NO_ID, {0: Assignment((1,)), 1: Assignment((2,))})
    broker = BrokerRegistration.decode(b'{"version":1,"host":"h","port":1,"jmx_port":9}')
    assert broker.endpoints == (Endpoint("PLAINTEXT", PLAINTEXT, "h", 1),)
    change = ConfigChange.decode(b'{"version":1,"entity_type":"topics","entity_name":"T"}')
    assert change == ConfigChange("topics/T")
    assert ConfigNode.decode(b"") == ConfigNode({})


HOSTILE = [
    b"",
    b"\xff\xfe",
    b"[]",
    b"null",
    b"{",
    b'{"partitions":[]}',
    b'{"partitions":{"x":[1]}}',
    b'{"partitions":{"-1":[1]}}',
    b'{"partitions":{"0":[true]}}',
    b'{"partitions":{"0":[1e9]}}',
    b'{"partitions":{"0":[99999999999]}}',
    b'{"partitions":{"0":"1"}}',
    b'{"partitions":{"0":[]}}',
    b'{"partitions":{"0":[1,1]}}',
    b'{"partitions":{"0":[-1]}}',
    b'{"topic_id":7,"partitions":{}}',
    b'{"topic_id":"short","partitions":{}}',
    b'{"partitions":' + b"[" * 100_000,
    b'{"partitions":{"0":[' + b"9" * 10_000 + b"]}}",
    b'{"partitions":{}}' + b" " * MAX_NODE_BYTES,
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(data[:24]))
def test_a_hostile_node_is_logged_and_skipped(data, caplog):
    with pytest.raises(BadNode):
        TopicAssignment.decode(data)
    with caplog.at_level(logging.ERROR):
        assert readable("/brokers/topics/x", data, TopicAssignment.decode) is None
    assert "/brokers/topics/x" in caplog.text
    assert len(caplog.text) < 1000


def test_a_block_of_ids_must_be_one():
    for first, last in (("5", "4"), ("-1", "3"), ("x", "3")):
        text = f'{{"version":1,"broker":1,"block_start":"{first}","block_end":"{last}"}}'
        with pytest.raises(BadNode):
            ProducerIdBlock.decode(text.encode())


def test_an_epoch_must_be_a_number():
    for data in (b"", b"x", b"99999999999", b"1" * 5000):
        with pytest.raises(BadNode):
            decode_epoch(data)


def test_chosen_names_become_one_path_element():
    assert paths.escape("a/b c*~é") == "a%2Fb%20c%2A%7E%C3%A9"
    assert paths.unescape(paths.escape("a/b c*~é%")) == "a/b c*~é%"
    assert paths.escape("..") == "%2E%2E"
    assert paths.unescape("%2E%2E") == ".."


def test_paths_are_kafkas():
    where = TopicPartition("T", 3)
    assert paths.partition_state(where) == "/brokers/topics/T/partitions/3/state"
    assert paths.broker(7) == "/brokers/ids/7"
    assert paths.deletion("T") == "/admin/delete_topics/T"
    assert paths.config("users/U/clients/C") == "/config/users/U/clients/C"
    assert paths.acl("Topic", "n") == "/kafka-acl/Topic/n"
    assert paths.acl("Topic", "n", pattern="PREFIXED") == "/kafka-acl-extended/prefixed/Topic/n"
    assert paths.group_offset("g", where) == "/consumers/g/offsets/T/3"
