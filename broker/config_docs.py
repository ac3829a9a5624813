"""docs/configuration.md, made from the declarations:

python -m odradek.broker.config_docs > docs/configuration.md
"""

from collections.abc import Iterable, Iterator

from odradek.broker.config import SINGLE_BROKER_DEFAULTS
from odradek.broker.settings.all import BrokerSettings, ListenerScope
from odradek.broker.settings.quotas import ClientQuotas
from odradek.broker.settings.unused import IGNORED, REFUSED
from odradek.protocol.checks import Value
from odradek.protocol.settings import MAX_INT, Dynamic, Setting, Settings
from odradek.storage.log_config import LogConfig

_INTRODUCTION = """\
# Configuration

This page is made from the declarations in the code by
`python -m odradek.broker.config_docs > docs/configuration.md`; change those, not this.

Names, types and defaults are those of Apache Kafka 3.9, so a `server.properties` written for
Kafka works here. Two defaults are those of Kafka 4, so that the consumer group protocol is served:
`group.coordinator.rebalance.protocols` and `group.consumer.migration.policy`. Two are our own:
the buffers of sockets are left to the operating system. A value is looked for in this order, and
the first found holds:

1. dynamic values for this broker alone, set with AlterConfigs (`kafka-configs.sh --alter
   --entity-type brokers --entity-name 1`),
2. dynamic values for all brokers (`--entity-default`),
3. options on the command line: `-o name=value`,
4. environment variables: `KAFKA_` and the name in capitals, with `_` for `.`, `__` for `_` and
   `___` for `-`, as in Kafka's container image (`KAFKA_NUM_IO_THREADS=4`); `KAFKA_CFG_` as prefix
   will do as well,
5. the properties file,
6. the default.

The properties file has the syntax of Java's properties: `name=value`, `name: value` or
`name value`, comments after `#` or `!`, a backslash at the end of a line to continue it, and
backslash escapes. It is read as UTF-8. All problems are reported at once, each with the place
where the value stands, and the broker does not start.

What is no setting of Kafka's is an option of the command: `odradek serve --help` tells them. One
is also read from the environment, for containers: `ODRADEK_BUSY_POLL_US`, for how many microseconds
the broker looks for the next request before it sleeps (200; 0 never does). A client that waits for
each answer then has it a third sooner, at the price of processor time between its requests; where
other processes want the core, or requests come too seldom, the broker sleeps as ever.

*Changes* says whether a setting may change while the broker runs: *no*; *each* means it may be set
for single brokers; *all* means it may also be set for all brokers at once.
"""

_SINGLE = """\
## A single broker

Without `zookeeper.connect` the broker keeps the metadata itself and is a cluster of its own.
Kafka's defaults suppose three brokers, and with them a single one could never create its topics
for offsets and transactions; so in this case, and only in this case, these defaults differ:
"""

_LISTENER = """\
## Settings of one listener

These may be set for one listener alone, by `listener.name.`, the listener's name in small letters
and a dot before the name: `listener.name.internal.ssl.keystore.location`. Settings that begin
with `sasl.` may have a mechanism in between:
`listener.name.internal.scram-sha-256.sasl.jaas.config`.
"""

_TOPIC = """\
## Topics

Set when a topic is created or with AlterConfigs. What a topic does not set comes from the broker
setting in the last column; where there are several, the first that is set holds.
"""

_IGNORED = """\
## Settings of Kafka without effect

These are accepted, so that a configuration for Kafka need not be changed, and the broker says at
its start that it ignores them. A name that ends with a dot stands for all that begin with it.
"""

_REFUSED = """\
## Settings of Kafka that are refused

To ignore these would leave the operator with less than was asked for, so the broker does not start
with them unless the value is one of those that ask for nothing.
"""

_CHANGES = {Dynamic.READ_ONLY: "no", Dynamic.PER_BROKER: "each", Dynamic.CLUSTER_WIDE: "all"}


def render() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield _SINGLE
    yield from _table(
        ("Setting", "Default"),
        ((f"`{name}`", f"{value}") for name, value in SINGLE_BROKER_DEFAULTS.items()),
    )
    yield "## Brokers\n"
    for group in BrokerSettings.__bases__:
        assert issubclass(group, Settings)
        yield f"### {_title(group)}\n"
        yield from _settings(group.table.values())
    yield _LISTENER
    yield ", ".join(f"`{name}`" for name in ListenerScope.table) + ".\n"
    yield _TOPIC
    yield from _topics()
    yield f"## {_title(ClientQuotas)}\n"
    yield "Set per entity with AlterClientQuotas (`kafka-configs.sh --entity-type users`).\n"
    yield from _quotas()
    yield _IGNORED
    yield from _table(
        ("Setting", "Why"), ((f"`{name}`", reason) for name, reason in IGNORED.items())
    )
    yield _REFUSED
    rows = (
        (f"`{name}`", refused.reason, ", ".join(_code(value) for value in refused.harmless))
        for name, refused in REFUSED.items()
    )
    yield from _table(("Setting", "Why", "Accepted"), rows)


def _title(group: type[Settings]) -> str:
    assert group.__doc__, "a group's first line is its title"
    return group.__doc__.splitlines()[0].partition(":")[0].rstrip(".")


def _settings(settings: Iterable[Setting[Value]]) -> Iterator[str]:
    rows = ((_name(s), _kind(s), _default(s), _CHANGES[s.dynamic], _sentence(s)) for s in settings)
    return _table(("Setting", "Type", "Default", "Changes", "What it does"), rows)


def _quotas() -> Iterator[str]:
    rows = ((_name(s), _kind(s), _default(s), _sentence(s)) for s in ClientQuotas.table.values())
    return _table(("Key", "Type", "Default", "What it limits"), rows)


def _topics() -> Iterator[str]:
    rows = (
        (
            _name(setting),
            _kind(setting),
            _default(setting),
            _sentence(setting),
            "<br>".join(f"`{synonym.name}`" for synonym in setting.synonyms),
        )
        for setting in LogConfig.table.values()
    )
    return _table(("Setting", "Type", "Default", "What it does", "Broker setting"), rows)


def _name(setting: Setting[Value]) -> str:
    return f"`{setting.name}`"


def _kind(setting: Setting[Value]) -> str:
    return setting.kind.name.lower()


def _default(setting: Setting[Value]) -> str:
    if setting.default is None:
        return "*unset*"
    if isinstance(setting.default, float) and setting.default >= MAX_INT:
        return "*no limit*"
    return _code(setting.text_of(setting.default) or "")


def _sentence(setting: Setting[Value]) -> str:
    rule = f" Must be {setting.check.rule}." if setting.check else ""
    return (setting.doc + rule).replace("<", "&lt;").replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`" if text else "*empty*"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


if __name__ == "__main__":
    print(render(), end="")
