"""What the variables of a container mean, as in the images that people have."""

import pytest
from odradek.broker.config import Given
from odradek.broker.container import log_level, notices, own_address, plan, ready_lines
from odradek.broker.wanted_topics import WantedTopic
from odradek.protocol.settings import SettingsError

# As the documentation of apache/kafka has it, for one node that is broker and controller.
APACHE = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093,PLAINTEXT_HOST://:29092",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,PLAINTEXT_HOST://localhost:29092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
    ),
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_METADATA_LOG_SEGMENT_BYTES": "1048576",
    "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
}
# As Confluent's examples have it: what is opened is not said.
CONFLUENT = {
    "KAFKA_BROKER_ID": "2",
    "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
    "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://kafka2:19092,EXTERNAL://localhost:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
    "KAFKA_HEAP_OPTS": "-Xmx1g",
    "KAFKA_OPTS": "-Dx=y",
}


def ends(endpoints: object) -> list[str]:
    assert isinstance(endpoints, tuple)
    return [f"{end.listener}://{end.host}:{end.port}" for end in endpoints]


def test_an_environment_for_one_kraft_node_gives_one_broker() -> None:
    config = plan(APACHE).config
    assert config.is_single
    assert config.broker_id == 1
    assert ends(config.listener_endpoints.bound) == ["PLAINTEXT://:9092", "PLAINTEXT_HOST://:29092"]
    assert ends(config.listener_endpoints.advertised) == [
        "PLAINTEXT://kafka:9092",
        "PLAINTEXT_HOST://localhost:29092",
    ]
    assert plan(APACHE).cluster_id == "5L6g3nShT-eMCtK--X86sw"


def test_what_only_kraft_knows_is_named_in_one_line() -> None:
    (line,) = notices(plan(APACHE).config)
    assert line.startswith(
        "ignored: controller.listener.names, controller.quorum.voters, metadata.log.segment.bytes, "
        "process.roles: it belongs to KRaft"
    )


def test_several_kraft_nodes_are_refused() -> None:
    with pytest.raises(SettingsError, match="ZooKeeper"):
        plan({**APACHE, "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093"})


def test_listeners_follow_from_what_is_advertised() -> None:
    config = plan(CONFLUENT).config
    assert config.zookeeper_connect == "zookeeper:2181"
    assert ends(config.listener_endpoints.bound) == [
        "INTERNAL://0.0.0.0:19092",
        "EXTERNAL://0.0.0.0:9093",
    ]
    assert not list(notices(config))


def test_listeners_that_are_given_stand() -> None:
    given = {**CONFLUENT, "KAFKA_LISTENERS": "INTERNAL://:1,EXTERNAL://:2"}
    assert ends(plan(given).config.listener_endpoints.bound) == ["INTERNAL://:1", "EXTERNAL://:2"]


def test_an_advertised_listener_without_a_form_is_named_with_its_variable() -> None:
    with pytest.raises(SettingsError, match=r"'kafka:9092' .* \(KAFKA_ADVERTISED_LISTENERS\)"):
        plan({"KAFKA_ADVERTISED_LISTENERS": "kafka:9092"})


def test_without_any_variable_there_is_one_broker_on_port_9092() -> None:
    found = plan({"PATH": "/bin"})
    assert found.config.is_single
    assert found.config.data_dirs == ("/var/lib/kafka/data",)
    assert own_address(found.config.listener_endpoints) == "localhost:9092"
    assert (found.topics, found.cluster_id) == ((), None)


def test_bitnamis_prefix_names_settings_too() -> None:
    found = plan(
        {
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstuv",
            "KAFKA_ENABLE_KRAFT": "yes",
            "ALLOW_PLAINTEXT_LISTENER": "yes",
        },
        mounted={"/bitnami/kafka"},
    )
    assert found.config.broker_id == 0
    assert found.config.data_dirs == ("/bitnami/kafka/data",)
    assert found.cluster_id == "abcdefghijklmnopqrstuv"
    assert len(list(notices(found.config))) == 1


@pytest.mark.parametrize(
    ("mounted", "directory"),
    [
        ((), "/var/lib/kafka/data"),
        (("/var/lib/kafka/data",), "/var/lib/kafka/data"),
        (("/tmp/kraft-combined-logs",), "/tmp/kraft-combined-logs"),
        (("/tmp/kraft-combined-logs", "/var/lib/kafka/data"), "/var/lib/kafka/data"),
    ],
)
def test_data_goes_where_the_volume_is(mounted: tuple[str, ...], directory: str) -> None:
    assert plan({}, mounted=mounted).config.data_dirs == (directory,)
    chosen = plan({"KAFKA_LOG_DIRS": "/data"}, mounted=mounted)
    assert chosen.config.data_dirs == ("/data",)


def test_variables_stand_before_the_mounted_file_and_that_before_the_images_defaults() -> None:
    file = {
        name: Given(text, "file") for name, text in (("num.partitions", "3"), ("log.dirs", "/f"))
    }
    config = plan({"KAFKA_NUM_PARTITIONS": "5"}, file=file).config
    assert config.num_partitions == 5
    assert config.data_dirs == ("/f",)


def test_an_empty_zookeeper_is_none() -> None:
    assert plan({"KAFKA_ZOOKEEPER_CONNECT": ""}).config.is_single


def test_zookeeper_is_waited_for_unless_a_time_is_given() -> None:
    assert plan(CONFLUENT).config.zookeeper_connection_timeout_ms == 40_000
    hasty = plan({**CONFLUENT, "KAFKA_ZOOKEEPER_CONNECTION_TIMEOUT_MS": "5"})
    assert hasty.config.zookeeper_connection_timeout_ms == 5


def test_leadership_is_handed_over_or_given_up_before_docker_kills() -> None:
    config = plan(CONFLUENT).config
    retries = config.controlled_shutdown_max_retries
    assert retries * config.controlled_shutdown_retry_backoff_ms <= 10_000 * 2 // 3


def test_topics_are_listed_in_one_variable() -> None:
    found = plan({"KAFKA_CREATE_TOPICS": "orders:6:3, users:3:1:compact,\n events"})
    assert found.topics == (
        WantedTopic("orders", 6, 3),
        WantedTopic("users", 3, 1, "compact"),
        WantedTopic("events"),
    )
    assert found.topics[1].configs == {"cleanup.policy": "compact"}
    assert not list(notices(found.config))
    with pytest.raises(SettingsError, match="KAFKA_CREATE_TOPICS: 'orders:many'"):
        plan({"KAFKA_CREATE_TOPICS": "orders:many"})


def test_names_that_nobody_knows_are_named_in_one_line() -> None:
    config = plan({"KAFKA_PORT": "tcp://10.0.0.1:9092", "KAFKA_SERVICE_HOST": "10.0.0.1"}).config
    assert list(notices(config)) == ["ignored: port, service.host: no setting of a broker"]


def test_the_container_finds_its_broker_by_the_listener_of_the_brokers() -> None:
    assert own_address(plan(CONFLUENT).config.listener_endpoints) == "localhost:19092"
    bound = {"KAFKA_LISTENERS": "PLAINTEXT://[fd00::1]:9095"}
    assert own_address(plan(bound).config.listener_endpoints) == "[fd00::1]:9095"


@pytest.mark.parametrize(
    ("variable", "level"),
    [("DEBUG", "debug"), ("warn", "warning"), ("FATAL", "error"), ("", "info"), ("odd", "info")],
)
def test_the_level_of_log4js_root_logger_is_ours(variable: str, level: str) -> None:
    assert log_level({"KAFKA_LOG4J_ROOT_LOGLEVEL": variable}) == level


def test_a_broker_that_serves_says_what_kafka_says() -> None:
    said = "\n".join(ready_lines(7))
    for awaited in (
        "[KafkaServer id=7] started",
        "Kafka Server started",
        "Transitioning from RECOVERY to RUNNING",
    ):
        assert awaited in said
