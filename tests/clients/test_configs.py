"""Configs: described for topics and brokers, changed one by one or all at once, refused if bad."""

import pytest
from odradek.protocol.errors import Errors

from tests.clients.driver import Client, ClientError


@pytest.mark.ability("describe_configs", "describe_cluster")
def test_a_broker_describes_its_settings(client: Client, reference: Client) -> None:
    (broker,) = reference.describe_cluster()["brokers"]
    configs = client.describe_configs("broker", str(broker["id"]))
    assert configs["message.max.bytes"] == {"value": "1048588", "default": True}
    assert configs["num.partitions"]["value"] == "1"


@pytest.mark.ability("set_configs", "describe_configs")
def test_one_config_is_changed_and_taken_back(client: Client, topic: str) -> None:
    client.set_configs(topic, {"retention.ms": "1000000", "segment.bytes": "2000000"})
    client.set_configs(topic, {"retention.ms": None})
    configs = client.describe_configs("topic", topic)
    assert configs["retention.ms"] == {"value": "604800000", "default": True}
    assert configs["segment.bytes"] == {"value": "2000000", "default": False}


@pytest.mark.ability("replace_configs", "describe_configs")
def test_configs_are_replaced_as_a_whole(client: Client, reference: Client, new_name: str) -> None:
    reference.create_topic(new_name, configs={"retention.ms": "1000000"})
    client.replace_configs(new_name, {"retention.ms": "5000000", "segment.bytes": "2000000"})
    configs = client.describe_configs("topic", new_name)
    assert configs["retention.ms"] == {"value": "5000000", "default": False}
    assert configs["segment.bytes"] == {"value": "2000000", "default": False}


@pytest.mark.ability("set_configs", "config_errors")
@pytest.mark.parametrize(
    "configs", [{"retention.ms": "soon"}, {"no.such.config": "1"}], ids=["bad value", "unknown"]
)
def test_a_bad_change_is_refused(client: Client, topic: str, configs: dict[str, str]) -> None:
    with pytest.raises(ClientError) as refused:
        client.set_configs(topic, configs)
    assert refused.value.error is Errors.INVALID_CONFIG


@pytest.mark.ability("replace_configs", "config_errors")
def test_a_bad_replacement_is_refused(client: Client, topic: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.replace_configs(topic, {"cleanup.policy": "burn"})
    assert refused.value.error is Errors.INVALID_CONFIG
