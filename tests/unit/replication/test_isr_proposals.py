"""Changes of the in-sync set: proposed by the leader, decided by the controller, safe always."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.partitions import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from odradek.replication.isr import IsrRules
from odradek.replication.isr_proposals import IsrProposals
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition

from tests.unit.replication.conftest import LOCAL, batch, new_partition

MAX_LAG = 10.0


class Office:
    """A controller that answers as it is told: each verdict is an error, or None for no answer."""

    def __init__(self, *verdicts: Errors | None) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[AlterPartitionRequest] = []
        self.idle = asyncio.Event()

    async def alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.asked.append(request)
        verdict = self.verdicts.pop(0)
        if not self.verdicts:
            self.idle.set()
        if verdict is None:
            raise KafkaError(Errors.NETWORK_EXCEPTION)
        (topic,) = request.topics
        (change,) = topic.partitions
        granted = verdict is Errors.NONE
        return AlterPartitionResponse(
            error_code=0,
            topics=[
                AlterPartitionResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlterPartitionResponsePartitionData(
                            partition_index=0,
                            error_code=verdict,
                            leader_id=LOCAL,
                            leader_epoch=change.leader_epoch if granted else 0,
                            isr=change.new_isr if granted else [],
                            partition_epoch=change.partition_epoch + 1 if granted else 0,
                        )
                    ],
                )
            ],
        )

    def wanted(self) -> list[list[int]]:
        return [sorted(request.topics[0].partitions[0].new_isr) for request in self.asked]


class Scene:
    def __init__(self, office: Office, *, live: set[int] | None = None) -> None:
        self.clock = ManualClock()
        self.office = office
        self.proposals = IsrProposals(
            local_id=LOCAL, broker_epoch=lambda: 7, ask_controller=office.alter
        )
        rules = IsrRules(lambda: MAX_LAG, lambda id_: live is None or id_ in live)
        self.partition = new_partition(
            self.clock, rules=rules, wants_isr_change=self.proposals.send
        )

    def lead(self, isr: tuple[int, ...], *, version: int = 0) -> None:
        self.partition.become_leader(
            epoch=5, partition_epoch=version, replicas=(LOCAL, 2, 3), isr=isr
        )

    def fetched(self, follower: int, offset: int, broker_epoch: int = 1) -> None:
        self.partition.note_follower_fetch(
            follower, fetch_offset=offset, log_start_offset=0, broker_epoch=broker_epoch
        )

    def append(self, count: int = 1) -> None:
        self.partition.append(batch(count), acks=1, produce_version=9)

    @property
    def leader(self) -> Leader:
        return _leader(self.partition)

    @property
    def hw(self) -> int:
        return self.partition.log.high_watermark

    async def settle(self) -> None:
        await asyncio.wait_for(self.office.idle.wait(), 10)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def play(office: Office, scene: Callable[[Scene], Awaitable[None]], **options: set[int]) -> None:
    async def run() -> None:
        stage = Scene(office, **options)
        await scene(stage)
        await stage.proposals.close()

    asyncio.run(run())


def _leader(partition: Partition) -> Leader:
    assert isinstance(partition.role, Leader)
    return partition.role


def test_a_follower_that_caught_up_joins_and_counts_before_the_answer():
    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        stage.fetched(2, 0)
        stage.fetched(3, 0)
        assert stage.leader.isr.maximal == {LOCAL, 2, 3}
        stage.append()
        stage.fetched(2, 1)
        assert stage.hw == 0
        await stage.settle()
        assert stage.leader.isr.committed == {LOCAL, 2, 3}
        assert stage.leader.partition_epoch == 1
        assert (
            stage.office.asked[0].topics[0].partitions[0].new_isr_with_epochs[2].broker_epoch == 1
        )

    play(Office(Errors.NONE), scene)


def test_a_follower_leaves_only_when_the_controller_agrees_and_then_holds_nothing_up():
    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2, 3))
        stage.fetched(2, 0)
        stage.fetched(3, 0)
        stage.append()
        stage.fetched(2, 1)
        stage.clock.advance(int(MAX_LAG * 1000) + 1)
        stage.fetched(2, 1)
        stage.partition.review_isr()
        assert stage.hw == 0
        await stage.settle()
        assert stage.leader.isr.committed == {LOCAL, 2}
        assert stage.hw == 1

    play(Office(Errors.NONE), scene)


def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_change():
    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        stage.fetched(3, 0)
        await stage.settle()
        assert stage.office.wanted() == [[LOCAL, 2, 3]] * 3
        assert stage.leader.isr.committed == {LOCAL, 2, 3}

    play(Office(None, Errors.NOT_CONTROLLER, Errors.NONE), scene)


def test_an_ineligible_replica_is_forgotten_at_once():
    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        stage.fetched(3, 0)
        await stage.settle()
        assert stage.leader.isr.maximal == {LOCAL, 2}

    play(Office(Errors.INELIGIBLE_REPLICA), scene)


def test_a_stale_leader_keeps_both_sets_and_waits_for_the_controller():
    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        stage.fetched(3, 0)
        await stage.settle()
        assert stage.leader.isr.maximal == {LOCAL, 2, 3}
        stage.lead((LOCAL, 3), version=4)
        assert stage.leader.isr.maximal == {LOCAL, 3}
        assert len(stage.office.asked) == 1

    play(Office(Errors.INVALID_UPDATE_VERSION), scene)


def test_an_order_that_repeats_the_known_state_does_not_forget_a_change_under_way():
    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        stage.fetched(3, 0)
        stage.lead((LOCAL, 2))
        assert stage.leader.isr.maximal == {LOCAL, 2, 3}
        await stage.settle()

    play(Office(Errors.NONE), scene)


def test_a_broker_that_is_not_alive_is_not_let_in():
    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        stage.fetched(3, 0)
        assert stage.leader.isr.proposed is None

    play(Office(), scene, live={LOCAL, 2})


def test_a_follower_that_restarted_is_known_anew():
    """Its disk may be empty: what an earlier life had fetched must not make it a member."""

    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        stage.append()
        stage.fetched(2, 1, broker_epoch=10)
        stage.fetched(2, 0, broker_epoch=11)
        progress = stage.leader.followers[2]
        assert (progress.log_end_offset, progress.broker_epoch) == (0, 11)
        assert progress.caught_up_at == float("-inf")

    play(Office(), scene)


def test_a_busy_follower_that_is_always_a_little_behind_stays_in_sync():
    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        for offset in range(100):
            stage.append()
            stage.fetched(2, offset)
            stage.clock.advance(int(MAX_LAG * 250))
        assert stage.leader.out_of_sync(stage.partition.log.log_end_offset) == frozenset()

    play(Office(), scene)


def test_what_waited_for_a_member_that_is_refused_is_committed_at_once() -> None:
    live = {2, 3}

    async def scene(stage: Scene) -> None:
        stage.lead((LOCAL, 2))
        stage.append()
        stage.fetched(2, 1)
        stage.fetched(3, 1)
        stage.append()
        stage.fetched(2, 2)
        live.discard(3)
        stage.fetched(2, 2)
        assert stage.hw == 1, "who is about to join counts, alive or not"
        await stage.settle()
        assert stage.hw == 2

    play(Office(Errors.INELIGIBLE_REPLICA), scene, live=live)
