"""What DescribeConfigs says of a broker, of all brokers, or of a topic.

Every entry has its value, the layer it came from, and the other places where a value for it
stands, the winning one first. Pure functions over the configuration; the handler picks the names
that were asked for and puts the entries on the wire.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from odradek.broker.config import BrokerConfig, Layer, setting_of
from odradek.protocol.checks import Value
from odradek.protocol.settings import Dynamic, Setting, Source
from odradek.storage.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value that stands somewhere; `text` is None for a secret."""

    name: str
    text: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Entry:
    """`text` is None for a secret, and for a setting that has no value."""

    setting: Setting[Value]
    text: str | None
    is_read_only: bool
    candidates: tuple[Candidate, ...]

    @property
    def name(self) -> str:
        return self.setting.name

    @property
    def source(self) -> Source:
        return self.candidates[0].source if self.candidates else Source.DEFAULT


def describe_broker(config: BrokerConfig) -> Iterator[Entry]:
    """Everything that holds for the broker, what is set for single listeners included."""
    layers = config.layers()
    for setting in config.table.values():
        names = (setting.name, *(synonym.name for synonym in setting.synonyms))
        yield _entry(setting, config.values[setting.name], _candidates(setting, names, layers))
    for name in sorted({name for layer in layers for name in layer.texts} - set(config.table)):
        listener_setting = setting_of(name)
        if listener_setting is not None:
            found = _candidates(listener_setting, (name,), layers)
            yield _entry(listener_setting, config.values[name], found)


def describe_all_brokers(config: BrokerConfig) -> Iterator[Entry]:
    """What is set dynamically for all brokers at once, and nothing else."""
    layer = Layer(Source.DYNAMIC_DEFAULT_BROKER, config.dynamic_default)
    for name, text in config.dynamic_default.items():
        setting = config.table[name]
        yield _entry(setting, setting.parse(text), _candidates(setting, (name,), (layer,)))


def describe_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[Entry]:
    """Everything that holds for a topic with these overrides at this broker."""
    values = config.log_defaults.with_overrides(overrides).values
    layers = config.layers()
    for setting in LogConfig.table.values():
        own = _candidates(setting, (setting.name,), (Layer(Source.TOPIC, overrides),))
        names = (synonym.name for synonym in setting.synonyms)
        yield Entry(
            setting,
            setting.text_of(values[setting.name]),
            is_read_only=False,
            candidates=(*own, *_candidates(setting, tuple(names), layers)),
        )


def _entry(setting: Setting[Value], value: Value, candidates: tuple[Candidate, ...]) -> Entry:
    text = None if setting.secret else setting.text_of(value)
    return Entry(setting, text, setting.dynamic is Dynamic.READ_ONLY, candidates)


def _candidates(
    setting: Setting[Value], names: tuple[str, ...], layers: Iterable[Layer]
) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(name, None if setting.secret else layer.texts[name], layer.source)
        for layer in layers
        for name in names
        if name in layer.texts
    )
