"""Trying again, with pauses that grow."""

import asyncio
from random import Random

import pytest
from odradek.client.retry import Backoff, until_done
from odradek.protocol.errors import Errors, KafkaError

NO_PAUSE = Backoff(0, 0, Random(1))


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(100, 1000, Random(1))
    for failures, expected in [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (99, 1.0)]:
        assert 0.8 * expected <= backoff.pause_s(failures) <= 1.2 * expected


async def attempts(*errors: Errors) -> int:
    waiting = list(errors)

    async def attempt() -> int:
        if waiting:
            raise KafkaError(waiting.pop(0))
        return len(errors)

    return await until_done(attempt, backoff=NO_PAUSE, timeout_s=5)


def test_temporary_errors_are_tried_again() -> None:
    assert asyncio.run(attempts(Errors.NOT_COORDINATOR, Errors.REQUEST_TIMED_OUT)) == 2


def test_other_errors_are_raised_at_once() -> None:
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
        asyncio.run(attempts(Errors.NOT_COORDINATOR, Errors.INVALID_GROUP_ID))


def test_when_time_is_over_the_last_error_is_told() -> None:
    async def attempt() -> None:
        raise KafkaError(Errors.NOT_CONTROLLER)

    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        asyncio.run(until_done(attempt, backoff=Backoff(1, 2, Random(1)), timeout_s=0.02))
