"""The cluster as clients see it: its brokers, its controller, its disks."""

import pytest

from tests.clients.driver import Client, Record


@pytest.mark.ability("describe_cluster")
def test_the_cluster_is_the_broker_that_was_dialled(client: Client, bootstrap: str) -> None:
    cluster = client.describe_cluster()
    (broker,) = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap.replace("localhost", "127.0.0.1")
    assert cluster["controller"] == broker["id"]


@pytest.mark.ability("describe_cluster", "cluster_id")
def test_all_clients_see_one_cluster_id(client: Client, reference: Client) -> None:
    cluster_id = client.describe_cluster()["cluster_id"]
    assert cluster_id == reference.describe_cluster()["cluster_id"]
    assert len(cluster_id) == 22


@pytest.mark.ability("describe_log_dirs")
def test_log_directories_tell_the_size_of_partitions(
    client: Client, reference: Client, new_name: str
) -> None:
    reference.create_topic(new_name, partitions=2)
    reference.produce(new_name, [Record(bytes(5000))], partition=1)
    sizes = client.describe_log_dirs(new_name)
    assert sizes[0] == 0
    assert 5000 < sizes[1] < 6000
