"""Settings that Kafka knows and this broker does not use, each with its reason.

A configuration written for Kafka should start here, so such names are accepted with a warning.
The exception are names whose silent neglect would leave the operator less protected than asked:
those are refused, unless the value is one that asks for nothing.
"""

from dataclasses import dataclass

_NO_JVM = "it names Java code, and there is no JVM here"
KRAFT = "it belongs to KRaft; metadata is kept in ZooKeeper or in the broker's own store"
_TIERED = "there is no tiered storage"
_SHARE = "share groups are not served"
_METRICS = "it belongs to Kafka's own metrics library"
_OAUTH = "OAUTHBEARER is not offered"
_GSSAPI = "GSSAPI is not offered"
_ZK_TLS = "connections to ZooKeeper do not use TLS"
_PURGATORY = "waiting requests leave by themselves, and nothing has to be purged"

# A name that ends with a dot stands for every name that begins with it.
IGNORED: dict[str, str] = {
    "add.partitions.to.txn.": "a partition is verified once, and the producer tries again",
    "auto.include.jmx.reporter": _METRICS,
    "broker.heartbeat.interval.ms": KRAFT,
    "broker.session.timeout.ms": KRAFT,
    "controller.performance.": KRAFT,
    "controller.quorum.": KRAFT,
    "delete.records.purgatory.purge.interval.requests": _PURGATORY,
    "early.start.listeners": KRAFT,
    "eligible.leader.replicas.enable": KRAFT,
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "group.consumer.regex.refresh.interval.ms": "regular expressions are resolved at each change",
    "group.coordinator.append.linger.ms": "the coordinator appends at once",
    "group.coordinator.new.enable": "there is only one coordinator",
    "group.coordinator.threads": "the coordinator runs on the broker's event loop",
    "group.share.": _SHARE,
    "group.streams.": "Streams groups are not served",
    "initial.broker.registration.timeout.ms": KRAFT,
    "internal.": "it is for Kafka's own tests",
    "kafka.metrics.": _METRICS,
    "log.dir.failure.timeout.ms": KRAFT,
    "log4j.": "logging is not done by log4j",
    "metadata.": KRAFT,
    "metric.reporters": _METRICS,
    "metrics.": _METRICS,
    "offsets.commit.required.acks": "offsets are always committed to all in-sync replicas",
    "password.encoder.": "passwords are not kept in ZooKeeper",
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "remote.fetch.max.wait.ms": _TIERED,
    "remote.list.offsets.": _TIERED,
    "remote.log.": _TIERED,
    "sasl.client.callback.handler.class": _NO_JVM,
    "sasl.kerberos.": _GSSAPI,
    "sasl.login.": _NO_JVM,
    "sasl.mechanism.controller.protocol": KRAFT,
    "sasl.oauthbearer.": _OAUTH,
    "security.providers": _NO_JVM,
    "server.max.startup.time.ms": KRAFT,
    "share.coordinator.": _SHARE,
    "share.fetch.": _SHARE,
    "ssl.allow.dn.changes": "a new certificate is taken whatever its names",
    "ssl.allow.san.changes": "a new certificate is taken whatever its names",
    "ssl.keymanager.algorithm": _NO_JVM,
    "ssl.provider": _NO_JVM,
    "ssl.secure.random.implementation": _NO_JVM,
    "ssl.trustmanager.algorithm": _NO_JVM,
    "transaction.two.phase.commit.enable": "two-phase commit is not offered",
    "unclean.leader.election.interval.ms": KRAFT,
    "unstable.api.versions.enable": "versions that are not finished are never offered",
    "unstable.feature.versions.enable": "versions that are not finished are never offered",
    "zookeeper.clientCnxnSocket": _NO_JVM,
    "zookeeper.metadata.migration.": KRAFT,
    "zookeeper.ssl.": _ZK_TLS,
}


# Of these, what Kafka lets an operator change while a broker runs: for one broker, or for all too.
CHANGED_FOR_ONE = (
    *("sasl.kerberos.", "sasl.login.refresh.", "ssl.keymanager.algorithm", "ssl.provider"),
    *("ssl.secure.random.implementation", "ssl.trustmanager.algorithm"),
)
CHANGED_FOR_ALL = ("remote.fetch.max.wait.ms",)


@dataclass(frozen=True, slots=True)
class Refused:
    """A setting that is refused unless its value asks for nothing."""

    reason: str
    harmless: tuple[str, ...] = ("",)


_OFF = ("", "false")

REFUSED: dict[str, Refused] = {
    "alter.config.policy.class.name": Refused(_NO_JVM),
    "client.quota.callback.class": Refused(_NO_JVM),
    "config.providers": Refused("values are taken as they are written"),
    "create.topic.policy.class.name": Refused(_NO_JVM),
    "principal.builder.class": Refused(
        _NO_JVM,
        ("", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
    ),
    "remote.log.storage.system.enable": Refused(_TIERED, _OFF),
    "sasl.server.callback.handler.class": Refused(_NO_JVM),
    "ssl.engine.factory.class": Refused(_NO_JVM),
    "zookeeper.metadata.migration.enable": Refused(KRAFT, _OFF),
    "zookeeper.ssl.client.enable": Refused(_ZK_TLS, _OFF),
}


def why_refused(name: str, text: str) -> str | None:
    """The reason why this value stops the start, None when it does not."""
    refused = REFUSED.get(name)
    if refused is None or text.strip().lower() in (value.lower() for value in refused.harmless):
        return None
    return refused.reason


def why_ignored(name: str) -> str | None:
    """The reason why the name is accepted without effect, None when it is not in the table."""
    if name in REFUSED:
        return REFUSED[name].reason
    if name in IGNORED:
        return IGNORED[name]
    return next(
        (
            reason
            for prefix, reason in IGNORED.items()
            if prefix.endswith(".") and name.startswith(prefix)
        ),
        None,
    )


def may_change(name: str, *, for_all_brokers: bool) -> bool:
    """Whether a name without effect may be set while brokers run. Kafka takes every name that it
    does not know, because code that is plugged in may, and so tools may set what they like."""
    if why_ignored(name) is None:
        return True
    allowed = CHANGED_FOR_ALL if for_all_brokers else (*CHANGED_FOR_ONE, *CHANGED_FOR_ALL)
    return name.startswith(allowed)
