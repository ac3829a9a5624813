"""Fencing: after its first I/O error an object works no more.

What is in memory and what is on disk may differ then, and a write or sync that is tried again may
seem to succeed although earlier bytes are lost. So the first OSError is reported once, to whoever
owns the disk, and every call from then on raises KAFKA_STORAGE_ERROR.
"""

import errno
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from odradek.protocol.errors import Errors, KafkaError

P = ParamSpec("P")
R = TypeVar("R")


class Fenced:
    __slots__ = ("_fenced_name", "_on_failure", "failure")

    def __init__(self, name: str, on_failure: Callable[[OSError], None]) -> None:
        self._fenced_name = name
        self._on_failure = on_failure
        self.failure: OSError | None = None

    def fail(self, error: OSError) -> None:
        """Let nothing be done here any more."""
        if self.failure is None:
            self.failure = error
            self._on_failure(error)

    def retire(self, reason: str) -> None:
        """The same without any error: the object's time is over."""
        if self.failure is None:
            self.failure = OSError(errno.ENOENT, reason)

    def storage_error(self) -> KafkaError:
        return KafkaError(
            Errors.KAFKA_STORAGE_ERROR, f"{self._fenced_name} is offline: {self.failure}"
        )


F = TypeVar("F", bound=Fenced)


def fencing(method: Callable[Concatenate[F, P], R]) -> Callable[Concatenate[F, P], R]:
    """Refuse to work on what has failed, and let the first OSError be its failure."""

    @wraps(method)
    def guarded(owner: F, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if owner.failure is not None:
            raise owner.storage_error()
        try:
            return method(owner, *args, **kwargs)
        except OSError as error:
            owner.fail(error)
            raise owner.storage_error() from error

    return guarded
