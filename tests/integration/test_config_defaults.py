"""Our tables of settings and errors beside those of a real Apache Kafka."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from odradek.broker.settings.all import BrokerSettings
from odradek.broker.settings.unused import why_ignored
from odradek.protocol.checks import Value
from odradek.protocol.errors import Errors
from odradek.protocol.settings import Setting
from odradek.storage.log_config import LogConfig, broker_settings

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER
from tests.support.java import java_tool

PROGRAMS = Path(__file__).parent / "java"

# Settings that Kafka reads without declaring them in its table of broker settings: those of its
# authorizer, and the throttles that exist only as dynamic values.
BESIDE_KAFKAS_TABLE = {
    "allow.everyone.if.no.acl.found",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "super.users",
}

# Defaults of Kafka 4: the consumer protocol is served as Kafka 4 serves it.
KAFKA_4_DEFAULTS = {
    "group.consumer.migration.policy": "bidirectional",
    "group.coordinator.rebalance.protocols": "classic,consumer",
}

# Of what a socket should hold Linux knows better: with Kafka's, batches of 1 MB go in a fifth more
# slowly, and a reader gets a quarter less (docs/performance.md).
OUR_DEFAULTS = {"socket.receive.buffer.bytes": "-1", "socket.send.buffer.bytes": "-1"}


@dataclass(frozen=True)
class Row:
    name: str
    kind: str
    default: str | None
    validator: str
    importance: str
    mode: str


def output(version: str, program: str) -> list[list[str]]:
    done = java_tool(version, str(PROGRAMS / program))
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


@cache
def config_lines() -> list[list[str]]:
    return output(KAFKA_ON_ZOOKEEPER, "ConfigTable.java")


def rows(table: str) -> dict[str, Row]:
    found = {}
    for kind, *fields in config_lines():
        if kind == table:
            name, type_name, default, *rest = fields
            found[name] = Row(name, type_name, None if default == "null" else default, *rest)
    return found


def default_text(setting: Setting[Value]) -> str | None:
    return setting.text_of(setting.default)


def differences(ours: Mapping[str, str | None], theirs: Mapping[str, str | None]) -> list[str]:
    return [
        f"{name}: {ours[name]!r} here, {theirs[name]!r} in Kafka"
        for name in ours.keys() & theirs.keys()
        if ours[name] != theirs[name]
    ]


pytestmark = pytest.mark.needs(f"kafka-{KAFKA_ON_ZOOKEEPER}")


def test_every_broker_setting_of_kafka_is_known_here() -> None:
    known = set(BrokerSettings.table)
    assert [n for n in rows("broker") if n not in known and why_ignored(n) is None] == []


@pytest.mark.needs(f"kafka-{KAFKA_ON_KRAFT}")
def test_every_broker_setting_of_the_newest_kafka_is_known_here() -> None:
    names = [name for (name,) in output(KAFKA_ON_KRAFT, "BrokerSettingNames.java")]
    assert len(names) > 300
    known = set(BrokerSettings.table)
    assert [name for name in names if name not in known and why_ignored(name) is None] == []


def test_no_broker_setting_is_made_up() -> None:
    assert set(BrokerSettings.table) - set(rows("broker")) == BESIDE_KAFKAS_TABLE


def test_topics_have_exactly_kafkas_settings() -> None:
    assert set(LogConfig.table) == set(rows("topic"))


@pytest.mark.parametrize(
    ("name", "table"), [("broker", BrokerSettings.table), ("topic", LogConfig.table)]
)
def test_types_and_defaults_are_kafkas(name: str, table: Mapping[str, Setting[Value]]) -> None:
    theirs = rows(name)
    types = {setting.name: setting.kind.name for setting in table.values()}
    assert differences(types, {row.name: row.kind for row in theirs.values()}) == []
    defaults = {setting.name: default_text(setting) for setting in table.values()}
    # The order of this map's entries says nothing, and Java's is that of a hash table.
    mapping = "listener.security.protocol.map"
    their_defaults = {row.name: row.default for row in theirs.values()}
    for side in (defaults, their_defaults):
        if side.get(mapping):
            side[mapping] = ",".join(sorted(str(side[mapping]).split(",")))
    their_defaults |= {**KAFKA_4_DEFAULTS, **OUR_DEFAULTS} if name == "broker" else {}
    assert differences(defaults, their_defaults) == []


def test_the_same_broker_settings_may_change_while_running() -> None:
    ours = {setting.name: setting.dynamic.value for setting in BrokerSettings.table.values()}
    # Without effect in both, so it does not matter that one lets it be changed.
    del ours["log.message.format.version"]
    assert differences(ours, {row.name: row.mode for row in rows("broker").values()}) == []


def test_broker_settings_are_as_important_as_in_kafka() -> None:
    derived = {setting.name for setting in broker_settings()}
    ours = {s.name: s.importance.name for s in BrokerSettings.table.values()}
    theirs = {row.name: row.importance for row in rows("broker").values()}
    kept = {name: ours[name] for name in ours if name not in derived}
    assert differences(kept, theirs) == []


def test_topic_settings_fall_back_to_the_same_broker_settings() -> None:
    ours = {
        setting.name: ",".join(synonym.name for synonym in setting.synonyms)
        for setting in LogConfig.table.values()
        if setting.synonyms
    }
    theirs = {fields[0]: fields[1] for kind, *fields in config_lines() if kind == "synonyms"}
    assert ours == theirs


def probes(validator: str) -> tuple[list[str], list[str]]:
    """Values just inside and just outside a range or a list that Kafka writes as its rule."""
    bounded = re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\]", validator)
    if bounded:
        low, high = bounded[1], bounded[2]
        inside = [low] + ([high] if high else [])
        outside = [str(int(low) - 1)] + ([str(int(high) + 1)] if high else [])
        return inside, outside
    listed = re.fullmatch(r"\[([\w-]+(?:, [\w-]+)*)\]", validator)
    if listed is None:
        return [], []
    # "unknown" is how Kafka's enumerations call a value from elsewhere; nobody can want it.
    return [word for word in listed[1].split(", ") if word != "unknown"], ["no-such-word"]


@pytest.mark.parametrize(
    ("name", "table"), [("broker", BrokerSettings.table), ("topic", LogConfig.table)]
)
def test_bounds_are_kafkas(name: str, table: Mapping[str, Setting[Value]]) -> None:
    wrong = []
    for row in rows(name).values():
        setting = table.get(row.name)
        if setting is None:
            continue
        inside, outside = probes(row.validator)
        wrong += [f"{row.name} refuses {text}" for text in inside if not accepts(setting, text)]
        wrong += [f"{row.name} accepts {text}" for text in outside if accepts(setting, text)]
    assert wrong == []


def accepts(setting: Setting[Value], text: str) -> bool:
    try:
        setting.parse(text)
    except ValueError:
        return False
    return True


@pytest.mark.needs(f"kafka-{KAFKA_ON_KRAFT}")
def test_errors_are_those_of_the_newest_kafka() -> None:
    ours = [[str(e.value), e.name, str(e.retriable).lower()] for e in Errors]
    assert ours == output(KAFKA_ON_KRAFT, "ErrorTable.java")
