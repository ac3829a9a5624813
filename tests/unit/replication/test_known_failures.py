"""What replicated logs have got wrong before, where no other test is about it."""

from odradek.replication.fetcher import Followed
from odradek.replication.leader import Leader

from tests.unit.replication.conftest import batch, new_partition
from tests.unit.replication.members import Members, play


def test_the_high_watermark_stands_still_below_the_least_in_sync_replicas(clock):
    """Else a lone leader would show as committed what nobody else has."""
    partition = new_partition(clock, **{"min.insync.replicas": "2"})
    partition.become_leader(epoch=0, partition_epoch=0, replicas=(1, 2, 3), isr=(1,))
    partition.append(batch(), acks=1, produce_version=9)
    assert partition.log.high_watermark == 0
    partition.isr_granted(epoch=0, partition_epoch=1, isr=(1, 2))
    partition.note_follower_fetch(2, fetch_offset=1, log_start_offset=0, broker_epoch=-1)
    assert partition.log.high_watermark == 1


def test_a_fetch_that_shows_a_divergence_is_no_progress_and_moves_no_high_watermark(monkeypatch):
    """The deposed leader asks for what comes after records that the new leader does not have: the
    new one must not count them as copied, and the old one must not take its high watermark."""

    async def scene() -> None:
        members = Members(1, 2)
        members.elect(1, 0)
        members[1].append(1)
        await members.until(lambda: members[2].partition.log.log_end_offset == 1)
        members[2].is_up = False
        members.elect(1, 0, tell=(1,))
        members[1].append(4)
        members[2].is_up = True
        members.elect(2, 1, tell=(2,))
        members[2].append(1)
        leader = members[2].partition.leading()
        seen: list[int] = []
        follower_log = members[1].partition.log
        note = Leader.note_fetch

        def noted(self, *arguments, **named):
            assert self is leader
            seen.append(named["fetch_offset"])
            return note(self, *arguments, **named)

        monkeypatch.setattr(Leader, "note_fetch", noted)
        members.elect(2, 1, tell=(1,))
        await members.until(lambda: follower_log.high_watermark == 2)
        assert members[1].story == members[2].story == [(0, 0), (1, 1)]
        assert max(seen) == 2, "the offset after the four that were cut is never counted"
        await members.close()

    play(scene)


def test_an_empty_answer_leaves_the_last_epoch_that_a_follower_asks_with():
    async def scene() -> None:
        members = Members(1, 2)
        members.elect(1, 3)
        members[1].append(1)
        follower = members[2].partition
        await members.until(lambda: follower.log.high_watermark == 1)
        asked = Followed(follower, 3).wanted()
        follower.append_fetched(b"", leader_hw=1, leader_log_start=0)
        assert Followed(follower, 3).wanted() == asked
        assert asked.last_epoch == 3
        await members.close()

    play(scene)
