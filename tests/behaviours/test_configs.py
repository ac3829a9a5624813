"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, as clients depend on them."""

from collections.abc import Mapping, Sequence

import pytest
from odradek.protocol.errors import Errors
from odradek.protocol.messages.configs import (
    AlterConfigsAlterableConfig,
    AlterConfigsAlterConfigsResource,
    AlterConfigsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest

from tests.behaviours.asking import Asker, batch, until

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
FROM_TOPIC, FROM_DYNAMIC_BROKER, DEFAULT = 1, 2, 5


def describe(
    asker: Asker, name: str, keys: Sequence[str] | None = None, *, kind: int = TOPIC
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind,
        resource_name=name,
        configuration_keys=None if keys is None else list(keys),
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    return asker.ask(request, 3).results[0]


def value(asker: Asker, topic: str, key: str) -> str | None:
    (entry,) = describe(asker, topic, [key]).configs
    return entry.value


def alter(
    asker: Asker,
    name: str,
    changes: Sequence[tuple[str, int, str | None]],
    *,
    kind: int = TOPIC,
    validate_only: bool = False,
) -> int:
    resource = IncrementalAlterConfigsAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsAlterableConfig(name=key, config_operation=verb, value=text)
            for key, verb, text in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return asker.ask(request, 1).responses[0].error_code


def replace(asker: Asker, name: str, configs: Mapping[str, str | None]) -> int:
    resource = AlterConfigsAlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[AlterConfigsAlterableConfig(name=k, value=v) for k, v in configs.items()],
    )
    request = AlterConfigsRequest(resources=[resource], validate_only=False)
    return asker.ask(request, 1).responses[0].error_code


def wait_for(asker: Asker, topic: str, key: str, expected: str) -> None:
    """Changes reach brokers a moment after they are stored."""
    until(lambda: value(asker, topic, key) == expected, f"{key} of {topic} is {expected}")


def test_every_setting_has_source_type_and_synonyms(asker: Asker, name: str) -> None:
    asker.create(name, configs={"retention.ms": "5000"})
    answer = describe(asker, name)
    assert (answer.error_code, answer.error_message) == (0, "")
    entries = {entry.name: entry for entry in answer.configs}
    set_here, default = entries["retention.ms"], entries["segment.bytes"]
    assert (set_here.value, set_here.config_source) == ("5000", FROM_TOPIC)
    assert set_here.synonyms[0].name == "retention.ms"
    assert (default.value, default.config_source) == ("1073741824", DEFAULT)
    assert [synonym.name for synonym in default.synonyms] == ["log.segment.bytes"]
    assert (default.config_type, set_here.config_type) == (3, 5)
    assert not default.read_only
    assert default.documentation


def test_single_settings_can_be_asked_for(asker: Asker, topic: str) -> None:
    answer = describe(asker, topic, ["retention.ms", "no.such"])
    assert [entry.name for entry in answer.configs] == ["retention.ms"]


def test_an_unknown_topic_is_unknown(asker: Asker, name: str) -> None:
    assert describe(asker, name).error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(asker, name, [("retention.ms", SET, "1")]) == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_of_another_broker_are_not_told_here(asker: Asker) -> None:
    assert describe(asker, "4711", kind=BROKER).error_code == Errors.INVALID_REQUEST


def test_the_broker_describes_itself(asker: Asker) -> None:
    here = str(asker.metadata([]).controller_id)
    entries = {entry.name: entry for entry in describe(asker, here, kind=BROKER).configs}
    assert entries["num.io.threads"].value == "8"
    assert entries["log.dirs"].read_only
    assert not entries["log.cleaner.threads"].read_only
    assert {"listeners", "broker.id", "message.max.bytes"} <= entries.keys()


def test_settings_are_set_deleted_appended_and_subtracted(asker: Asker, topic: str) -> None:
    assert alter(asker, topic, [("retention.ms", SET, "7000")]) == 0
    wait_for(asker, topic, "retention.ms", "7000")
    assert alter(asker, topic, [("cleanup.policy", APPEND, "compact")]) == 0
    wait_for(asker, topic, "cleanup.policy", "delete,compact")
    assert alter(asker, topic, [("cleanup.policy", SUBTRACT, "delete")]) == 0
    wait_for(asker, topic, "cleanup.policy", "compact")
    assert alter(asker, topic, [("retention.ms", DELETE, None)]) == 0
    wait_for(asker, topic, "retention.ms", "604800000")


def test_alter_configs_replaces_everything(asker: Asker, name: str) -> None:
    asker.create(name, configs={"retention.ms": "5000"})
    assert replace(asker, name, {"segment.ms": "60000"}) == 0
    wait_for(asker, name, "segment.ms", "60000")
    wait_for(asker, name, "retention.ms", "604800000")


def test_a_changed_setting_takes_effect(asker: Asker, topic: str) -> None:
    assert asker.produce(topic, batch(b"x" * 500)).error_code == 0
    assert alter(asker, topic, [("max.message.bytes", SET, "300")]) == 0
    wait_for(asker, topic, "max.message.bytes", "300")
    assert asker.produce(topic, batch(b"x" * 500)).error_code == Errors.MESSAGE_TOO_LARGE


def test_validate_only_changes_nothing(asker: Asker, topic: str) -> None:
    assert alter(asker, topic, [("retention.ms", SET, "7000")], validate_only=True) == 0
    assert value(asker, topic, "retention.ms") == "604800000"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("retention.ms", SET, "soon"), Errors.INVALID_CONFIG),
        (("no.such.setting", SET, "1"), Errors.INVALID_CONFIG),
        (("retention.ms", SET, None), Errors.INVALID_REQUEST),
        (("retention.ms", APPEND, "5"), Errors.INVALID_CONFIG),
    ],
)
def test_bad_changes_are_refused(
    asker: Asker, topic: str, change: tuple[str, int, str | None], error: Errors
) -> None:
    assert alter(asker, topic, [change]) == error


@pytest.mark.parametrize(
    "version", ["0.8.2", "0.9.0.1", "0.10.0.0", "0.10.0-IV1", "2.8.1", "3.0-IV1", "3.9", "3.9.1"]
)
def test_a_message_format_is_named_by_any_version_of_kafka(
    asker: Asker, topic: str, version: str
) -> None:
    assert alter(asker, topic, [("message.format.version", SET, version)]) == 0
    assert value(asker, topic, "message.format.version") == version


@pytest.mark.parametrize("version", ["new", "3", "0.10", "0.12.0", "3.9-IV7", "9.9", "0.10.0-IV2"])
def test_a_version_that_never_was_is_refused(asker: Asker, topic: str, version: str) -> None:
    change = ("message.format.version", SET, version)
    assert alter(asker, topic, [change]) == Errors.INVALID_CONFIG


def test_a_setting_named_twice_is_refused(asker: Asker, topic: str) -> None:
    twice = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert alter(asker, topic, twice) == Errors.INVALID_REQUEST


def test_broker_settings_change_while_it_runs(asker: Asker) -> None:
    here = str(asker.metadata([]).controller_id)
    change = [("log.cleaner.threads", SET, "2")]
    assert alter(asker, here, change, kind=BROKER) == 0

    def told() -> tuple[str | None, int]:
        (entry,) = describe(asker, here, ["log.cleaner.threads"], kind=BROKER).configs
        return entry.value, entry.config_source

    until(lambda: told() == ("2", FROM_DYNAMIC_BROKER), "the setting has changed")
    assert alter(asker, here, [("log.cleaner.threads", DELETE, None)], kind=BROKER) == 0


@pytest.mark.parametrize(
    ("key", "for_one", "for_all"),
    [
        ("sasl.kerberos.min.time.before.relogin", 0, Errors.INVALID_REQUEST),
        ("sasl.login.refresh.buffer.seconds", 0, Errors.INVALID_REQUEST),
        ("no.such.setting", 0, 0),
        ("security.providers", Errors.INVALID_REQUEST, Errors.INVALID_REQUEST),
    ],
)
def test_broker_settings_without_effect_can_be_set_where_kafka_lets_them(
    asker: Asker, key: str, for_one: int, for_all: int
) -> None:
    me = str(asker.ask(MetadataRequest(topics=[]), 9).brokers[0].node_id)
    change = [(key, SET, "5")]
    assert alter(asker, me, change, kind=BROKER, validate_only=True) == for_one
    assert alter(asker, "", change, kind=BROKER, validate_only=True) == for_all


def test_what_a_broker_is_started_with_cannot_be_changed(asker: Asker) -> None:
    here = str(asker.metadata([]).controller_id)
    for name in ("log.dirs", "broker.id", "zookeeper.connect"):
        assert alter(asker, here, [(name, SET, "1")], kind=BROKER) == Errors.INVALID_REQUEST
