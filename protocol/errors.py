"""The one table of Kafka error codes, and the two exceptions that carry failures."""

from enum import IntEnum


class Errors(IntEnum):
    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2


class KafkaError(Exception):
    """A failure a peer may be told of: one error code and, where it helps, a sentence."""

    def __init__(self, error: Errors, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


class ProtocolError(Exception):
    """Bytes that cannot be decoded. The connection they came from is closed."""
