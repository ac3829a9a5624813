"""OffsetCommit and OffsetFetch: who may commit, what is kept, and what is shown.

A member commits with its generation, or with its epoch in a consumer group. Someone without one (a
consumer that assigns itself, an administrator) may commit while the group has no members. Offsets
are shown once committed.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_records import NO_EXPIRY, OffsetRecord
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.members import NO_MEMBER
from odradek.broker.coordinator.offsets import CommittedOffset
from odradek.broker.coordinator.rebalancing import GroupTools, Rebalancing
from odradek.broker.coordinator.write_errors import commit_error
from odradek.protocol.errors import Errors
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.records import NO_PRODUCER, ProducerStamp
from odradek.protocol.types import TopicPartition


class Committer(NamedTuple):
    """Who commits; a generation of -1 stands for none."""

    member_id: str
    instance_id: str | None
    generation: int
    producer: ProducerStamp = NO_PRODUCER
    knows_epochs: bool = False
    """Whether it speaks a version that members of the consumer protocol may use."""

    @property
    def is_transactional(self) -> bool:
        return self.producer.is_transactional


# What is to be committed, as it will be written down.
Positions = dict[TopicPartition, OffsetCommitValue]
Outcomes = dict[TopicPartition, Errors]
CommitReply = Callable[[Outcomes], None]

NOTHING_COMMITTED = CommittedOffset(-1, -1, "", -1, NO_EXPIRY, -1)


class Committing:
    def __init__(self, tools: GroupTools, rebalancing: Rebalancing) -> None:
        self._tools = tools
        self._rebalancing = rebalancing

    def commit(
        self,
        group: Group,
        committer: Committer,
        positions: Positions,
        reply: CommitReply,
    ) -> None:
        problem = commit_problem(group, committer)
        if problem is not Errors.NONE:
            reply(dict.fromkeys(positions, problem))
            return
        member = group.members.get(committer.member_id)
        if member is not None and not committer.is_transactional:
            self._rebalancing.keep_alive(member)
        self._write(group.id, committer, positions, reply)

    def commit_to_consumer_group(
        self,
        group: ConsumerGroup,
        committer: Committer,
        positions: Positions,
        reply: CommitReply,
    ) -> None:
        problem = consumer_commit_problem(group, committer)
        if problem is not Errors.NONE:
            reply(dict.fromkeys(positions, problem))
            return
        self._write(group.id, committer, positions, reply)

    def _write(
        self, group_id: str, committer: Committer, positions: Positions, reply: CommitReply
    ) -> None:
        limit = self._tools.config.metadata_max_chars
        too_long = {w for w, value in positions.items() if not fits(value.metadata, limit)}
        records = [
            OffsetRecord(group_id, where, value)
            for where, value in positions.items()
            if where not in too_long
        ]

        def written(error: Errors) -> None:
            outcomes = dict.fromkeys(positions, commit_error(error))
            outcomes.update(dict.fromkeys(too_long, Errors.OFFSET_METADATA_TOO_LARGE))
            reply(outcomes)

        if not records:
            written(Errors.NONE)
            return
        self._tools.writer.write(records, written, producer=committer.producer)


def commit_problem(group: Group, committer: Committer) -> Errors:
    """Why this commit is refused, NONE if it is not."""
    names_member = committer.member_id != NO_MEMBER or committer.instance_id is not None
    if committer.generation < 0 and group.state is GroupState.EMPTY:
        return Errors.NONE
    if committer.generation >= 0 or names_member:
        problem = group.membership_problem(committer.member_id, committer.instance_id)
        if problem is not Errors.NONE:
            return problem
        if committer.generation != group.generation:
            return Errors.ILLEGAL_GENERATION
    elif not committer.is_transactional:
        # Others than members would move the members' offsets under their feet. Transactions of
        # old do not name their member.
        return Errors.UNKNOWN_MEMBER_ID
    if group.state is GroupState.COMPLETING and not committer.is_transactional:
        return Errors.REBALANCE_IN_PROGRESS
    return Errors.NONE


def no_such_group(committer: Committer) -> Errors:
    """What a member hears whose group is not known."""
    knows = committer.knows_epochs and not committer.is_transactional
    return Errors.GROUP_ID_NOT_FOUND if knows else Errors.ILLEGAL_GENERATION


def consumer_commit_problem(group: ConsumerGroup, committer: Committer) -> Errors:
    """The same in a consumer group."""
    if committer.generation < 0 and not group.members:
        return Errors.NONE
    names_member = committer.member_id != NO_MEMBER or committer.instance_id is not None
    if committer.is_transactional and committer.generation < 0 and not names_member:
        return Errors.NONE
    member = group.members.get(committer.member_id)
    if member is None:
        return Errors.UNKNOWN_MEMBER_ID
    needs_epochs = member.says.classic is None and not committer.is_transactional
    if needs_epochs and not committer.knows_epochs:
        return Errors.UNSUPPORTED_VERSION
    problem = epoch_problem(group, committer.member_id, committer.generation)
    if problem is Errors.STALE_MEMBER_EPOCH and committer.is_transactional:
        # Producers know no epochs of members.
        return Errors.ILLEGAL_GENERATION
    return problem


def epoch_problem(group: ConsumerGroup, member_id: str, epoch: int) -> Errors:
    """Why offsets are no business of a member in this epoch, NONE if they are."""
    member = group.members.get(member_id)
    if member is None:
        return Errors.UNKNOWN_MEMBER_ID
    if epoch == member.has.epoch:
        return Errors.NONE
    is_classic = member.says.classic is not None
    return Errors.ILLEGAL_GENERATION if is_classic else Errors.STALE_MEMBER_EPOCH


def fits(metadata: str, limit: int) -> bool:
    """Whether the text has no more than so many UTF-16 units, which is how Kafka counts."""
    if len(metadata) * 2 <= limit or metadata.isascii():
        return len(metadata) <= limit
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 <= limit


class Shown(NamedTuple):
    """What a fetch of offsets is told of one partition."""

    committed: CommittedOffset
    error: Errors = Errors.NONE


def show_offsets(
    group: Group | ConsumerGroup | None,
    wanted: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
    committed_end: int,
) -> dict[TopicPartition, Shown]:
    """The committed offsets of these partitions, or of all that have one.

    With `require_stable` a partition is in error while a transaction may still change it.
    """
    if group is None:
        return {where: Shown(NOTHING_COMMITTED) for where in wanted or ()}
    offsets = group.offsets
    unstable = offsets.pending_partitions() if require_stable else set()
    if wanted is None:
        found = dict(offsets.all_committed(committed_end))
        partitions: Iterable[TopicPartition] = {**found, **dict.fromkeys(unstable)}
    else:
        partitions = wanted
        found = {}
    shown: dict[TopicPartition, Shown] = {}
    for where in partitions:
        if where in unstable:
            shown[where] = Shown(NOTHING_COMMITTED, Errors.UNSTABLE_OFFSET_COMMIT)
            continue
        committed = found.get(where) or offsets.committed(where, committed_end)
        shown[where] = Shown(committed or NOTHING_COMMITTED)
    return shown
