"""Settings that change while the broker runs: stored, followed, applied.

The store is the truth; this broker keeps the broker settings as one snapshot, the overrides of
every topic, and tells those who asked when either changes. What is stored and cannot be used
(another version may have written it) is passed over with one log line, and the old value stays.
"""

import logging
from collections.abc import Callable, Mapping

from odradek.broker.config import BrokerConfig
from odradek.controller.configs import (
    Config,
    ConfigFollower,
    broker_entity,
    read_all_configs,
    topic_entity,
)
from odradek.controller.paths import DEFAULT_ENTITY
from odradek.controller.store import MetadataStore
from odradek.protocol.clock import Clock
from odradek.protocol.settings import SettingsError
from odradek.storage.log_config import LogConfig

_log = logging.getLogger(__name__)

BrokerListener = Callable[[BrokerConfig], None]
TopicListener = Callable[[str, LogConfig], None]

_TOPIC_PREFIX = topic_entity("")


class DynamicConfigs:
    """One owner: the event loop. `broker` is the snapshot in force."""

    def __init__(
        self, broker: BrokerConfig, *, broker_id: int, store: MetadataStore, clock: Clock
    ) -> None:
        self.broker = broker
        self._broker_id = broker_id
        self._store = store
        self._overrides: dict[str, Config] = {}
        self._log_configs: dict[str, LogConfig] = {}
        self._broker_listeners: list[BrokerListener] = []
        self._topic_listeners: list[TopicListener] = []
        self._defaults_listeners: list[Callable[[], None]] = []
        self._follower = ConfigFollower(store, clock=clock, apply=self._apply)

    def listen(
        self,
        *,
        broker: BrokerListener | None = None,
        topic: TopicListener | None = None,
        topic_defaults: Callable[[], None] | None = None,
    ) -> None:
        """Be told of later changes: of the broker, a topic, or what topics fall back to."""
        if broker is not None:
            self._broker_listeners.append(broker)
        if topic is not None:
            self._topic_listeners.append(topic)
        if topic_defaults is not None:
            self._defaults_listeners.append(topic_defaults)

    async def start(self) -> None:
        """Read what is stored; changes from now on come through `run`."""
        await self._follower.start()
        self._overrides = await read_all_configs(self._store, "topics")
        brokers = await read_all_configs(self._store, "brokers")
        self._use_broker(
            default=brokers.get(DEFAULT_ENTITY, {}), broker=brokers.get(str(self._broker_id), {})
        )

    async def run(self) -> None:
        await self._follower.run()

    # What holds -----------------------------------------------------------------------------

    def overrides(self, topic: str) -> Config:
        return self._overrides.get(topic, {})

    def log_config(self, topic: str) -> LogConfig:
        """The settings of a topic's logs at this broker."""
        made = self._log_configs.get(topic)
        if made is None:
            made = self._log_configs[topic] = self._made(topic)
        return made

    def _made(self, topic: str) -> LogConfig:
        defaults = self.broker.log_defaults
        overrides = self._overrides.get(topic)
        if not overrides:
            return defaults
        try:
            return defaults.with_overrides(overrides)
        except SettingsError as error:
            _log.warning("Settings of topic %s are not used: %s", topic, error)
            return defaults

    # What changes ---------------------------------------------------------------------------

    def expect_topic(self, topic: str, overrides: Config) -> None:
        """Know a new topic's settings before the store tells of them."""
        self._overrides[topic] = dict(overrides)
        self._log_configs.pop(topic, None)

    def forget_topic(self, topic: str) -> None:
        self._overrides.pop(topic, None)
        self._log_configs.pop(topic, None)

    async def _apply(self, entity: str, config: Config) -> None:
        if entity.startswith(_TOPIC_PREFIX):
            self._use_topic(entity.removeprefix(_TOPIC_PREFIX), config)
        elif entity == broker_entity(None):
            self._use_broker(default=config, broker=self.broker.dynamic_broker)
        elif entity == broker_entity(self._broker_id):
            self._use_broker(default=self.broker.dynamic_default, broker=config)

    def _use_topic(self, topic: str, overrides: Config) -> None:
        if overrides:
            self._overrides[topic] = overrides
        else:
            self._overrides.pop(topic, None)
        self._log_configs.pop(topic, None)
        for listener in self._topic_listeners:
            listener(topic, self.log_config(topic))

    def _use_broker(self, *, default: Mapping[str, str], broker: Mapping[str, str]) -> None:
        try:
            changed = self.broker.with_dynamic(default=default, broker=broker)
        except SettingsError as error:
            _log.warning("Stored broker settings are not used: %s", error)
            return
        before, self.broker = self.broker, changed
        for broker_listener in self._broker_listeners:
            broker_listener(changed)
        if changed.log_defaults.values != before.log_defaults.values:
            self._log_configs.clear()
            for defaults_listener in self._defaults_listeners:
                defaults_listener()
