"""Writing a new topic into the store: its configuration and its node, in one step.

Any broker may do this (topics are created on first use where they are first asked for); the
controller, who watches the topics, then gives the partitions their leaders. A topic has an id from
its first moment, and never another.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

from odradek.controller import paths
from odradek.controller.configs import topic_entity
from odradek.controller.image import Topic
from odradek.controller.store import (
    Create,
    MetadataStore,
    NodeExists,
    NoNode,
    Operation,
    Set,
)
from odradek.controller.topics import NewTopic, Racks, TopicRules, given_configs, plan_topic
from odradek.controller.znodes import Assignment, ConfigNode, TopicAssignment
from odradek.protocol.errors import Errors, KafkaError

Replicas = Mapping[int, tuple[int, ...]]
Write = Callable[[Sequence[Operation]], Awaitable[object]]


async def create_topic(
    store: MetadataStore,
    new: NewTopic,
    *,
    topic_id: bytes,
    racks: Racks,
    rules: TopicRules,
    random: Random,
) -> Topic:
    """Check and create a topic without being controller. KafkaError when that cannot be."""
    existing = await store.children(paths.TOPICS)
    placed = plan_topic(new, existing=existing, racks=racks, rules=rules, random=random)
    return await write_topic(store.multi, new, placed, topic_id)


async def write_topic(write: Write, new: NewTopic, placed: Replicas, topic_id: bytes) -> Topic:
    """Write a topic that was planned. `write` is a multi, fenced or not."""
    assignments = {index: Assignment(replicas) for index, replicas in placed.items()}
    node = Create(paths.topic(new.name), TopicAssignment(topic_id, assignments).encode())
    config = ConfigNode(given_configs(new)).encode()
    path = paths.config(topic_entity(new.name))
    # A configuration may be there without its topic: whoever wrote it first, ours counts.
    is_left_over = False
    while True:
        first: Operation = Set(path, config) if is_left_over else Create(path, config)
        try:
            await write([first, node])
        except NodeExists as error:
            if error.index == 1:
                raise KafkaError(
                    Errors.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists."
                ) from None
            is_left_over = True
        except NoNode as error:
            if not is_left_over or error.index != 0:
                raise
            is_left_over = False
        else:
            return Topic(new.name, topic_id, assignments)
