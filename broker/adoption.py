"""Logs without metadata: a data directory that some other broker wrote, or whose store was lost.

A broker with an empty store takes the topics it finds in its directories for its own, with the ids
and partitions they have there, so that a directory of Apache Kafka can simply be served. Settings
of topics are not kept in log directories; but for the internal topics, which the broker knows,
they are the defaults then, which one line says.

The leader epoch goes on from the last one in the log: it may never go back.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from odradek.controller import paths
from odradek.controller.configs import topic_entity, write_config
from odradek.controller.store import Create, MetadataStore, Operation
from odradek.controller.znodes import Assignment, PartitionState, TopicAssignment
from odradek.protocol.types import TopicPartition, random_id
from odradek.storage.log import Log
from odradek.storage.logs import Logs

_log = logging.getLogger(__name__)


async def adopt_topics(
    store: MetadataStore,
    logs: Logs,
    broker_id: int,
    settings_of: Callable[[str], Mapping[str, str]],
) -> None:
    """Write the topics found in the log directories into a store that has none.

    `settings_of` knows what internal topics must be set to, and nothing of others.
    """
    if await store.children(paths.TOPICS):
        return
    for topic, found in sorted(_by_topic(logs).items()):
        missing = sorted(set(range(max(found) + 1)) - found.keys())
        if missing:
            _log.warning("Topic %s was found without its partitions %s", topic, missing)
            continue
        topic_id = logs.topic_id(TopicPartition(topic, 0)) or random_id()
        await store.multi(list(_writes(topic, topic_id, found, broker_id)))
        await write_config(store, topic_entity(topic), settings_of(topic))
        _log.warning(
            "Took over topic %s with %d partitions and default settings from the log directories",
            topic,
            len(found),
        )


def _by_topic(logs: Iterable[Log]) -> Mapping[str, dict[int, Log]]:
    topics: dict[str, dict[int, Log]] = {}
    for log in logs:
        where = log.topic_partition
        topics.setdefault(where.topic, {})[where.partition] = log
    return topics


def _writes(
    topic: str, topic_id: bytes, found: Mapping[int, Log], broker_id: int
) -> Iterable[Operation]:
    assignment = Assignment((broker_id,))
    node = TopicAssignment(topic_id, dict.fromkeys(sorted(found), assignment))
    yield Create(paths.topic(topic), node.encode())
    yield Create(paths.partitions(topic))
    for index, log in sorted(found.items()):
        where = TopicPartition(topic, index)
        state = PartitionState(
            leader=broker_id,
            leader_epoch=log.epochs.latest_epoch + 1,
            isr=(broker_id,),
            controller_epoch=0,
        )
        yield Create(paths.partition(where))
        yield Create(paths.partition_state(where), state.encode())
