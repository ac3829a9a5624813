"""What every metadata store does, as tests that run on each of them.

A test module makes a subclass of `StoreContract` whose name starts with Test, and gives it a
`world` fixture: something that opens handles on one shared tree and can end a session. Paths are
taken under the world's root, so that a shared ZooKeeper serves many tests.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest
from odradek.controller.store import (
    MAX_DATA_BYTES,
    BadVersion,
    Check,
    Create,
    DataTooLarge,
    Delete,
    MetadataStore,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionLost,
    SessionState,
    Set,
    Stat,
    WatchEvent,
    WatchKind,
    ensure_path,
)


class World(Protocol):
    """One tree, seen through as many handles as a test wants. Used inside one event loop."""

    async def open(self) -> MetadataStore: ...

    async def expire(self, handle: MetadataStore) -> None:
        """End the handle's session and return once it has a new one."""
        ...

    async def close(self) -> None: ...


class Watcher:
    """Collects events and lets a test wait for the next."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[WatchEvent] = asyncio.Queue()

    def __call__(self, event: WatchEvent) -> None:
        self.events.put_nowait(event)

    async def next(self) -> WatchEvent:
        return await asyncio.wait_for(self.events.get(), 10)

    @property
    def is_quiet(self) -> bool:
        return self.events.empty()


Scene = Callable[[World], Awaitable[None]]


class StoreContract:
    def play(self, make_world: Callable[[], Awaitable[World]], scene: Scene) -> None:
        async def run() -> None:
            world = await make_world()
            try:
                await scene(world)
            finally:
                await world.close()

        asyncio.run(run())

    def test_a_node_is_read_as_it_was_written(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            path, stat = await store.create("/a", b"one")
            assert path == "/a"
            assert await store.get("/a") == (b"one", stat)
            assert (stat.version, stat.cversion, stat.ephemeral_owner) == (0, 0, 0)
            assert stat.czxid == stat.mzxid > 0
            assert (stat.data_length, stat.children) == (3, 0)

        self.play(make_world, scene)

    def test_a_set_counts_versions_and_moves_mzxid(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            _, created = await store.create("/a")
            first = await store.set("/a", b"1", version=0)
            second = await store.set("/a", b"2")
            assert [first.version, second.version] == [1, 2]
            assert created.czxid == second.czxid
            assert created.mzxid < first.mzxid < second.mzxid
            assert await store.get("/a") == (b"2", second)

        self.play(make_world, scene)

    def test_a_stale_version_changes_nothing(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            await store.create("/a", b"0")
            await store.set("/a", b"1")
            with pytest.raises(BadVersion):
                await store.set("/a", b"2", version=0)
            with pytest.raises(BadVersion):
                await store.delete("/a", version=0)
            assert (await store.get("/a"))[0] == b"1"
            await store.delete("/a", version=1)
            assert await store.exists("/a") is None

        self.play(make_world, scene)

    def test_missing_and_present_nodes_are_told_apart(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            for call in (store.get("/a"), store.set("/a", b""), store.delete("/a")):
                with pytest.raises(NoNode):
                    await call
            with pytest.raises(NoNode):
                await store.children("/a")
            with pytest.raises(NoNode):
                await store.create("/a/b")
            await store.create("/a")
            with pytest.raises(NodeExists):
                await store.create("/a")

        self.play(make_world, scene)

    def test_children_are_sorted_and_protect_their_parent(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            await ensure_path(store, "/a/b")
            await store.create("/a/c")
            await store.create("/a/B")
            assert await store.children("/a") == ["B", "b", "c"]
            with pytest.raises(NotEmpty):
                await store.delete("/a")
            stat = await store.exists("/a")
            assert stat is not None
            assert (stat.children, stat.cversion, stat.version) == (3, 3, 0)
            for name in ("b", "c", "B"):
                await store.delete(f"/a/{name}")
            await store.delete("/a")

        self.play(make_world, scene)

    def test_sequential_names_never_come_twice(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            await store.create("/a")
            first, _ = await store.create("/a/n_", sequential=True)
            await store.delete(first)
            second, _ = await store.create("/a/n_", sequential=True)
            assert (first, second) == ("/a/n_0000000000", "/a/n_0000000001")

        self.play(make_world, scene)

    def test_later_creations_have_higher_czxid_in_every_session(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            _, first = await one.create("/a", ephemeral=True)
            await world.expire(one)
            _, second = await two.create("/a", ephemeral=True)
            await two.delete("/a")
            _, third = await one.create("/a", ephemeral=True)
            assert first.czxid < second.czxid < third.czxid

        self.play(make_world, scene)

    def test_an_ephemeral_node_belongs_to_its_session(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            _, stat = await one.create("/a", ephemeral=True)
            assert stat.ephemeral_owner == one.session_id != two.session_id
            with pytest.raises(NoChildrenForEphemerals):
                await two.create("/a/b")
            await one.close()
            assert await two.exists("/a") is None
            with pytest.raises(SessionLost):
                await one.get("/")

        self.play(make_world, scene)

    def test_an_expired_session_loses_its_ephemerals_and_gets_a_new_id(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            states: list[SessionState] = []
            one.listen(states.append)
            before = one.session_id
            await one.create("/mine", ephemeral=True)
            await two.create("/theirs", ephemeral=True)
            gone = Watcher()
            await two.exists("/mine", watch=gone)

            await world.expire(one)

            assert await gone.next() == WatchEvent(WatchKind.DELETED, "/mine")
            assert one.session_id != before
            lost = states.index(SessionState.LOST)
            assert states[lost + 1 :] == [SessionState.CONNECTED]
            assert await one.exists("/mine") is None
            assert await one.exists("/theirs") is not None

        self.play(make_world, scene)

    def test_a_multi_happens_as_a_whole(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            await store.create("/epoch", b"1")
            results = await store.multi(
                [Check("/epoch", 0), Create("/a", b"x"), Create("/a/b"), Set("/a", b"y", 0)]
            )
            assert results[:3] == [None, "/a", "/a/b"]
            assert isinstance(results[3], Stat)
            assert results[3].version == 1
            assert (await store.get("/a"))[0] == b"y"
            assert await store.multi([Delete("/a/b"), Delete("/a")]) == [None, None]
            assert await store.exists("/a") is None

        self.play(make_world, scene)

    def test_a_failing_multi_changes_nothing_and_names_the_culprit(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            await store.create("/epoch", b"1")
            await store.set("/epoch", b"2")
            with pytest.raises(BadVersion) as fenced:
                await store.multi([Check("/epoch", 0), Create("/a")])
            assert fenced.value.index == 0
            with pytest.raises(NodeExists) as taken:
                await store.multi([Check("/epoch", 1), Create("/a"), Create("/epoch")])
            assert taken.value.index == 2
            with pytest.raises(NoNode) as missing:
                await store.multi([Create("/a"), Delete("/nowhere")])
            assert missing.value.index == 1
            assert await store.exists("/a") is None

        self.play(make_world, scene)

    def test_a_multi_can_make_ephemeral_and_sequential_nodes(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            await one.create("/queue")
            results = await one.multi(
                [Create("/me", ephemeral=True), Create("/queue/n_", sequential=True)]
            )
            assert results == ["/me", "/queue/n_0000000000"]
            await one.close()
            assert await two.exists("/me") is None
            assert await two.children("/queue") == ["n_0000000000"]

        self.play(make_world, scene)

    def test_a_data_watch_fires_once_and_for_the_others_change(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            await one.create("/a", b"0")
            watcher = Watcher()
            assert (await one.get("/a", watch=watcher))[0] == b"0"
            await two.set("/a", b"1")
            assert await watcher.next() == WatchEvent(WatchKind.CHANGED, "/a")
            await two.set("/a", b"2")
            assert (await one.get("/a"))[0] == b"2"
            assert watcher.is_quiet

        self.play(make_world, scene)

    def test_an_exists_watch_sees_birth_and_death(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            watcher = Watcher()
            assert await one.exists("/a", watch=watcher) is None
            await two.create("/a")
            assert await watcher.next() == WatchEvent(WatchKind.CREATED, "/a")
            assert await one.exists("/a", watch=watcher) is not None
            await two.delete("/a")
            assert await watcher.next() == WatchEvent(WatchKind.DELETED, "/a")

        self.play(make_world, scene)

    def test_a_failed_read_sets_no_watch(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            watcher = Watcher()
            with pytest.raises(NoNode):
                await one.get("/a", watch=watcher)
            await two.create("/a")
            await two.set("/a", b"1")
            await one.get("/a")
            assert watcher.is_quiet

        self.play(make_world, scene)

    def test_a_child_watch_sees_coming_and_going_but_not_data(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            await one.create("/a")
            watcher = Watcher()
            await one.children("/a", watch=watcher)
            await two.create("/a/b")
            assert await watcher.next() == WatchEvent(WatchKind.CHILDREN, "/a")
            await one.children("/a", watch=watcher)
            await two.set("/a/b", b"1")
            await two.set("/a", b"1")
            assert (await one.get("/a"))[0] == b"1"
            assert watcher.is_quiet
            await two.delete("/a/b")
            assert await watcher.next() == WatchEvent(WatchKind.CHILDREN, "/a")
            await one.children("/a", watch=watcher)
            await two.delete("/a")
            assert await watcher.next() == WatchEvent(WatchKind.DELETED, "/a")

        self.play(make_world, scene)

    def test_a_watch_is_called_before_newer_data_is_seen(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            await one.create("/a", b"0")
            watcher = Watcher()
            await one.get("/a", watch=watcher)
            await two.set("/a", b"1")
            assert (await one.get("/a"))[0] == b"1"
            assert not watcher.is_quiet

        self.play(make_world, scene)

    def test_watches_end_with_the_session(self, make_world):
        async def scene(world: World) -> None:
            one, two = await world.open(), await world.open()
            await one.create("/a")
            watcher = Watcher()
            await one.get("/a", watch=watcher)
            await world.expire(one)
            await two.set("/a", b"1")
            assert (await one.get("/a"))[0] == b"1"
            assert watcher.is_quiet

        self.play(make_world, scene)

    def test_concurrent_compare_and_set_has_one_winner(self, make_world):
        async def scene(world: World) -> None:
            handles = [await world.open() for _ in range(4)]
            await handles[0].create("/a")
            outcomes = await asyncio.gather(
                *(handle.set("/a", b"x", version=0) for handle in handles), return_exceptions=True
            )
            assert sum(isinstance(outcome, Stat) for outcome in outcomes) == 1
            assert sum(isinstance(outcome, BadVersion) for outcome in outcomes) == 3

        self.play(make_world, scene)

    def test_a_node_has_a_largest_size(self, make_world):
        async def scene(world: World) -> None:
            store = await world.open()
            await store.create("/a", bytes(MAX_DATA_BYTES))
            with pytest.raises(DataTooLarge):
                await store.create("/b", bytes(MAX_DATA_BYTES + 1))
            with pytest.raises(DataTooLarge):
                await store.set("/a", bytes(MAX_DATA_BYTES + 1))

        self.play(make_world, scene)

    @pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/./a", "/a\0b"])
    def test_a_path_that_is_none_is_a_bug_of_the_caller(self, make_world, path):
        async def scene(world: World) -> None:
            store = await world.open()
            with pytest.raises(ValueError, match="path"):
                await store.get(path)
            with pytest.raises(ValueError, match="path"):
                await store.create(path)

        self.play(make_world, scene)
