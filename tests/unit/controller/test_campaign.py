"""One controller per epoch, whoever tries and whatever answers are lost."""

import asyncio

import pytest
from odradek.controller import paths
from odradek.controller.campaign import Other, Won, campaign, read_controller, resign
from odradek.controller.fields import BadNode
from odradek.controller.store import MetadataStore
from odradek.controller.store_embedded import EmbeddedStore
from odradek.protocol.clock import ManualClock

CLOCK = ManualClock(1_700_000_000_000)


def ignore(_: object) -> None:
    """A watch nobody waits for."""


async def run_for(store: MetadataStore, broker_id: int) -> Won | Other:
    return await campaign(store, broker_id=broker_id, clock=CLOCK, watch=ignore)


def play(scene):
    async def run() -> None:
        store = EmbeddedStore(clock=CLOCK)
        await scene(store)
        await store.close()

    asyncio.run(run())


def test_the_first_wins_epoch_one_and_writes_kafkas_nodes():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        assert await run_for(session, 1) == Won(epoch=1, epoch_version=1)
        data, stat = await session.get(paths.CONTROLLER)
        assert data == (
            b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
        )
        assert stat.ephemeral_owner == session.session_id
        assert (await session.get(paths.CONTROLLER_EPOCH))[0] == b"1"

    play(scene)


def test_of_many_one_wins():
    async def scene(store: EmbeddedStore) -> None:
        outcomes = await asyncio.gather(*(run_for(store.session(), b) for b in range(5)))
        winners = [outcome for outcome in outcomes if isinstance(outcome, Won)]
        assert len(winners) == 1
        assert (await store.session().get(paths.CONTROLLER_EPOCH))[0] == b"1"

    play(scene)


def test_each_successor_has_a_higher_epoch():
    async def scene(store: EmbeddedStore) -> None:
        first, second = store.session(), store.session()
        assert await run_for(first, 1) == Won(1, 1)
        assert await run_for(second, 2) == Other(1)
        first.expire()
        assert await run_for(second, 2) == Won(2, 2)
        assert await run_for(first, 1) == Other(2)
        assert await read_controller(first) == 2

    play(scene)


def test_a_victory_whose_answer_was_lost_is_found():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        assert await run_for(session, 1) == Won(1, 1)
        session.suspend()
        session.resume()
        assert await run_for(session, 1) == Won(1, 1)

    play(scene)


def test_resigning_leaves_the_office_of_a_successor_alone():
    async def scene(store: EmbeddedStore) -> None:
        first, second = store.session(), store.session()
        won = await run_for(first, 1)
        assert isinstance(won, Won)
        await resign(first, won)
        assert await read_controller(second) is None
        assert isinstance(await run_for(second, 2), Won)
        await resign(first, won)
        assert await read_controller(first) == 2

    play(scene)


def test_a_damaged_epoch_is_not_guessed():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        await session.create(paths.CONTROLLER_EPOCH, b"many")
        with pytest.raises(BadNode):
            await run_for(session, 1)
        assert await session.exists(paths.CONTROLLER) is None

    play(scene)


def test_an_unreadable_controller_is_still_a_controller():
    async def scene(store: EmbeddedStore) -> None:
        session = store.session()
        await session.create(paths.CONTROLLER, b"?", ephemeral=True)
        assert await run_for(store.session(), 2) == Other(None)

    play(scene)
