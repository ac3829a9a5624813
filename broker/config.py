"""The configuration of a broker: one immutable, typed snapshot, and where each value came from.

A value is looked for in four layers, the first that has it wins:

    dynamic, for this broker alone   (kept in the metadata store)
    dynamic, for all brokers         (kept in the metadata store)
    static                           (options, environment, properties file: see config_sources)
    default                          (the declarations in odradek.broker.settings)

`with_dynamic` gives the next snapshot when stored values change. A snapshot that exists is
valid: parsing, listeners and cross-checks have passed, or `SettingsError` was raised with every
problem that was found. Made by the broker's composition root; everybody else is handed one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from odradek.broker.config_checks import RACK_AWARE, contradictions
from odradek.broker.listeners import Listeners, read_listeners
from odradek.broker.settings.all import BrokerSettings, ListenerScope
from odradek.broker.settings.unused import may_change, why_ignored, why_refused
from odradek.protocol.checks import Value
from odradek.protocol.settings import Dynamic, Setting, SettingsError, Source
from odradek.storage.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class Given:
    """A text as the operator wrote it, and the place where it stands."""

    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Layer:
    source: Source
    texts: Mapping[str, str]


# Kafka's defaults suppose three brokers: with them a single broker would never have a topic for
# offsets or transactions. The sample server.properties of Kafka says the same as this table.
SINGLE_BROKER_DEFAULTS: Mapping[str, Value] = {
    BrokerSettings.offsets_topic_replication_factor.name: 1,
    BrokerSettings.transaction_state_log_replication_factor.name: 1,
    BrokerSettings.transaction_state_log_min_isr.name: 1,
    BrokerSettings.group_initial_rebalance_delay_ms.name: 0,
}

_FOR_LISTENER = re.compile(r"listener\.name\.[^.]+\.(.+)")


class BrokerConfig(BrokerSettings):
    """`BrokerConfig.of({"log.dirs": …})` for values at hand; `config_sources.load` for users'."""

    static: Mapping[str, Given]
    dynamic_default: Mapping[str, str]
    dynamic_broker: Mapping[str, str]
    listener_endpoints: Listeners
    log_defaults: LogConfig

    def __init__(
        self,
        static: Mapping[str, Given],
        *,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        default_layer = dynamic_default or {}
        broker_layer = dynamic_broker or {}
        texts = {name: given.text for name, given in static.items()}
        merged = {**texts, **default_layer, **broker_layer}
        values = _typed(merged, {name: given.where for name, given in static.items()})
        if values.get("zookeeper.connect") is None:
            values = {**SINGLE_BROKER_DEFAULTS, **values}
        super().__init__(values)
        log_defaults = LogConfig.from_broker(self.values)
        self.__dict__.update(
            static=static,
            dynamic_default=default_layer,
            dynamic_broker=broker_layer,
            log_defaults=log_defaults,
            listener_endpoints=_checked_listeners(self, log_defaults),
        )

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "BrokerConfig":
        return cls({name: Given(text, "given directly") for name, text in texts.items()})

    @property
    def is_single(self) -> bool:
        """Whether the broker keeps the metadata itself, and so is a cluster of its own."""
        return self.zookeeper_connect is None

    @property
    def reads_near_by(self) -> bool:
        """Whether consumers are sent to replicas in their own rack."""
        return (self.replica_selector_class or "").endswith(RACK_AWARE)

    def with_dynamic(
        self, *, default: Mapping[str, str], broker: Mapping[str, str]
    ) -> "BrokerConfig":
        """The next snapshot, with these stored values in place of the former ones.

        Names that cannot change while running are passed over: what is stored may have been
        written by another version. Values that cannot be used raise SettingsError.
        """
        return BrokerConfig(
            self.static,
            dynamic_default=_only(default, Dynamic.CLUSTER_WIDE),
            dynamic_broker=_only(broker, Dynamic.CLUSTER_WIDE, Dynamic.PER_BROKER),
        )

    def layers(self) -> tuple[Layer, ...]:
        """The four layers as texts, the first that has a name wins."""
        static = {name: given.text for name, given in self.static.items()}
        return (
            Layer(Source.DYNAMIC_BROKER, self.dynamic_broker),
            Layer(Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            Layer(Source.STATIC_BROKER, static),
            Layer(Source.DEFAULT, self._default_texts()),
        )

    def for_listener(self, listener: str, mechanism: str = "") -> ListenerScope:
        """The settings of one listener, where wanted those of one of its SASL mechanisms.

        `listener.name.<listener>.<mechanism>.x` stands before `listener.name.<listener>.x`, and
        that before `x`.
        """
        own = _below(f"listener.name.{listener.lower()}.", self.values)
        deeper = _below(f"{mechanism.lower()}.", own)
        values = {**self.values, **own, **deeper}
        return ListenerScope({name: values[name] for name in ListenerScope.table})

    def notices(self) -> Iterator[str]:
        """What the operator should know: names that have no effect, each with its reason."""
        for name, given in self.static.items():
            if setting_of(name) is not None:
                continue
            reason = why_ignored(name)
            if reason is None:
                yield f"unknown: {name} ({given.where}) is no setting of a broker"
            else:
                yield f"ignored: {name} ({given.where}): {reason}"

    def _default_texts(self) -> dict[str, str]:
        defaults = {name: setting.default for name, setting in self.table.items()}
        if self.is_single:
            defaults.update(SINGLE_BROKER_DEFAULTS)
        texts = {name: self.table[name].text_of(value) for name, value in defaults.items()}
        return {name: text for name, text in texts.items() if text is not None}


def setting_of(name: str) -> Setting[Value] | None:
    """The setting of this name, or the one that the name gives for one listener alone.

    `listener.name.<listener>.` may stand before the settings of a listener, and the name of a
    SASL mechanism with a dot between the two.
    """
    match = _FOR_LISTENER.fullmatch(name)
    if match is None:
        return BrokerSettings.table.get(name)
    own = match[1]
    setting = ListenerScope.table.get(own) or ListenerScope.table.get(own.partition(".")[2])
    # What is set for a listener is set at its broker.
    return setting and replace(setting, name=name, dynamic=Dynamic.PER_BROKER)


def dynamic_problems(texts: Mapping[str, str], *, for_all_brokers: bool) -> list[str]:
    """Why these values may not be stored for one broker, or for all: a sentence each."""
    problems: list[str] = []
    for name, text in texts.items():
        setting = setting_of(name)
        if setting is None:
            if not may_change(name, for_all_brokers=for_all_brokers):
                problems.append(f"{name} is not used by this broker")
        elif setting.dynamic is Dynamic.READ_ONLY:
            problems.append(f"{name} cannot be changed while the broker runs")
        elif for_all_brokers and setting.dynamic is Dynamic.PER_BROKER:
            problems.append(f"{name} cannot be set for all brokers, only for each")
        else:
            problems += _parse_problems(setting, text)
    return problems


def _below(prefix: str, values: Mapping[str, Value]) -> dict[str, Value]:
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def _only(texts: Mapping[str, str], *allowed: Dynamic) -> dict[str, str]:
    return {
        name: text
        for name, text in texts.items()
        if (setting := setting_of(name)) is not None and setting.dynamic in allowed
    }


def _typed(texts: Mapping[str, str], where: Mapping[str, str]) -> dict[str, Value]:
    """The values that the texts give, those of synonyms included."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    for name, text in texts.items():
        place = where.get(name, "dynamic")
        refusal = why_refused(name, text)
        if refusal is not None:
            problems.append(f"{name} cannot be used: {refusal} ({place})")
        setting = setting_of(name)
        if setting is None:
            continue
        try:
            values[name] = setting.parse(text)
        except SettingsError as error:
            problems += [f"{problem} ({place})" for problem in error.problems]
    if problems:
        raise SettingsError(problems)
    for setting in BrokerSettings.table.values():
        for synonym in setting.synonyms:
            if setting.name not in values and synonym.name in values:
                values[setting.name] = values[synonym.name]
    return values


def _checked_listeners(config: BrokerSettings, log_defaults: LogConfig) -> Listeners:
    """The listeners, once every cross-check has passed, theirs and all others."""
    problems = list(contradictions(config, log_defaults))
    try:
        listeners = read_listeners(config)
    except SettingsError as error:
        problems += error.problems
    if problems:
        raise SettingsError(problems)
    return listeners


def _parse_problems(setting: Setting[Value], text: str) -> Iterable[str]:
    try:
        setting.parse(text)
    except SettingsError as error:
        return error.problems
    return ()
