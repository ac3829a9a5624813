"""Followers copy their leaders, whatever elections come in between."""

from odradek.replication.leader import Leader

from tests.unit.replication.conftest import batch
from tests.unit.replication.members import Members, play


def test_a_follower_copies_its_leader_and_learns_the_high_watermark():
    async def scene():
        members = Members(1, 2, 3)
        members.elect(1, 0)
        members[1].append(3)
        members[1].append(2)
        logs = [members[i].partition.log for i in (1, 2, 3)]
        await members.until(lambda: all(log.high_watermark == 5 for log in logs))
        assert members[1].story == members[2].story == members[3].story == [(0, 0), (3, 0)]
        await members.close()

    play(scene)


def test_nothing_acknowledged_is_lost_when_followers_restart_and_the_leader_changes():
    """A follower whose high watermark lags is elected right after it followed again: what it has
    above that high watermark was acknowledged, so it must not have cut it (KIP-101)."""

    async def scene():
        members = Members(1, 2)
        members.elect(1, 0)
        members[1].append(2)
        log = members[2].partition.log
        await members.until(lambda: members[1].partition.log.high_watermark == 2)
        members[1].is_up = False
        log.high_watermark = 1  # as after a crash before the checkpoint
        members.elect(1, 0, tell=(2,))
        members.elect(2, 1, tell=(2,))
        assert members[2].story == [(0, 0)]
        assert log.log_end_offset == 2
        await members.close()

    play(scene)


def test_a_deposed_leader_cuts_what_only_it_had():
    async def scene():
        members = Members(1, 2)
        members.elect(1, 0)
        members[1].append()
        await members.until(lambda: members[2].partition.log.log_end_offset == 1)
        members.elect(2, 1, tell=(2,))
        members[1].append()
        members[1].append()
        members[2].append()
        members.elect(2, 1, tell=(1,))
        await members.until(lambda: members[1].story == members[2].story)
        assert members[1].story == [(0, 0), (1, 1)]
        assert members[1].partition.log.epochs.entries == members[2].partition.log.epochs.entries
        await members.close()

    play(scene)


def test_logs_agree_after_two_quick_changes_of_leader():
    """Each broker wrote an epoch the other does not know: one round of asking is not enough
    (KIP-279)."""

    async def scene():
        members = Members(1, 2)
        members.elect(1, 0)
        members[1].append()
        await members.until(lambda: members[2].partition.log.log_end_offset == 1)
        members[1].is_up = False
        members.elect(2, 1, tell=(2,))
        members[2].append()
        members.elect(1, 2, tell=(1,))
        members[1].append()
        members[1].append()
        members[1].is_up = True
        members.elect(1, 3, tell=(1,))
        members.elect(1, 3, tell=(2,))
        await members.until(lambda: members[1].story == members[2].story)
        assert members[2].story == [(0, 0), (1, 2), (2, 2)]
        await members.close()

    play(scene)


def test_an_epoch_without_records_does_not_keep_a_follower_cutting_for_ever():
    async def scene():
        members = Members(1, 2)
        for epoch in range(4):
            members.elect(1 + epoch % 2, epoch)
        members[2].append()
        await members.until(lambda: members[1].partition.log.high_watermark == 1)
        assert members[1].story == [(0, 3)]
        await members.close()

    play(scene)


def test_a_follower_reconciles_on_a_new_epoch_of_the_same_leader():
    async def scene():
        members = Members(1, 2, 3)
        members.elect(1, 0)
        members[1].append()
        await members.until(lambda: members[3].partition.log.log_end_offset == 1)
        # Broker 3 leads an epoch that broker 2 never hears of, and writes what nobody else gets.
        members.elect(3, 1, tell=(3,))
        members[3].append()
        members.elect(1, 2)
        members[1].append()
        await members.until(lambda: members[3].story == members[1].story)
        assert members[3].story == [(0, 0), (1, 2)]
        await members.close()

    play(scene)


def test_a_fetcher_that_lost_its_partition_changes_nothing():
    async def scene():
        members = Members(1, 2)
        members.elect(1, 0)
        await members.until(lambda: _has_fetched(members[1].partition.role, 2))
        # The answer to the fetch that is parked now belongs to an epoch that is over.
        members.elect(2, 1, tell=(2,))
        members[1].append()
        members[2].append()
        await members.until(lambda: not members[1].partition.data_waiters.parked)
        assert members[2].story == [(0, 1)]
        await members.close()

    play(scene)


def test_a_new_follower_begins_where_the_leaders_log_begins():
    async def scene():
        members = Members(1, 2)
        members.elect(1, 0, tell=(1,))
        leader = members[1].partition
        leader.become_leader(epoch=1, partition_epoch=1, replicas=(1,), isr=(1,))
        for _ in range(4):
            members[1].append()
        leader.log.advance_log_start(3)
        leader.become_leader(epoch=2, partition_epoch=2, replicas=(1, 2), isr=(1,))
        members.elect(1, 2, tell=(2,))
        log = members[2].partition.log
        await members.until(lambda: log.log_end_offset == 4)
        assert (log.log_start_offset, members[2].story) == (3, [(3, 1)])
        await members.close()

    play(scene)


def test_a_follower_follows_a_leader_that_was_elected_with_less():
    async def scene():
        members = Members(1, 2)
        members.elect(2, 0, tell=(2,))
        members[2].append()
        members[2].append()
        members.elect(1, 1)
        await members.until(lambda: members[2].partition.log.log_end_offset == 0)
        members[1].append()
        await members.until(lambda: members[2].story == [(0, 1)])
        await members.close()

    play(scene)


def test_a_follower_takes_batches_above_its_own_size_limit():
    async def scene():
        members = Members(1, 2)
        members.elect(1, 0)
        follower = members[2].partition.log
        follower.use_config(follower.config.with_overrides({"max.message.bytes": "1"}))
        members[1].append(10)
        await members.until(lambda: follower.log_end_offset == 10)
        await members.close()

    play(scene)


def test_a_follower_outlives_its_leaders_absence():
    async def scene():
        members = Members(1, 2)
        members[1].is_up = False
        members.elect(1, 0)
        members[1].partition.append(batch(), acks=1, produce_version=9)
        members[1].is_up = True
        await members.until(lambda: members[2].partition.log.log_end_offset == 1)
        await members.close()

    play(scene)


def _has_fetched(role, follower):
    return isinstance(role, Leader) and role.followers[follower].log_end_offset >= 0


def test_a_leader_that_answers_nonsense_is_asked_again():
    async def scene():
        members = Members(1, 2)
        members.elect(1, 0)
        members[1].append()
        copy = members[2].partition.log
        await members.until(lambda: copy.log_end_offset == 1)
        members[1].garbled = 1
        members[1].append()
        await members.until(lambda: copy.log_end_offset == 2)
        assert members[1].garbled == 0, "it did answer nonsense"
        await members.close()

    play(scene)
