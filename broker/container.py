"""What the environment of a container asks for, by the rules of the images that people have.

The image replaces apache/kafka and cp-kafka in files that were written for those, and so reads
what they read: `KAFKA_*` and `KAFKA_CFG_*` name settings (see `config_sources`), `CLUSTER_ID` is
the cluster's, `KAFKA_CREATE_TOPICS` lists topics to be made, and where only
`advertised.listeners` is given, `listeners` follows from it. Pure; `container_command` acts.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.broker.config import BrokerConfig, Given, setting_of
from odradek.broker.config_sources import from_environment
from odradek.broker.listeners import Listeners
from odradek.broker.settings.unused import KRAFT, why_ignored
from odradek.broker.wanted_topics import WantedTopic, parse_wanted
from odradek.protocol.endpoints import parse_endpoint
from odradek.protocol.settings import SettingsError

TOPICS_VARIABLE: Final = "KAFKA_CREATE_TOPICS"
CLUSTER_ID_VARIABLES: Final = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
# Variables of the images which begin as settings do and are none.
_NO_SETTINGS: Final = {
    TOPICS_VARIABLE,
    *CLUSTER_ID_VARIABLES,
    "KAFKA_ENABLE_KRAFT",
    "KAFKA_OPTS",
}
_LEVEL_VARIABLE: Final = "KAFKA_LOG4J_ROOT_LOGLEVEL"
_LEVELS: Final = {
    **dict.fromkeys(("TRACE", "DEBUG"), "debug"),
    "INFO": "info",
    "WARN": "warning",
    **dict.fromkeys(("ERROR", "FATAL", "OFF"), "error"),
}

# Where volumes are found: the image's own path, which cp-kafka and apache/kafka share, and those
# that stand in files for Bitnami's image and for the default of apache/kafka.
DATA_DIRECTORY: Final = "/var/lib/kafka/data"
OTHER_VOLUMES: Final = {"/bitnami/kafka": "/bitnami/kafka/data", "/tmp/kraft-combined-logs": ""}

_IMAGE: Final = "the image's default"
_DEFAULTS: Final = {
    # ZooKeeper mostly starts together with its brokers; cp-kafka waits for it as long.
    "zookeeper.connection.timeout.ms": "40000",
    # Docker kills what has not stopped within 10 s: three attempts with Kafka's 5 s take longer.
    "controlled.shutdown.retry.backoff.ms": "2000",
}

# Settings that this broker reads only to see that one KRaft node is meant.
_OF_KRAFT: Final = (
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "process.roles",
)
_UNKNOWN: Final = "no setting of a broker"


@dataclass(frozen=True, slots=True)
class Plan:
    config: BrokerConfig
    topics: tuple[WantedTopic, ...]
    cluster_id: str | None
    """For directories that are empty yet."""


def plan(
    environment: Mapping[str, str],
    *,
    file: Mapping[str, Given] | None = None,
    mounted: Collection[str] = (),
) -> Plan:
    """Raises SettingsError with every problem found in one place.

    `file` is what a mounted properties file says, `mounted` the paths where volumes are.
    """
    own = {name: text for name, text in environment.items() if name not in _NO_SETTINGS}
    given = {**(file or {}), **from_environment(own)}
    if not given.get("zookeeper.connect", Given("", "")).text.strip():
        given.pop("zookeeper.connect", None)
    config = BrokerConfig({**_defaults(mounted), **_derived_listeners(given), **given})
    cluster_ids = (environment.get(name, "").strip() for name in CLUSTER_ID_VARIABLES)
    return Plan(config, wanted_topics(environment), next(filter(None, cluster_ids), None))


def _defaults(mounted: Collection[str]) -> dict[str, Given]:
    directory = DATA_DIRECTORY
    if DATA_DIRECTORY not in mounted:
        volumes = (inside or path for path, inside in OTHER_VOLUMES.items() if path in mounted)
        directory = next(volumes, DATA_DIRECTORY)
    texts = {**_DEFAULTS, "log.dirs": directory}
    return {name: Given(text, _IMAGE) for name, text in texts.items()}


def _derived_listeners(given: Mapping[str, Given]) -> dict[str, Given]:
    """As cp-kafka does it: what is advertised is opened under the same port on every interface."""
    advertised = given.get("advertised.listeners")
    if advertised is None or "listeners" in given:
        return {}
    try:
        ends = [parse_endpoint(part.strip()) for part in advertised.text.split(",") if part.strip()]
    except ValueError as error:
        problem = f"advertised.listeners: {error} ({advertised.where})"
        raise SettingsError([problem]) from error
    text = ",".join(f"{name}://0.0.0.0:{port}" for name, _, port in ends)
    return {"listeners": Given(text, f"derived from {advertised.where}")}


def wanted_topics(environment: Mapping[str, str]) -> tuple[WantedTopic, ...]:
    """`name:partitions:replicas:cleanup.policy`, separated by commas or line breaks."""
    texts = re.split(r"[,\s]+", environment.get(TOPICS_VARIABLE, "").strip())
    try:
        return tuple(parse_wanted(text) for text in texts if text)
    except ValueError as error:
        raise SettingsError([f"{TOPICS_VARIABLE}: {error}"]) from error


def log_level(environment: Mapping[str, str]) -> str:
    return _LEVELS.get(environment.get(_LEVEL_VARIABLE, "").strip().upper(), "info")


def notices(config: BrokerConfig) -> Iterator[str]:
    """What has no effect, a line for each reason: files for KRaft have many such names."""
    names: dict[str, list[str]] = {}
    for name in config.static:
        if name in _OF_KRAFT and config.is_single:
            names.setdefault(KRAFT, []).append(name)
        elif setting_of(name) is None:
            names.setdefault(why_ignored(name) or _UNKNOWN, []).append(name)
    for reason, ignored in names.items():
        yield f"ignored: {', '.join(sorted(ignored))}: {reason}"


def own_address(listeners: Listeners) -> str:
    """Where the broker is found from inside its container, by the listener of the brokers: what
    it advertises is what containers can reach."""
    end = next(end for end in listeners.bound if end.listener == listeners.inter_broker)
    host = "localhost" if end.host in ("", "0.0.0.0", "::") else end.host
    return f"[{host}]:{end.port}" if ":" in host else f"{host}:{end.port}"


def ready_lines(broker_id: int) -> tuple[str, ...]:
    """What Kafka logs when it serves. Testcontainers' modules wait for one of these."""
    return (
        f"[KafkaServer id={broker_id}] started",
        f"[BrokerLifecycleManager id={broker_id}] Transitioning from RECOVERY to RUNNING.",
        f"[KafkaRaftServer nodeId={broker_id}] Kafka Server started",
    )
