"""The controller's desk: the present picture of the cluster, and the acts that change it.

Everything here runs in the term's single task, so an act sees the picture that the one before left.
The picture changes only after the store has taken the change; what is read from the store may be
put in at once. `term` says when; `requests` uses the same acts for what brokers and clients ask.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from odradek.controller import decide, leadership, paths, reassignment
from odradek.controller.channels import Channels
from odradek.controller.configs import read_config, topic_entity
from odradek.controller.decide import Decision, Terms
from odradek.controller.deletion import Deletions
from odradek.controller.fields import log
from odradek.controller.image import Broker, ClusterImage, Topic
from odradek.controller.leadership import ElectionType
from odradek.controller.office import Office
from odradek.controller.propagation import Sender, announce
from odradek.controller.store import Create, MetadataStore
from odradek.controller.topic_creation import write_topic
from odradek.controller.topics import Growth, NewTopic, TopicRules, plan_growth, plan_topic
from odradek.controller.znodes import Assignment
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import NO_ID, TopicPartition

# How long an answer waits for brokers other than the controller's to know of what it says.
OTHERS_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The broker's settings that matter to a controller."""

    broker_id: int
    inter_broker_listener: str = "PLAINTEXT"
    unclean_election: bool = False
    delete_topics: bool = True
    rebalance_leaders: bool = True
    rebalance_interval_seconds: float = 300
    imbalance_percentage: int = 10
    deletion_retry_seconds: float = 10


@dataclass(frozen=True, slots=True)
class Told:
    """News on their way: each future is done when that broker has taken them in, or is gone."""

    own: "asyncio.Future[None]"
    others: "Sequence[asyncio.Future[None]]"

    async def within(self, seconds: float) -> bool:
        """Whether the controller's own broker knows in time; the others are given a moment.

        With that moment a client may ask any broker next. It is no promise: a broker that has
        just died is told until its session ends, and nobody shall wait that long for it.
        """
        began = asyncio.get_running_loop().time()
        done, _ = await asyncio.wait([self.own], timeout=max(0, seconds))
        left = seconds - (asyncio.get_running_loop().time() - began)
        if done and self.others:
            await asyncio.wait(self.others, timeout=max(0, min(left, OTHERS_SECONDS)))
        return bool(done)


class Desk:
    def __init__(
        self,
        *,
        store: MetadataStore,
        office: Office,
        settings: ControllerSettings,
        rules: TopicRules,
        random: Random,
        new_id: Callable[[], bytes],
        channels: Channels,
    ) -> None:
        self.store = store
        self.office = office
        self.settings = settings
        self.terms = Terms(office.epoch, settings.unclean_election)
        self.image = ClusterImage()
        self.deletions = Deletions()
        self._rules = rules
        self._random = random
        self._new_id = new_id
        self._channels = channels
        self._sender = Sender(settings.broker_id, office.epoch, settings.inter_broker_listener)

    async def carry_out(self, decision: Decision) -> None:
        """Write a plan, see it as done, tell everyone."""
        image, plan = decision.image, decision.plan
        if plan.states:
            image = image.with_states(await self.office.store_states(plan.states))
        if plan.topics:
            image = image.with_topics(await self.office.store_topics(plan.topics))
        self.image = image
        self._channels.follow(image.brokers)
        for broker_id, request in announce(image, plan, self._sender):
            self._channels.push(broker_id, request)

    def told(self) -> Told:
        """What was said so far, on its way to the brokers."""
        own = self.settings.broker_id
        others = [self._channels.told(broker) for broker in self.image.brokers if broker != own]
        return Told(self._channels.told(own), others)

    def begin_with(self, read: ClusterImage) -> None:
        """Start from what the store says, keeping what it does not know of lives that go on."""
        kept = self.image.with_brokers(read.brokers)
        self.image = replace(read, shutting_down=kept.shutting_down, offline=kept.offline)

    async def take_up(self) -> None:
        """Go on with deletions and moves; a broker that came may be what they waited for."""
        await self.delete(self.image.deleting)
        await self.complete_moves(list(reassignment.ongoing(self.image)))

    # Members.

    async def members_are(self, brokers: dict[int, Broker]) -> None:
        change = decide.Membership.between(self.image.brokers, brokers)
        if change.left:
            log.info("brokers left: %s", sorted(change.left))
            await self.carry_out(decide.brokers_left(self.image, change.left, self.terms))
        if change.came or change.moved:
            log.info("brokers came: %s, moved: %s", sorted(change.came), sorted(change.moved))
            await self.carry_out(decide.brokers_came(self.image, brokers, change.came, self.terms))
            await self.take_up()

    async def shut_down(self, broker_id: int) -> list[TopicPartition]:
        """Take the lead from a broker that wants to stop; gives what only it can lead."""
        await self.carry_out(decide.controlled_shutdown(self.image, broker_id, self.terms))
        return decide.still_led_by(self.image, broker_id)

    # Topics.

    async def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> Topic:
        """Check and write a topic; `adopt` then gives it leaders. KafkaError when it cannot be."""
        racks = {broker.id: broker.rack for broker in self.image.brokers.values()}
        existing = self.image.topics.keys() | self.image.deleting
        placed = plan_topic(
            new, existing=existing, racks=racks, rules=self._rules, random=self._random
        )
        if validate_only:
            return Topic(new.name, NO_ID, {p: Assignment(r) for p, r in placed.items()})
        return await write_topic(self.office.write, new, placed, self._new_id())

    async def grow_topic(self, growth: Growth, *, validate_only: bool = False) -> None:
        topic = self.image.topics.get(growth.topic)
        if topic is None or growth.topic in self.image.deleting:
            raise KafkaError(
                Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{growth.topic}' does not exist."
            )
        racks = {broker.id: broker.rack for broker in self.image.brokers.values()}
        added = plan_growth(growth, topic, racks=racks, rules=self._rules)
        if validate_only:
            return
        assignments = {p: Assignment(replicas) for p, replicas in added.items()}
        grown = replace(topic, assignments={**topic.assignments, **assignments})
        (stored,) = await self.office.store_topics([grown])
        await self.carry_out(decide.topics_read(self.image, [stored], self.terms))

    async def adopt(self, topics: Sequence[Topic]) -> None:
        """Take in topics that were written: new ones, and ones that grew."""
        for topic in topics:
            config = await read_config(self.store, topic_entity(topic.name))
            if config:
                self.image = self.image.with_topic_config(topic.name, config)
        self.image = self.image.with_topics(topics)
        await self.give_ids()
        current = [self.image.topics[topic.name] for topic in topics]
        await self.carry_out(decide.topics_read(self.image, current, self.terms))

    async def give_ids(self) -> None:
        """Topics of older writers have no id yet."""
        nameless = [topic for topic in self.image.topics.values() if topic.id == NO_ID]
        if nameless:
            named = [replace(topic, id=self._new_id()) for topic in nameless]
            self.image = self.image.with_topics(await self.office.store_topics(named))

    async def reconfigure(self, name: str) -> None:
        """A topic's settings changed: it may allow a leader now that it did not allow before."""
        if name not in self.image.topics:
            return
        config = await read_config(self.store, topic_entity(name))
        self.image = self.image.with_topic_config(name, config)
        partitions = list(self.image.topics[name].partitions())
        plan = decide.settle(self.image, self.terms, among=partitions)
        await self.carry_out(Decision(self.image, plan))

    # Deletion.

    async def mark_for_deletion(self, name: str) -> None:
        """Note in the store that a topic shall go: from here on, it will."""
        path = paths.deletion(name)
        await self.office.write([Create(path)], settled=frozenset({path}))

    async def delete(self, names: Iterable[str]) -> None:
        """Delete marked topics as far as brokers are there to do it."""
        wanted = frozenset(names)
        for name in sorted(wanted - self.image.topics.keys()):
            await self.office.remove(paths.deletion(name))
        known = wanted & self.image.topics.keys()
        self.image = self.image.with_deleting(self.image.deleting & self.image.topics.keys())
        if known:
            decision = decide.delete_topics(self.image, known, self.deletions.done)
            await self.carry_out(decision)
            await self.finish_deletions()

    async def finish_deletions(self) -> None:
        """Forget the topics whose replicas are all gone."""
        for name in self.deletions.finished(self.image):
            await self.office.remove_topic(name)
            self.deletions.forget(name)
            self.image = self.image.without_topics({name})
            log.info("topic %s is deleted", name)

    # Leaders and moves.

    async def elect(
        self, partitions: Iterable[TopicPartition], kind: ElectionType
    ) -> dict[TopicPartition, Errors]:
        elections = leadership.elect(self.image, partitions, kind, self.terms)
        await self.carry_out(Decision(self.image, elections.plan))
        return elections.outcomes

    async def rebalance(self) -> None:
        wanted = leadership.imbalanced(self.image, self.settings.imbalance_percentage)
        if wanted:
            log.info("%d partitions go back to their preferred leaders", len(wanted))
            await self.elect(wanted, ElectionType.PREFERRED)

    async def begin_moves(self, wishes: reassignment.Wishes) -> dict[TopicPartition, KafkaError]:
        """Begin or cancel moves; gives the reasons for those that cannot be."""
        refused: dict[TopicPartition, KafkaError] = {}
        accepted = {}
        for where, wanted in wishes.items():
            try:
                reassignment.check(self.image, where, wanted)
                accepted[where] = wanted
            except KafkaError as error:
                refused[where] = error
        await self.carry_out(reassignment.begin(self.image, accepted, self.terms))
        await self.complete_moves(list(accepted))
        return refused

    async def complete_moves(self, partitions: Sequence[TopicPartition]) -> None:
        """End the moves of these partitions that are ready to end."""
        first, last = reassignment.complete(self.image, partitions, self.terms)
        if first.plan.is_empty:
            return
        await self.carry_out(first)
        await self.carry_out(Decision(self.image, last))
