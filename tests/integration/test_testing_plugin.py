"""The fixtures that pytest finds where Odradek is installed: alone, and under xdist."""

import socket
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

USE_ALL = """
    from odradek.client.sync import SyncConsumer, SyncProducer

    def test_round_trip(odradek_broker, kafka_topic, kafka_group):
        where = odradek_broker.bootstrap_servers
        with SyncProducer(bootstrap_servers=where) as producer:
            assert producer.send(kafka_topic, b"a").result(30).offset == 0
        with SyncConsumer(
            bootstrap_servers=where, group_id=kafka_group, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([kafka_topic])
            assert [record.value for record in consumer.poll(30)] == [b"a"]
"""

# Each test notes the broker it met, and takes long enough for every worker to get some.
NOTE_BROKERS = """
    import pytest
    from odradek.client.sync import SyncProducer

    @pytest.mark.parametrize("number", range(8))
    def test_note(odradek_broker, kafka_topic, number, worker_id, request):
        where = odradek_broker.bootstrap_servers
        with SyncProducer(bootstrap_servers=where) as producer:
            assert producer.send(kafka_topic, b"a").result(30).offset == 0
        note = request.config.rootpath / f"note-{number}"
        note.write_text(f"{worker_id} {where}")
"""

FAULTS = """
    import pytest
    from odradek.client.sync import SyncProducer

    @pytest.mark.parametrize("number", range(4))
    def test_first_attempt_fails(odradek_broker, kafka_topic, kafka_faults, number):
        rule = kafka_faults.add(
            api="Produce", topic=kafka_topic, error="NOT_LEADER_OR_FOLLOWER", times=1
        )
        with SyncProducer(bootstrap_servers=odradek_broker.bootstrap_servers) as producer:
            assert producer.send(kafka_topic, b"a").result(30).offset == 0
        assert (rule.hits, kafka_faults.hits) == (1, 1)

    def test_a_fault_for_everybody_is_refused(kafka_faults):
        with pytest.raises(ValueError, match="shared by all tests"):
            kafka_faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")

    def test_a_mistake_is_told(kafka_faults, kafka_topic):
        with pytest.raises(ValueError, match="did you mean 'Produce'"):
            kafka_faults.add(api="Prodcue", topic=kafka_topic, error="NOT_LEADER_OR_FOLLOWER")
"""


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Run a test module in a pytest of its own, which finds the plugin by itself."""

    def run(text: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(text)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)

    return run


def test_topic_group_and_broker_work_together(run) -> None:
    run(USE_ALL).assert_outcomes(passed=1)


def test_all_workers_share_one_broker_which_ends_with_the_run(run, pytester) -> None:
    run(NOTE_BROKERS, "-n", "2").assert_outcomes(passed=8)
    notes = [note.read_text().split() for note in pytester.path.glob("note-*")]
    workers, brokers = ({note[column] for note in notes} for column in (0, 1))
    assert len(workers) == 2
    (broker,) = brokers
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(broker.split(":"))


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_faults_are_for_one_test_and_end_with_it(run, options: tuple[str, ...]) -> None:
    run(FAULTS, *options).assert_outcomes(passed=6)


def test_the_topics_partitions_and_settings_come_by_a_mark(run) -> None:
    run(
        """
        import pytest
        from odradek.client.sync import SyncAdmin

        @pytest.mark.kafka_topic(partitions=3, retention_ms=1000)
        def test_marked(odradek_broker, kafka_topic):
            with SyncAdmin(bootstrap_servers=odradek_broker.bootstrap_servers) as admin:
                found = admin.run(lambda client: client.describe_topics([kafka_topic]))
                assert len(found[kafka_topic].partitions) == 3
        """,
        "--strict-markers",
    ).assert_outcomes(passed=1)


def test_clusters_are_made_for_a_test(run) -> None:
    run(
        """
        from odradek.client.sync import SyncProducer

        def test_failover(odradek_cluster):
            cluster = odradek_cluster(2, topics={"orders": 1})
            with SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                assert producer.send("orders", b"a").result(30).offset == 0
                cluster.stop_broker(1)
                assert producer.send("orders", b"b").result(30).offset == 1
        """
    ).assert_outcomes(passed=1)


def test_a_run_that_uses_nothing_imports_nothing() -> None:
    """Beside pytest itself, and what pytest imports anyway."""
    code = (
        "import sys, pytest\n"
        "import odradek.testing.plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('odradek')))"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "['odradek', 'odradek.testing', 'odradek.testing.plugin']"
