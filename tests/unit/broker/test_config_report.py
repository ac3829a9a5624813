"""What DescribeConfigs says: values, sources and the other places a value stands in."""

from odradek.broker.config import BrokerConfig
from odradek.broker.config_report import (
    Entry,
    describe_all_brokers,
    describe_broker,
    describe_topic,
)
from odradek.protocol.settings import Source


def entry(entries: dict[str, Entry], name: str) -> tuple[str | None, Source, list[str]]:
    found = entries[name]
    places = [f"{c.source.name} {c.name}={c.text}" for c in found.candidates]
    return found.text, found.source, places


def broker(config: BrokerConfig) -> dict[str, Entry]:
    return {each.name: each for each in describe_broker(config)}


def topic(config: BrokerConfig, **overrides: str) -> dict[str, Entry]:
    named = {name.replace("_", "."): text for name, text in overrides.items()}
    return {each.name: each for each in describe_topic(config, named)}


def test_a_brokers_value_is_told_with_every_place_it_stands_in() -> None:
    config = BrokerConfig.of({"num.io.threads": "2"}).with_dynamic(
        default={"num.io.threads": "3"}, broker={"num.io.threads": "4"}
    )
    assert entry(broker(config), "num.io.threads") == (
        "4",
        Source.DYNAMIC_BROKER,
        [
            "DYNAMIC_BROKER num.io.threads=4",
            "DYNAMIC_DEFAULT_BROKER num.io.threads=3",
            "STATIC_BROKER num.io.threads=2",
            "DEFAULT num.io.threads=8",
        ],
    )


def test_a_value_that_is_not_there_comes_from_nowhere() -> None:
    assert entry(broker(BrokerConfig.of({})), "broker.rack") == (None, Source.DEFAULT, [])


def test_only_what_may_change_is_not_read_only() -> None:
    entries = broker(BrokerConfig.of({}))
    assert entries["broker.id"].is_read_only
    assert not entries["num.io.threads"].is_read_only


def test_a_secret_is_never_told() -> None:
    config = BrokerConfig.of(
        {"ssl.key.password": "hush", "listener.name.a.ssl.key.password": "hush"}
    )
    assert "hush" not in repr(list(describe_broker(config)))
    assert entry(broker(config), "ssl.key.password") == (
        None,
        Source.STATIC_BROKER,
        ["STATIC_BROKER ssl.key.password=None"],
    )


def test_what_is_set_for_a_listener_is_told_under_its_full_name() -> None:
    config = BrokerConfig.of({"listener.name.a.max.connections": "5"})
    text, source, _ = entry(broker(config), "listener.name.a.max.connections")
    assert (text, source) == ("5", Source.STATIC_BROKER)


def test_a_single_brokers_defaults_are_told_as_defaults() -> None:
    assert entry(broker(BrokerConfig.of({})), "offsets.topic.replication.factor") == (
        "1",
        Source.DEFAULT,
        ["DEFAULT offsets.topic.replication.factor=1"],
    )


def test_all_brokers_together_have_what_is_set_for_all_of_them() -> None:
    config = BrokerConfig.of({"num.io.threads": "2"}).with_dynamic(
        default={"background.threads": "3"}, broker={"num.io.threads": "4"}
    )
    (only,) = describe_all_brokers(config)
    assert (only.name, only.text, only.source) == (
        "background.threads",
        "3",
        Source.DYNAMIC_DEFAULT_BROKER,
    )


def test_a_topics_value_is_told_with_the_brokers_behind_it() -> None:
    config = BrokerConfig.of({"log.retention.hours": "2"}).with_dynamic(
        default={"log.retention.ms": "9"}, broker={}
    )
    assert entry(topic(config, retention_ms="7"), "retention.ms") == (
        "7",
        Source.TOPIC,
        [
            "TOPIC retention.ms=7",
            "DYNAMIC_DEFAULT_BROKER log.retention.ms=9",
            "STATIC_BROKER log.retention.hours=2",
            "DEFAULT log.retention.hours=168",
        ],
    )


def test_a_topic_that_says_nothing_has_the_brokers_value_in_its_own_unit() -> None:
    text, source, _ = entry(topic(BrokerConfig.of({"log.retention.hours": "2"})), "retention.ms")
    assert (text, source) == ("7200000", Source.STATIC_BROKER)


def test_a_topic_setting_without_a_broker_setting_has_its_default() -> None:
    name = "leader.replication.throttled.replicas"
    assert entry(topic(BrokerConfig.of({})), name) == ("", Source.DEFAULT, [])


def test_a_topics_settings_can_all_be_changed() -> None:
    assert not any(each.is_read_only for each in describe_topic(BrokerConfig.of({}), {}))
