"""Where a follower's log is cut, and what is said of it. The decisions are in `divergence`."""

import logging

from odradek.replication.divergence import restart_offset, truncation_offset
from odradek.replication.partition import Partition
from odradek.storage.epochs import NO_EPOCH, EpochEnd

_log = logging.getLogger(__name__)


def truncate(partition: Partition, leader: EpochEnd) -> None:
    log = partition.log
    offset = truncation_offset(
        leader=leader,
        own=log.end_offset_for_epoch(leader.epoch),
        log_end_offset=log.log_end_offset,
    )
    if offset < log.high_watermark:
        _log.warning(
            "%s is cut to %d, below its high watermark %d",
            partition.where,
            offset,
            log.high_watermark,
        )
    _log.info("%s is cut from %d to %d", partition.where, log.log_end_offset, offset)
    log.truncate_to(offset)


def move_into_range(partition: Partition, start: int, end: int) -> None:
    log = partition.log
    offset, is_empty = restart_offset(
        log_end_offset=log.log_end_offset, leader_start=start, leader_end=end
    )
    _log.info("%s goes on at %d: the leader has %d to %d", partition.where, offset, start, end)
    if is_empty:
        log.truncate_fully_and_start_at(offset)
    else:
        log.truncate_to(offset)


def forget_uncertain(partition: Partition) -> None:
    """Records without any known epoch can only be trusted up to the high watermark."""
    log = partition.log
    if log.epochs.latest_epoch == NO_EPOCH and log.log_end_offset > log.high_watermark:
        log.truncate_to(log.high_watermark)
