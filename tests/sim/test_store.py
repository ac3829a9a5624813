"""The simulated store keeps the contract of metadata stores, on virtual time."""

from collections.abc import Callable
from random import Random

import pytest
from odradek.controller.store import MetadataStore
from odradek.protocol.clock import ManualClock

from tests.sim.loop import Life, SimLoop
from tests.sim.network import Network
from tests.sim.store import SimSession, SimStore
from tests.unit.controller.store_contract import Scene, StoreContract, World


class SimWorld:
    def __init__(self, loop: SimLoop) -> None:
        self._store = SimStore(Network(loop, Random(1)), ManualClock(), session_seconds=3)

    async def open(self) -> MetadataStore:
        return self._store.session()

    async def expire(self, handle: MetadataStore) -> None:
        assert isinstance(handle, SimSession)
        self._store.close_account(handle.session_id)
        handle.look()

    async def close(self) -> None:
        await self._store.close()


class TestSimulated(StoreContract):
    @pytest.fixture
    def make_world(self) -> Callable[[SimLoop], SimWorld]:
        return SimWorld

    def play(self, make_world: Callable[..., World], scene: Scene) -> None:
        loop = SimLoop(Random(1))

        async def run() -> None:
            world = make_world(loop)
            await scene(world)
            await world.close()

        try:
            loop.run_until_complete(loop.spawn(Life("test", "10.0.1.1"), run()))
        finally:
            loop.finish()
