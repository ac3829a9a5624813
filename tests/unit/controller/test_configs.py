"""Dynamic configuration: written once, compared, and heard of by everyone."""

import asyncio

import pytest
from odradek.controller import paths
from odradek.controller.configs import (
    CHANGE_LIFETIME_MS,
    ConfigFollower,
    broker_entity,
    change_config,
    quota_entity,
    read_all_configs,
    read_config,
    topic_entity,
    write_config,
)
from odradek.controller.registration import prepare
from odradek.controller.store_embedded import EmbeddedStore
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors, KafkaError

from tests.unit.controller.cluster import until


class Listener:
    """Collects what a follower is told, and waits for it."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[str, dict[str, str]]] = asyncio.Queue()

    async def apply(self, entity, config) -> None:
        self.heard.put_nowait((entity, dict(config)))

    async def next(self):
        return await asyncio.wait_for(self.heard.get(), 10)


def play(scene):
    async def run() -> None:
        clock = ManualClock()
        store = EmbeddedStore(clock=clock)
        await prepare(store.session())
        await scene(store, clock)
        await store.close()

    asyncio.run(run())


def test_entities_have_kafkas_names():
    assert topic_entity("t") == "topics/t"
    assert (broker_entity(3), broker_entity(None)) == ("brokers/3", "brokers/<default>")
    assert quota_entity(user="a/b", client="c d") == "users/a%2Fb/clients/c%20d"
    assert quota_entity(client="<default>") == "clients/<default>"
    with pytest.raises(ValueError, match="names"):
        quota_entity()


def test_a_change_writes_the_entity_and_one_notification():
    async def scene(store: EmbeddedStore, clock) -> None:
        session = store.session()
        assert await read_config(session, "topics/t") == {}
        await change_config(session, "topics/t", lambda config: {**config, "a": "1"})
        await change_config(session, "topics/t", lambda config: {**config, "b": "2"})
        assert await read_config(session, "topics/t") == {"a": "1", "b": "2"}
        data, _ = await session.get("/config/topics/t")
        assert data == b'{"version":1,"config":{"a":"1","b":"2"}}'
        names = await session.children(paths.CONFIG_CHANGES)
        assert names == ["config_change_0000000000", "config_change_0000000001"]
        data, _ = await session.get(f"{paths.CONFIG_CHANGES}/{names[0]}")
        assert data == b'{"version":2,"entity_path":"topics/t"}'
        assert await read_all_configs(session, "topics") == {"t": {"a": "1", "b": "2"}}

    play(scene)


def test_concurrent_changes_both_count():
    async def scene(store: EmbeddedStore, clock) -> None:
        async def add(key: str) -> None:
            await change_config(store.session(), "brokers/1", lambda c: {**c, key: "1"})

        await asyncio.gather(*(add(str(i)) for i in range(20)))
        assert len(await read_config(store.session(), "brokers/1")) == 20

    play(scene)


def test_nested_entities_get_their_parents():
    async def scene(store: EmbeddedStore, clock) -> None:
        session = store.session()
        entity = quota_entity(user="u", client="c")
        await write_config(session, entity, {"producer_byte_rate": "5"})
        assert await read_config(session, entity) == {"producer_byte_rate": "5"}
        assert await read_config(session, "users/u") == {}

    play(scene)


def test_a_refused_change_writes_nothing():
    async def scene(store: EmbeddedStore, clock) -> None:
        def refuse(config):
            raise KafkaError(Errors.INVALID_CONFIG)

        with pytest.raises(KafkaError):
            await change_config(store.session(), "topics/t", refuse)
        assert await store.session().children(paths.CONFIG_CHANGES) == []

    play(scene)


def test_removing_what_was_never_set_writes_nothing():
    async def scene(store: EmbeddedStore, clock) -> None:
        await write_config(store.session(), "topics/t", {})
        assert await store.session().children(paths.CONFIG_CHANGES) == []

    play(scene)


def test_a_follower_hears_of_changes_after_its_start_only_and_in_order():
    async def scene(store: EmbeddedStore, clock) -> None:
        session, listener = store.session(), Listener()
        await write_config(session, "topics/old", {"a": "1"})
        follower = ConfigFollower(store.session(), clock=clock, apply=listener.apply)
        await follower.start()
        following = asyncio.create_task(follower.run())
        await write_config(session, "topics/t", {"a": "1"})
        assert await listener.next() == ("topics/t", {"a": "1"})
        await write_config(session, "brokers/<default>", {"b": "2"})
        assert await listener.next() == ("brokers/<default>", {"b": "2"})
        following.cancel()

    play(scene)


@pytest.mark.parametrize("fault", ["suspend", "expire"])
def test_a_follower_hears_later_what_it_missed(fault):
    async def scene(store: EmbeddedStore, clock) -> None:
        session, listener = store.session(), Listener()
        own = store.session()
        follower = ConfigFollower(own, clock=clock, apply=listener.apply)
        await follower.start()
        following = asyncio.create_task(follower.run())
        own.suspend()
        await write_config(session, "topics/t", {"a": "1"})
        if fault == "suspend":
            own.resume()
        else:
            own.expire()
        assert await listener.next() == ("topics/t", {"a": "1"})
        following.cancel()

    play(scene)


def test_old_notifications_are_purged():
    async def scene(store: EmbeddedStore, clock: ManualClock) -> None:
        session, listener = store.session(), Listener()
        follower = ConfigFollower(store.session(), clock=clock, apply=listener.apply)
        await follower.start()
        following = asyncio.create_task(follower.run())
        await write_config(session, "topics/a", {"a": "1"})
        await listener.next()
        clock.advance(CHANGE_LIFETIME_MS + 1)
        await write_config(session, "topics/b", {"a": "1"})
        await listener.next()
        await until(lambda: len(store.tree.names(paths.CONFIG_CHANGES) or ()) == 1)
        assert await session.children(paths.CONFIG_CHANGES) == ["config_change_0000000001"]
        following.cancel()

    play(scene)


def test_a_hostile_notification_is_skipped():
    async def scene(store: EmbeddedStore, clock) -> None:
        session, listener = store.session(), Listener()
        follower = ConfigFollower(store.session(), clock=clock, apply=listener.apply)
        await follower.start()
        following = asyncio.create_task(follower.run())
        await session.create(paths.CONFIG_CHANGE_PREFIX, b"{" * 10_000, sequential=True)
        await session.create(f"{paths.CONFIG_CHANGES}/stranger", b"")
        await write_config(session, "topics/t", {"a": "1"})
        assert await listener.next() == ("topics/t", {"a": "1"})
        following.cancel()

    play(scene)
