"""What a client hears when the coordinator's own log refuses a record: Kafka's tables.

A client knows nothing of the internal topic, so errors of its partition become errors of the
coordinator, which make the client look for it again.
"""

from collections.abc import Mapping
from typing import Final

from odradek.protocol.errors import Errors

_COORDINATOR_ERRORS: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
}
_COMMIT_ERRORS: Final[Mapping[Errors, Errors]] = {
    **_COORDINATOR_ERRORS,
    Errors.MESSAGE_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.RECORD_LIST_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.INVALID_FETCH_SIZE: Errors.INVALID_COMMIT_OFFSET_SIZE,
}
_GROUP_ERRORS: Final[Mapping[Errors, Errors]] = {
    **_COORDINATOR_ERRORS,
    # Members join again, and the next generation is written anew.
    Errors.REQUEST_TIMED_OUT: Errors.REBALANCE_IN_PROGRESS,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.INVALID_FETCH_SIZE: Errors.UNKNOWN_SERVER_ERROR,
}
_TRANSACTION_ERRORS: Final[Mapping[Errors, Errors]] = {
    **_COORDINATOR_ERRORS,
    # It may be written or not: whoever asks again hears what it became.
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
}

_HEARTBEAT_ERRORS: Final[Mapping[Errors, Errors]] = {
    **_GROUP_ERRORS,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
}


def commit_error(error: Errors) -> Errors:
    """For those who commit offsets."""
    return _COMMIT_ERRORS.get(error, error)


def group_error(error: Errors) -> Errors:
    """For members whose generation was to be written down."""
    return _GROUP_ERRORS.get(error, error)


def transaction_error(error: Errors) -> Errors:
    """For producers whose transaction was to be written down."""
    return _TRANSACTION_ERRORS.get(error, error)


def heartbeat_error(error: Errors) -> Errors:
    """For members of consumer groups, whatever was to be written down for them."""
    return _HEARTBEAT_ERRORS.get(error, error)
