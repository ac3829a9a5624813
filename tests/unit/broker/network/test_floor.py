"""A connection has the floor to itself when nobody else asked for a while."""

from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.conversation import Conversation
from odradek.broker.network.floor import Floor
from odradek.broker.network.framing import FrameReader
from odradek.broker.network.peer import Address, Peer


def a_conversation() -> Conversation:
    peer = Peer("PLAINTEXT", Address("h", 1), Address("h", 2))
    return Conversation(peer, FrameReader(memoryview(bytearray(100)), 100), MemoryBudget(-1))


def hear(floor: Floor, conversation: Conversation, at: float) -> None:
    conversation.arrived_at = at
    floor.heard(conversation)


def test_who_asks_again_and_again_has_it_alone_after_a_moment() -> None:
    floor, reader = Floor(), a_conversation()
    hear(floor, reader, 10.0)
    assert not floor.is_only_for(reader)
    hear(floor, reader, 10.01)
    assert not floor.is_only_for(reader)
    hear(floor, reader, 10.06)
    assert floor.is_only_for(reader)


def test_nobody_has_it_alone_while_two_take_turns() -> None:
    floor, one, other = Floor(), a_conversation(), a_conversation()
    for step in range(10):
        hear(floor, one, 10.0 + step)
        assert not floor.is_only_for(one)
        hear(floor, other, 10.5 + step)
        assert not floor.is_only_for(other)
        assert not floor.is_only_for(one)


def test_a_word_of_another_ends_it_in_the_midst_of_an_answer() -> None:
    floor, reader, other = Floor(), a_conversation(), a_conversation()
    hear(floor, reader, 10.0)
    hear(floor, reader, 11.0)
    assert floor.is_only_for(reader)
    hear(floor, other, 11.0001)
    assert not floor.is_only_for(reader)
