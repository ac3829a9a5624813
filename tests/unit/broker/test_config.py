"""The broker's configuration: layers, profiles, listener scopes and refusals."""

import pytest
from odradek.broker.config import BrokerConfig, dynamic_problems, setting_of
from odradek.broker.settings.all import BrokerSettings, ListenerScope
from odradek.broker.settings.unused import IGNORED, REFUSED
from odradek.protocol.settings import Dynamic, SettingsError, Source

CLUSTER = {"zookeeper.connect": "zk:2181"}


def problems(**texts: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        BrokerConfig.of({name.replace("_", "."): text for name, text in texts.items()})
    return tuple(sentence.removesuffix(" (given directly)") for sentence in caught.value.problems)


def test_values_are_typed_attributes() -> None:
    config = BrokerConfig.of({"num.io.threads": "3", "log.dirs": "/a, /b,"})
    assert config.num_io_threads == 3
    assert config.num_network_threads == 3
    assert config.data_dirs == ("/a", "/b")
    assert config.broker_rack is None


def test_log_dir_stands_in_for_log_dirs() -> None:
    assert BrokerConfig.of({"log.dir": "/x"}).data_dirs == ("/x",)
    assert BrokerConfig.of({"log.dir": "/x", "log.dirs": "/y"}).data_dirs == ("/y",)


def test_a_broker_with_zookeeper_has_kafkas_defaults() -> None:
    config = BrokerConfig.of(CLUSTER)
    assert not config.is_single
    assert config.offsets_topic_replication_factor == 3
    assert config.transaction_state_log_min_isr == 2
    assert config.group_initial_rebalance_delay_ms == 3000


def test_a_single_broker_has_defaults_that_work_alone() -> None:
    config = BrokerConfig.of({"zookeeper.connect": " "})
    assert config.is_single
    assert config.offsets_topic_replication_factor == 1
    assert config.transaction_state_log_replication_factor == 1
    assert config.transaction_state_log_min_isr == 1
    assert config.group_initial_rebalance_delay_ms == 0


def test_a_single_broker_still_does_as_it_is_told() -> None:
    config = BrokerConfig.of({"group.initial.rebalance.delay.ms": "3000"})
    assert config.group_initial_rebalance_delay_ms == 3000


def test_node_id_is_the_broker_id_when_there_is_no_other() -> None:
    assert BrokerConfig.of({"node.id": "7"}).broker_id == 7
    assert BrokerConfig.of({"node.id": "7", "broker.id": "2"}).broker_id == 2
    assert BrokerConfig.of({}).broker_id == -1


def test_the_old_name_of_the_token_key_still_works() -> None:
    config = BrokerConfig.of({"delegation.token.master.key": "secret"})
    assert config.delegation_token_secret_key == "secret"


def test_the_wait_for_zookeeper_is_its_session_timeout_unless_set() -> None:
    assert BrokerConfig.of(CLUSTER).zookeeper_connection_wait_ms == 18_000
    quick = BrokerConfig.of(CLUSTER | {"zookeeper.connection.timeout.ms": "5"})
    assert quick.zookeeper_connection_wait_ms == 5


def test_topic_defaults_come_from_the_brokers_settings() -> None:
    config = BrokerConfig.of({"log.retention.hours": "1", "min.insync.replicas": "2"})
    assert config.log_defaults.retention_ms == 3_600_000
    assert config.log_defaults.min_insync_replicas == 2


def test_every_problem_is_told_at_once_with_its_place() -> None:
    with pytest.raises(SettingsError) as caught:
        BrokerConfig.of({"num.io.threads": "0", "log.preallocate": "maybe"})
    assert caught.value.problems == (
        "Invalid value 0 for configuration num.io.threads: must be at least 1 (given directly)",
        "Invalid value maybe for configuration log.preallocate: must be true or false "
        "(given directly)",
    )


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"broker_id": "1001"}, "broker.id must be from -1 to reserved.broker.max.id (1000)"),
        ({"broker_id": "-2"}, "broker.id must be from -1"),
        ({"broker_id_generation_enable": "false"}, "broker.id must be set"),
        ({"log_dirs": ","}, "log.dirs must name at least one directory"),
        ({"log_dirs": "/a,/a"}, "log.dirs names a directory twice"),
        ({"log_retention_ms": "0"}, "log.retention.ms must be at least 1, or -1"),
        ({"log_cleaner_dedupe_buffer_size": "1048576"}, "log.cleaner.dedupe.buffer.size must be"),
        ({"replica_fetch_wait_max_ms": "40000"}, "replica.socket.timeout.ms must not be less"),
        ({"replica_lag_time_max_ms": "400"}, "replica.lag.time.max.ms must not be less"),
        ({"connections_max_idle_ms": "50"}, "connections.max.idle.ms must not be less than"),
        ({"queued_max_request_bytes": "9"}, "queued.max.request.bytes must be at least"),
        ({"max_connections_per_ip": "0"}, "max.connections.per.ip may be 0 only with"),
        ({"max_connections_per_ip_overrides": "a:x"}, "max.connections.per.ip.overrides: 'a:x'"),
        ({"group_consumer_session_timeout_ms": "9"}, "group.consumer.session.timeout.ms must be"),
        ({"group_min_session_timeout_ms": "1800001"}, "group.min.session.timeout.ms must not"),
        ({"controller_quorum_voters": "1@a:1,2@b:1"}, "controller.quorum.voters must name one"),
        ({"process_roles": "broker"}, "process.roles must be broker,controller, because clusters"),
        ({"log_cleaner_max_compaction_lag_ms": "1", "log_cleaner_min_compaction_lag_ms": "2"},
         "log.cleaner.min.compaction.lag.ms must not exceed"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused(
    texts: dict[str, str], expected: str
) -> None:
    first, *_ = problems(**texts)
    assert first.startswith(expected)


def test_a_configuration_of_a_single_kraft_node_starts() -> None:
    config = BrokerConfig.of(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    )
    assert config.is_single
    assert [str(e) for e in config.listener_endpoints.bound] == ["PLAINTEXT://:9092"]


def test_what_has_no_effect_is_noticed_with_its_reason() -> None:
    config = BrokerConfig.of(
        {"metric.reporters": "x.Y", "num.i.o.threads": "3", "listener.name.a.num.io.threads": "1"}
    )
    assert list(config.notices()) == [
        "ignored: metric.reporters (given directly): it belongs to Kafka's own metrics library",
        "unknown: num.i.o.threads (given directly) is no setting of a broker",
        "unknown: listener.name.a.num.io.threads (given directly) is no setting of a broker",
    ]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_protects_the_operator_is_refused_rather_than_ignored(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} cannot be used: "):
        BrokerConfig.of({name: "some.Value"})
    for harmless in REFUSED[name].harmless:
        (notice,) = BrokerConfig.of({name: harmless}).notices()
        assert notice.startswith(f"ignored: {name}")


def test_no_setting_is_both_used_and_unused() -> None:
    assert not set(BrokerSettings.table) & (set(IGNORED) | set(REFUSED))


def test_dynamic_values_stand_before_static_ones_and_the_brokers_own_before_all() -> None:
    config = BrokerConfig.of({"num.io.threads": "2"})
    assert config.with_dynamic(default={"num.io.threads": "3"}, broker={}).num_io_threads == 3
    both = config.with_dynamic(default={"num.io.threads": "3"}, broker={"num.io.threads": "4"})
    assert both.num_io_threads == 4
    assert config.num_io_threads == 2
    assert [layer.texts.get("num.io.threads") for layer in both.layers()] == ["4", "3", "2", "8"]
    assert [layer.source for layer in both.layers()] == [
        Source.DYNAMIC_BROKER,
        Source.DYNAMIC_DEFAULT_BROKER,
        Source.STATIC_BROKER,
        Source.DEFAULT,
    ]


def test_dynamic_values_reach_the_topic_defaults() -> None:
    config = BrokerConfig.of({"log.retention.hours": "1"})
    changed = config.with_dynamic(default={"log.retention.ms": "5"}, broker={})
    assert changed.log_defaults.retention_ms == 5


def test_stored_names_that_cannot_change_are_passed_over() -> None:
    config = BrokerConfig.of({"broker.id": "1"})
    changed = config.with_dynamic(
        default={"broker.id": "2", "ssl.client.auth": "required"}, broker={"from.the.future": "1"}
    )
    assert (changed.broker_id, changed.ssl_client_auth) == (1, "none")


def test_a_dynamic_value_that_contradicts_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"log.retention.ms must be at least 1"):
        BrokerConfig.of({}).with_dynamic(default={"log.retention.ms": "0"}, broker={})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("broker.id", "2", "broker.id cannot be changed while the broker runs"),
        ("log.retention.hours", "2", "log.retention.hours cannot be changed while"),
        ("listeners", "PLAINTEXT://:1", "listeners cannot be set for all brokers, only for each"),
        ("listener.name.a.max.connections", "1", "listener.name.a.max.connections cannot be set"),
        ("num.io.threads", "x", "Invalid value x for configuration num.io.threads"),
        ("metric.reporters", "a.B", "metric.reporters is not used by this broker"),
        ("sasl.kerberos.kinit.cmd", "k", "sasl.kerberos.kinit.cmd is not used by this broker"),
    ],
)
def test_what_may_not_be_set_for_all_brokers(name: str, text: str, expected: str) -> None:
    (problem,) = dynamic_problems({name: text}, for_all_brokers=True)
    assert problem.startswith(expected)


def test_what_may_be_set_for_one_broker() -> None:
    texts = {
        "num.io.threads": "2",
        "listeners": "PLAINTEXT://:1",
        "listener.name.a.ssl.keystore.location": "/k",
        "sasl.kerberos.kinit.cmd": "k",
        "no.such.thing": "1",
    }
    assert dynamic_problems(texts, for_all_brokers=False) == []


def test_a_listener_has_its_own_settings_before_the_brokers() -> None:
    config = BrokerConfig.of(
        {
            "ssl.client.auth": "required",
            "max.connections": "100",
            "listener.name.internal.ssl.client.auth": "none",
            "listener.name.internal.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.internal.sasl.jaas.config": "for all",
            "listener.name.internal.scram-sha-256.sasl.jaas.config": "for scram",
        }
    )
    internal = config.for_listener("INTERNAL")
    assert internal.ssl_client_auth == "none"
    assert internal.sasl_enabled_mechanisms == ("PLAIN", "SCRAM-SHA-256")
    assert internal.max_connections == 100
    assert config.for_listener("INTERNAL", "SCRAM-SHA-256").sasl_jaas_config == "for scram"
    assert config.for_listener("INTERNAL", "PLAIN").sasl_jaas_config == "for all"
    assert config.for_listener("EXTERNAL").ssl_client_auth == "required"
    assert list(config.notices()) == []


def test_a_bad_value_for_a_listener_is_refused_under_its_full_name() -> None:
    with pytest.raises(SettingsError, match=r"for configuration listener.name.a.ssl.client.auth"):
        BrokerConfig.of({"listener.name.a.ssl.client.auth": "perhaps"})


def test_a_listeners_setting_is_dynamic_for_its_broker() -> None:
    setting = setting_of("listener.name.a.plain.sasl.jaas.config")
    assert setting is not None
    assert setting.secret
    assert setting.dynamic is Dynamic.PER_BROKER
    assert set(ListenerScope.table) < set(BrokerSettings.table)
