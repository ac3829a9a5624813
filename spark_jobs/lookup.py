"""What the driver asks the cluster: which partitions there are, and where they begin and end."""

import re
from types import TracebackType
from typing import Self

from odradek.client.admin import Admin
from odradek.client.sync import SyncAdmin
from odradek.client.values import OffsetAndMetadata
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.offsets import EARLIEST, LATEST, Offsets, OptionError
from odradek.spark_jobs.options import (
    AtOffsets,
    AtTimes,
    Names,
    NamesLike,
    Partitions,
    Position,
    SourceOptions,
    admin_settings,
)


class Lookup:
    """An admin client that stays connected; close it when the query ends."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admin = SyncAdmin(admin_settings(options.kafka))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()

    def partitions(self) -> set[TopicPartition]:
        """What the query reads now. Raises KafkaError for a topic that is not there."""
        match self._options.subscription:
            case Partitions(partitions):
                there = self._partitions_of({p.topic for p in partitions})
                if missing := sorted(partitions - there):
                    raise _unknown(f"there is no partition {', '.join(map(str, missing))}")
                return set(partitions)
            case Names(topics):
                return self._partitions_of(set(topics))
            case NamesLike(pattern):
                # As in Kafka, a pattern must match the whole name.
                names = self._admin.run(lambda admin: admin.list_topics())
                return self._partitions_of({n for n in names if re.fullmatch(pattern, n)})

    def _partitions_of(self, topics: set[str]) -> set[TopicPartition]:
        if not topics:
            return set()
        described = self._admin.run(lambda admin: admin.describe_topics(topics))
        found: set[TopicPartition] = set()
        for name in sorted(topics):
            topic = described.get(name)
            if topic is None:
                raise _unknown(f"there is no topic {name}")
            if isinstance(topic, KafkaError):
                raise KafkaError(topic.error, f"topic {name}: {topic.error.message}")
            found |= {TopicPartition(name, index) for index in topic.partitions}
        return found

    def latest(self) -> Offsets:
        return self._at(dict.fromkeys(self.partitions(), LATEST))

    def earliest(self, partitions: set[TopicPartition]) -> Offsets:
        return self._at(dict.fromkeys(partitions, EARLIEST))

    def resolve(self, position: Position) -> Offsets:
        """Numbers for what the options say of all partitions that there are."""
        partitions = self.partitions()
        if isinstance(position, AtTimes):
            return self._at_times(position, partitions)
        return self._at_offsets(position, partitions)

    def _at_offsets(self, position: AtOffsets, partitions: set[TopicPartition]) -> Offsets:
        if position.given is None:
            return self._at(dict.fromkeys(partitions, position.everywhere))
        _check_complete(partitions, position.given)
        ends = self._at({p: end for p, end in position.given.items() if end < 0})
        return position.given | ends

    def _at_times(self, position: AtTimes, partitions: set[TopicPartition]) -> Offsets:
        if position.given is not None:
            _check_complete(partitions, position.given)
            times = position.given
        else:
            assert position.everywhere is not None
            times = dict.fromkeys(partitions, position.everywhere)
        rows = self._admin.run(lambda admin: admin.list_offsets(times))
        found = {partition: row.offset for partition, row in rows.items() if row is not None}
        late = times.keys() - found.keys()
        if late and not position.falls_back_to_latest:
            first = min(late)
            raise OptionError(
                f"{first} has no record at or after {times[first]}; "
                "startingOffsetsByTimestampStrategy=latest would begin at its end"
            )
        return found | self._at(dict.fromkeys(late, LATEST))

    def _at(self, ends: Offsets) -> Offsets:
        """These ends of the logs; as far as transactions are decided for read_committed."""
        if not ends:
            return {}
        committed = self._options.is_read_committed
        rows = self._admin.run(lambda admin: admin.list_offsets(ends, read_committed=committed))
        return {partition: row.offset for partition, row in rows.items() if row is not None}

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Note the progress where every tool of Kafka looks for it."""
        positions = {partition: OffsetAndMetadata(at) for partition, at in offsets.items()}

        async def alter(admin: Admin) -> None:
            await admin.alter_group_offsets(group_id, positions)

        self._admin.run(alter)


def _check_complete(partitions: set[TopicPartition], given: Offsets) -> None:
    if partitions == given.keys():
        return
    missing = ", ".join(map(str, sorted(partitions - given.keys()))) or "nothing"
    surplus = ", ".join(map(str, sorted(given.keys() - partitions))) or "nothing"
    raise OptionError(
        "Offsets or times must be given for all partitions that are read, and for no others: "
        f"missing are {missing}, too many are {surplus}"
    )


def _unknown(message: str) -> KafkaError:
    return KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, message)
