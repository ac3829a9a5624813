"""Groups of the consumer protocol on a cluster: coordinators die, members do not notice."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.integration.group_party import Party
from tests.support.cluster_processes import ProcessCluster
from tests.support.zookeeper import ZooKeeper

QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 500,
}


@pytest.mark.timeout(600)
def test_a_group_is_not_rebalanced_when_its_coordinators_are_killed(
    zookeeper: ZooKeeper, tmp_path: Path
) -> None:
    connect = f"{zookeeper.connect}/consumers-{uuid4().hex[:8]}"
    with (
        ProcessCluster(tmp_path, connect, 3, overrides=QUICK) as cluster,
        Party(cluster.bootstrap, "killed", replicas=3) as party,
    ):
        members = [party.join("confluent-consumer", "uniform") for _ in range(3)]
        party.wait_shared(members, each=2)
        changes = [len(member.changes) for member in members]
        for number in cluster.brokers:
            cluster.until("__consumer_offsets", lambda p: len(p.isr) == 3)
            cluster.until(party.topic, lambda p: len(p.isr) == 3)
            cluster.kill(number)
            party.send(60)
            party.wait_all_read(timeout=60)
            cluster.start(number)
        assert [len(member.changes) for member in members] == changes
        assert party.describe().state.name == "STABLE"
        members.append(party.join("confluent-consumer", "uniform"))
        party.wait(lambda: all(member.assigned for member in members), "the newcomer has a share")
        party.send(60)
        party.wait_all_read()
        assert not cluster.alarms()
