"""How batches of a partition are ordered and numbered, told as transcripts.

A script says what happens; the transcript says what is sent with which numbers, as
`batch@epoch:sequence`. Every batch has ten records.
"""

from typing import Self

import pytest
from odradek.client.batch import Batch
from odradek.client.queue import MAX_EPOCH, Identity, PartitionQueue
from odradek.protocol.types import TopicPartition

PARTITION = TopicPartition("orders", 0)


class Script:
    """Plays the sender against a queue."""

    def __init__(self) -> None:
        self.queue = PartitionQueue(PARTITION)
        self.identity = Identity(7, 0)
        self.batches: dict[str, Batch] = {}
        self.sent: list[str] = []

    def introduce(self) -> Self:
        """The broker has written something of this producer before."""
        self.queue.identity = self.identity
        self.queue.is_introduced = True
        return self

    def run(self, script: str) -> str:
        for step in script.split("; "):
            verb, _, name = step.partition(" ")
            getattr(self, verb)(name)
        return " ".join(self.sent)

    def add(self, name: str) -> None:
        batch = Batch(PARTITION, len(self.batches) << 32, 0.0, 1000)
        batch.records = [(0, None, b"x", ())] * 10
        self.batches[name] = batch
        self.queue.waiting.append(batch)

    def send(self, _: str) -> None:
        """Send whatever may be sent."""
        queue = self.queue
        while queue.may_send():
            if queue.needs_new_epoch(self.identity):
                bumped = self.identity.bumped()
                assert bumped is not None
                self.identity = bumped
            if not queue.may_number(self.identity):
                return
            queue.number(self.identity)
            batch = queue.take()
            name = next(name for name, known in self.batches.items() if known is batch)
            self.sent.append(f"{name}@{batch.producer[1]}:{batch.base_sequence}")

    def written(self, name: str) -> None:
        self.queue.written(self.batches[name])

    def lost(self, name: str) -> None:
        """The connection broke: nobody knows."""
        self.queue.put_back(self.batches[name])

    def refused(self, name: str) -> None:
        """The broker wants another number."""
        batch = self.batches[name]
        batch.is_refused = True
        if self.queue.is_first(batch):
            self.queue.has_gap = True
        self.queue.put_back(batch)

    def failed(self, name: str) -> None:
        self.queue.settled(self.batches[name])
        self.queue.has_gap = True

    def elsewhere(self, _: str) -> None:
        """Another partition needed a new epoch."""
        bumped = self.identity.bumped()
        assert bumped is not None
        self.identity = bumped


@pytest.mark.parametrize(
    ("script", "sent"),
    [
        pytest.param(
            "add a; add b; add c; send",
            "a@0:0 b@0:10 c@0:20",
            id="batches follow each other without waiting",
        ),
        pytest.param(
            "add a; add b; send; lost a; lost b; add c; send; written a; send; written b; send",
            "a@0:0 b@0:10 a@0:0 b@0:10 c@0:20",
            id="repeats go one at a time, in order, under their old numbers",
        ),
        pytest.param(
            "add a; add b; send; lost b; lost a; send; written a; send",
            "a@0:0 b@0:10 a@0:0 b@0:10",
            id="whichever comes back first, order is kept",
        ),
        pytest.param(
            "add a; add b; send; lost a; refused b; send; written a; send",
            "a@0:0 b@0:10 a@0:0 b@0:10",
            id="a batch refused because the one before is missing keeps its number",
        ),
        pytest.param(
            "add a; add b; add c; send; failed a; refused b; refused c; send; written b; send",
            "a@0:0 b@0:10 c@0:20 b@1:0 c@1:10",
            id="after a gap everything refused is numbered anew",
        ),
        pytest.param(
            "add a; add b; send; failed a; lost b; send; refused b; send",
            "a@0:0 b@0:10 b@0:10 b@1:0",
            id="a batch of unknown fate is repeated as it was before it is numbered anew",
        ),
        pytest.param(
            "add a; add b; send; failed a; add c; send; written b; send",
            "a@0:0 b@0:10 c@1:0",
            id="new batches wait until the old epoch has nothing under way",
        ),
        pytest.param(
            "add a; send; elsewhere; add b; send; written a; send",
            "a@0:0 b@1:0",
            id="a new epoch is taken over when nothing of the old one is open",
        ),
        pytest.param(
            "add a; send; elsewhere; lost a; send; written a; add b; send",
            "a@0:0 a@0:0 b@1:0",
            id="a repeat keeps the epoch it was first sent with",
        ),
    ],
)
def test_numbers_and_order(script: str, sent: str) -> None:
    assert Script().introduce().run(script) == sent


@pytest.mark.parametrize(
    ("script", "sent"),
    [
        pytest.param(
            "add a; add b; add c; send; written a; send",
            "a@0:0 b@0:10 c@0:20",
            id="the others follow when it is written",
        ),
        pytest.param(
            "add a; add b; send; lost a; send; written a; send",
            "a@0:0 a@0:0 b@0:10",
            id="it is repeated before anything else is sent",
        ),
        pytest.param(
            "add a; add b; add c; send; failed a; send; written b; send",
            "a@0:0 b@1:0 c@1:10",
            id="when it fails the next is the first of a new epoch",
        ),
    ],
)
def test_the_first_batch_of_an_epoch_goes_alone(script: str, sent: str) -> None:
    assert Script().run(script) == sent
    assert Script().run(script.partition("; send")[0] + "; send") == "a@0:0"


def test_sequences_wrap() -> None:
    script = Script().introduce()
    script.queue.next_sequence = (1 << 31) - 5
    assert script.run("add a; add b; send") == f"a@0:{(1 << 31) - 5} b@0:5"


def test_an_id_without_epochs_left_has_to_be_replaced() -> None:
    assert Identity(7, 3).bumped() == Identity(7, 4)
    assert Identity(7, MAX_EPOCH).bumped() is None
