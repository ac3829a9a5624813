"""Who has the floor: the connection that asked last, and since when nobody else did.

Answers of a megabyte are sent in pieces so that others need not wait; where there are no others,
pieces only cost their reader time.
"""

from typing import Final

from odradek.broker.network.conversation import Conversation

_ALONE_SECONDS: Final = 0.05


class Floor:
    """Shared by all connections of a broker, which tell it when bytes came."""

    __slots__ = ("_holder", "_since")

    def __init__(self) -> None:
        self._holder: Conversation | None = None
        self._since = 0.0

    def heard(self, conversation: Conversation) -> None:
        """Bytes came, when `arrived_at` of the conversation says."""
        if self._holder is not conversation:
            self._holder = conversation
            self._since = conversation.arrived_at

    def is_only_for(self, conversation: Conversation) -> bool:
        """Whether it asked last, and nobody else did for a while before it."""
        return conversation.arrived_at - self._since > _ALONE_SECONDS
