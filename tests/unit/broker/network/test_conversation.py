"""Answers leave in the order of the requests; what is taken at once is bounded."""

import struct

import pytest
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.conversation import MAX_OPEN, MAX_UNSENT_BYTES, Conversation
from odradek.broker.network.framing import FrameReader
from odradek.broker.network.peer import Address, Peer


class Driver:
    def advance(self) -> None:
        pass

    flush = advance


def a_conversation(*frames: bytes, budget: MemoryBudget | None = None) -> Conversation:
    reader = FrameReader(memoryview(bytearray(65_536)), max_bytes=10_000)
    peer = Peer("PLAINTEXT", Address("127.0.0.1", 5000), Address("127.0.0.1", 9092))
    conversation = Conversation(peer, reader, budget or MemoryBudget(-1))
    conversation.driver = Driver()
    feed(conversation, b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    return conversation


def feed(conversation: Conversation, data: bytes) -> None:
    if data:
        conversation.reader.space()[: len(data)] = data
        conversation.reader.received(len(data))


def test_answers_leave_in_the_order_of_the_requests() -> None:
    conversation = a_conversation(b"1", b"2", b"3", b"4")
    slots = []
    for answer in (None, b"two", None, b"four"):
        assert conversation.take() is not None
        if answer is None:
            slots.append(conversation.park())
        else:
            conversation.answer([answer])
    assert list(conversation.outgoing) == []
    conversation.fulfil(slots[1], [b"three"])
    assert list(conversation.outgoing) == []
    conversation.fulfil(slots[0], [b"one"])
    assert list(conversation.outgoing) == [b"one", b"two", b"three", b"four"]
    assert conversation.open_requests == 0


def test_no_more_than_a_few_requests_are_open() -> None:
    conversation = a_conversation(*[b"x"] * 20)
    slots = []
    while conversation.take() is not None:
        slots.append(conversation.park())
    assert len(slots) == MAX_OPEN
    assert not conversation.wants_input
    conversation.fulfil(slots[0], [b"done"])
    assert conversation.take() is not None
    assert conversation.take() is None


def test_nothing_is_taken_while_the_peer_does_not_take_its_answers() -> None:
    conversation = a_conversation(b"first", b"second")
    assert conversation.take() is not None
    conversation.answer([bytes(MAX_UNSENT_BYTES + 1)])
    assert conversation.take() is None
    assert not conversation.wants_input
    conversation.outgoing.clear()
    conversation.unsent_bytes = 0
    assert conversation.take() == b"second"


def test_it_wants_input_when_only_bytes_are_missing() -> None:
    conversation = a_conversation(b"whole")
    assert conversation.take() is not None
    assert conversation.take() is None
    assert conversation.wants_input


def test_after_the_end_of_input_what_came_is_still_taken() -> None:
    conversation = a_conversation(b"one", b"two")
    conversation.end_input()
    assert conversation.take() == b"one"
    assert conversation.ending is None
    assert conversation.take() == b"two"
    conversation.answer([])
    assert conversation.take() is None
    assert conversation.ending is not None
    assert not conversation.is_finished
    conversation.answer([])
    assert conversation.is_finished


def test_hanging_up_takes_no_more_and_ends_after_the_answers() -> None:
    conversation = a_conversation(b"one", b"two")
    assert conversation.take() is not None
    conversation.hang_up("enough")
    assert conversation.take() is None
    assert not conversation.is_finished
    conversation.answer([b"last"])
    assert not conversation.is_finished
    conversation.outgoing.clear()
    assert conversation.is_finished
    conversation.hang_up("a second reason does not matter")
    assert conversation.ending == ("enough", True)


def test_answers_for_a_peer_that_is_gone_go_nowhere() -> None:
    conversation = a_conversation(b"one", b"two")
    assert conversation.take() is not None
    slot = conversation.park()
    assert conversation.take() is not None
    conversation.abandon()
    conversation.answer([b"late"])
    conversation.fulfil(slot, [b"later"])
    assert not conversation.outgoing


def test_a_frame_that_has_begun_reserves_all_its_memory() -> None:
    budget = MemoryBudget(1000)
    conversation = a_conversation(budget=budget)
    feed(conversation, struct.pack(">i", 5000) + b"begun")
    assert conversation.take() is None
    conversation.settle()
    assert budget.used_bytes == 5000
    assert budget.is_exhausted
    conversation.settle()
    assert budget.used_bytes == 5000
    conversation.abandon()
    assert budget.used_bytes == 0


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_taken_frame_is_counted_once_however_it_came(pieces: int) -> None:
    budget = MemoryBudget(-1)
    conversation = a_conversation(budget=budget)
    whole = struct.pack(">i", 100) + bytes(100)
    cut = len(whole) // pieces
    for start in range(0, len(whole), cut):
        feed(conversation, whole[start : start + cut])
        taken = conversation.take()
        conversation.settle()
    assert taken is not None
    assert budget.used_bytes == 100
