"""Small values every layer speaks of."""

import base64
import binascii
import os
from collections.abc import Callable
from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


# Topic, cluster and directory ids are 16 raw bytes here and on the wire, and 22 characters of
# URL-safe base64 wherever people read them.
NO_ID = bytes(16)

# Kafka reserves the ids 0 and 1, and text that starts with "-" reads like a command-line option.
_RESERVED = (NO_ID, bytes(15) + b"\x01")


def random_id(random_bytes: Callable[[int], bytes] = os.urandom) -> bytes:
    while True:
        raw = random_bytes(16)
        if raw not in _RESERVED and not id_to_text(raw).startswith("-"):
            return raw


def id_to_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def id_from_text(text: str) -> bytes:
    """The 16 bytes that `text` stands for. Raises ValueError for anything else."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except binascii.Error as error:
        raise ValueError(f"not an id: {text!r}") from error
    if len(raw) != 16:
        raise ValueError(f"not an id: {text!r}")
    return raw
