"""The states of a transactional id, as they are written down.

    EMPTY ──partition──▶ ONGOING ──end──▶ PREPARE_COMMIT ──markers──▶ COMPLETE_COMMIT ─┐
      ▲                     ▲       └───▶ PREPARE_ABORT ──markers──▶ COMPLETE_ABORT ───┤
      │                     └──────────────────────partition───────────────────────────┤
      └───────────────────────────────────init─────────────────────────────────────────┘

A prepared transaction is decided for good: all that is left is to write its markers. An id that
is not used for long is DEAD: its record is a tombstone. Kafka knows an eighth state, in which a
producer has been fenced but the abort is not written yet; here both are one record.
"""

from enum import IntEnum
from typing import Final


class TxnState(IntEnum):
    """The number is what stands in the log, the title what tools show."""

    title: str

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    def __new__(cls, number: int, title: str) -> "TxnState":
        state = int.__new__(cls, number)
        state._value_ = number
        state.title = title
        return state

    @property
    def is_prepared(self) -> bool:
        """Decided, but its markers are not known to be written."""
        return self in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Nothing is open and nothing is left to do."""
        return self in (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


PREPARED: Final = {True: TxnState.PREPARE_COMMIT, False: TxnState.PREPARE_ABORT}
COMPLETED: Final = {
    TxnState.PREPARE_COMMIT: TxnState.COMPLETE_COMMIT,
    TxnState.PREPARE_ABORT: TxnState.COMPLETE_ABORT,
}

# By the title that tools filter by.
BY_TITLE: Final = {state.title: state for state in TxnState}
