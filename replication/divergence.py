"""Where a follower's log parts from its leader's: pure decisions about truncation.

A follower never truncates to its high watermark while it knows leader epochs: the high watermark
lags, and what lies above it may be acknowledged. It compares epochs instead. The leader names the
largest epoch it knows that is not above the follower's last one, and where that ended. Knows the
follower that epoch too, their common past ends where the shorter of both has it end. Does it not,
everything after the end of its own next lower epoch is of another past; it cuts that and asks
again.
"""

from odradek.storage.epochs import NO_EPOCH, NO_OFFSET, EpochEnd


def truncation_offset(*, leader: EpochEnd, own: EpochEnd, log_end_offset: int) -> int:
    """Where to cut the follower's log.

    `leader` is the leader's word; `own` is where the follower's log has the epoch end that the
    leader named, or the largest one below that.
    """
    if own.epoch == NO_EPOCH or own.end_offset == NO_OFFSET:
        return min(leader.end_offset, log_end_offset)
    if own.epoch != leader.epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, leader.end_offset, log_end_offset)


def restart_offset(*, log_end_offset: int, leader_start: int, leader_end: int) -> tuple[int, bool]:
    """Where to go on after the leader said that an offset is out of its range, and whether all that
    is there must go.

    A leader that ends below us was elected though it lacked records: we follow it. One that begins
    above us has deleted what we would ask for next: our records would leave a gap.
    """
    if leader_end < log_end_offset:
        return leader_end, False
    if leader_start > log_end_offset:
        return leader_start, True
    return log_end_offset, False
