"""The batches of one partition on their way: what may be sent next, and how it is numbered.

A queue holds the batches that wait, oldest first; the last of them may still take records. Sent
batches are `unanswered` until their answer comes; one that has to be sent again returns to its old
place. Order is kept: while anything is being repeated, one batch at a time is under way.

With idempotence every batch carries (producer id, epoch, sequence), given when it is first sent,
and the broker takes them only without gaps. A batch that failed for good leaves a gap; what
follows can then only be written under a new epoch, which starts again at 0. That must not write
anything twice, so a batch whose fate is unknown is first repeated under its old number: the broker
either knows it, or refuses it and thereby says that it was not written.

A broker that knows nothing of a producer takes any number from it. So the first batch of an epoch
goes alone: were it refused, as by a leader that is only about to be one, and the second taken, the
two would be in the wrong order for good.

Pure state, owned by `sender`; no I/O happens here.
"""

from collections import deque
from typing import Final, NamedTuple

from odradek.client.batch import SEQUENCES, Batch
from odradek.protocol.types import TopicPartition

MAX_EPOCH: Final = (1 << 15) - 1


class Identity(NamedTuple):
    """Who produces."""

    producer_id: int = -1
    epoch: int = -1

    @property
    def is_known(self) -> bool:
        return self.producer_id >= 0

    def bumped(self) -> "Identity | None":
        """The next epoch; None when the id has none left and a new id is needed."""
        if self.epoch >= MAX_EPOCH:
            return None
        return Identity(self.producer_id, self.epoch + 1)


class PartitionQueue:
    __slots__ = (
        "failures",
        "has_gap",
        "identity",
        "is_introduced",
        "next_sequence",
        "not_before",
        "open",
        "partition",
        "unanswered",
        "waiting",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[Batch] = deque()
        self.unanswered: dict[int, Batch] = {}
        self.open: Batch | None = None
        self.identity = Identity()
        self.next_sequence = 0
        # Whether the broker has written something under this identity.
        self.is_introduced = False
        self.has_gap = False
        # Not to be tried before this time, after this many failures in a row.
        self.not_before = 0.0
        self.failures = 0

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.unanswered

    @property
    def is_repeating(self) -> bool:
        return bool(self.waiting) and self.waiting[0].attempts > 0

    def may_send(self) -> bool:
        """Whether its age or size, and the order, let the first waiting batch leave."""
        if not self.waiting or not (self.waiting[0] is not self.open or self.open.is_ripe):
            return False
        return not self.unanswered or not (self.is_repeating or self.has_gap)

    def needs_new_epoch(self, current: Identity) -> bool:
        """Whether the first waiting batch can only be written under a new epoch."""
        if not self.has_gap or self.unanswered or not self.waiting:
            return False
        first = self.waiting[0]
        return self.identity == current and (first.attempts == 0 or first.is_refused)

    def may_number(self, current: Identity) -> bool:
        """Whether the first waiting batch has its number, or can be given one now."""
        first = self.waiting[0]
        if first.base_sequence >= 0 and not first.is_refused:
            return True
        return not self.unanswered or (self.identity == current and self.is_introduced)

    def number(self, current: Identity) -> None:
        """Give the first waiting batch its number."""
        first = self.waiting[0]
        if self.identity != current and not self.unanswered:
            if first.base_sequence >= 0 and not first.is_refused:
                return
            self.start_over(current)
        if first.base_sequence < 0:
            first.producer = self.identity
            first.base_sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + len(first.records)) % SEQUENCES

    def start_over(self, identity: Identity) -> None:
        """Number everything that waits anew, from 0, under another epoch."""
        assert not self.unanswered, "an answer under the old epoch may still come"
        self.identity = identity
        self.next_sequence = 0
        self.is_introduced = False
        self.has_gap = False
        for batch in self.waiting:
            batch.base_sequence = -1
            batch.is_refused = False
            batch.encoded = None

    def take(self) -> Batch:
        """The first waiting batch, which is now under way."""
        batch = self.waiting.popleft()
        if batch is self.open:
            self.open = None
        batch.attempts += 1
        self.unanswered[batch.order] = batch
        return batch

    def written(self, batch: Batch) -> None:
        self.settled(batch)
        if batch.producer == self.identity:
            self.is_introduced = True

    def settled(self, batch: Batch) -> None:
        """The batch was written, or failed for good."""
        self.unanswered.pop(batch.order, None)

    def put_back(self, batch: Batch) -> None:
        """Have the batch sent again, at its old place among the others."""
        del self.unanswered[batch.order]
        self._insert(batch)

    def _insert(self, batch: Batch) -> None:
        place = 0
        for other in self.waiting:
            if other.order > batch.order:
                break
            place += 1
        self.waiting.insert(place, batch)

    def is_first(self, batch: Batch) -> bool:
        """Whether every batch before this one has been answered for good."""
        earlier = [*self.unanswered, *(other.order for other in self.waiting)]
        return all(order >= batch.order for order in earlier)

    def replace_with(self, batch: Batch, parts: tuple[Batch, ...]) -> None:
        """Put the halves of a batch that was under way into its place."""
        del self.unanswered[batch.order]
        for part in parts:
            self._insert(part)
