"""A broker is registered from when it joins until it leaves, through lost sessions."""

import asyncio

from odradek.broker.membership import Membership
from odradek.controller import paths
from odradek.controller.registration import prepare
from odradek.controller.store_embedded import EmbeddedSession, EmbeddedStore
from odradek.protocol.clock import ManualClock

from tests.unit.controller.cluster import node, until


def play(scene):
    async def run() -> None:
        store = EmbeddedStore(clock=ManualClock())
        session = store.session()
        await prepare(session)
        epochs: list[int] = []
        membership = Membership(
            session,
            broker_id=1,
            node=lambda: node(1),
            patience_seconds=1,
            joined=epochs.append,
        )
        await membership.join()
        await scene(session, membership, epochs)
        await store.close()

    asyncio.run(run())


def test_a_lost_session_is_followed_by_another_registration_with_a_new_epoch():
    async def scene(session: EmbeddedSession, _: Membership, epochs: list[int]) -> None:
        session.expire()
        assert await session.exists(paths.broker(1)) is None
        await until(lambda: len(epochs) == 2)
        assert epochs[0] < epochs[1]
        assert await session.exists(paths.broker(1)) is not None

    play(scene)


def test_a_broker_that_left_does_not_come_back_when_its_session_is_lost():
    """It goes on answering what has begun for a while, with its listeners closed."""

    async def scene(session: EmbeddedSession, membership: Membership, epochs: list[int]) -> None:
        await membership.leave()
        before = asyncio.all_tasks()
        session.expire()
        assert asyncio.all_tasks() == before
        assert await session.exists(paths.broker(1)) is None
        assert len(epochs) == 1

    play(scene)
