"""One group on a shard that exists only in memory, moved by one-line stories.

    >>> tell("a joins; b joins; 3 s; a syncs a=A b=B; b syncs")
    ... ('Preparing a / Preparing a,b / Completing(1) a,b: a leads a,b, b follows a'
    ... ' / Completing(1) a,b / Stable(1) a,b: a has A, b has B')

Each step shows the group as it is then and the answers that came with the step. A member goes by
the name of its client; `joins` goes through MEMBER_ID_REQUIRED by itself where that is asked.
Words after the verb are options: `v=4 id=x instance=i protocols=range,rr session=10 rebalance=60
type=consumer generation=1`.
"""

from collections.abc import Callable, Collection
from struct import pack

from odradek.broker.coordinator.committing import Committer, Outcomes
from odradek.broker.coordinator.consumer_groups import ConsumerTools, Found
from odradek.broker.coordinator.consumer_records import AnyGroupRecord, GroupRecords
from odradek.broker.coordinator.group import Group
from odradek.broker.coordinator.group_config import GroupConfig
from odradek.broker.coordinator.group_shard import GroupShard
from odradek.broker.coordinator.group_states import GroupState
from odradek.broker.coordinator.members import Client, Join
from odradek.broker.coordinator.rebalancing import GroupTools
from odradek.broker.coordinator.shard import Place, Shard, ShardTools
from odradek.broker.coordinator.shard_log import MemoryLog
from odradek.broker.coordinator.timers import ManualTimers
from odradek.broker.coordinator.topic_pattern import matches_of
from odradek.broker.coordinator.topic_shapes import Topics
from odradek.protocol.clock import ManualClock
from odradek.protocol.compiler import encode
from odradek.protocol.errors import Errors
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupMemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from odradek.protocol.records import iter_records
from odradek.protocol.types import TopicPartition

GROUP = "g"
SHORT = {
    GroupState.EMPTY: "Empty",
    GroupState.PREPARING: "Preparing",
    GroupState.COMPLETING: "Completing",
    GroupState.STABLE: "Stable",
}
SECONDS = {"ms": 1, "s": 1000, "min": 60_000, "days": 86_400_000}


def tell(story: str, **settings: int) -> str:
    return World(GroupConfig(**settings)).tell(story)  # type: ignore[arg-type]


def subscription(*topics: str) -> bytes:
    return pack(">h", 0) + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def where_of(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


class World:
    def __init__(self, config: GroupConfig | None = None, log: MemoryLog | None = None) -> None:
        self.config = config or GroupConfig()
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.log = log or MemoryLog()
        tools = ShardTools(self.clock, self.timers, self.config.commit_timeout_ms)
        self.shard: Shard[AnyGroupRecord] = Shard(self.log, 1, GroupRecords(), tools)
        self.holds_patterns = False
        self.resolving: list[Callable[[], None]] = []
        # The topics that consumer groups can be assigned.
        self.shapes: Topics = {}
        groups = GroupTools(self.clock, self.timers, self.config, self.shard, self._new_id)
        consumers = ConsumerTools(
            self.clock,
            groups.deadline,
            self.config,
            self.shard,
            self._new_id,
            lambda: self.shapes,
            self._resolve,
        )
        self.state = GroupShard(groups, consumers)
        self.shard.state = self.state
        self.ids: dict[str, str] = {}
        self.heard: list[str] = []
        # Who acts, and what it says in its join instead of a plain subscription.
        self.who = ""
        self.metadata: bytes | None = None
        self._count = 0
        self._begin()

    def _begin(self) -> None:
        for batch in self.log.batches:
            for record in iter_records(batch):
                typed = self.shard._codec.decode(record.key, record.value)
                assert typed is not None
                self.state.replay(typed, Place(record.offset))
        self.shard.loaded_end = self.log.end_offset
        self.state.begin()

    def _resolve(
        self, patterns: Collection[str], names: Collection[str], found: Callable[[Found], None]
    ) -> None:
        """At once, unless the story says `patterns wait`."""
        self.resolving.append(lambda: found(matches_of(patterns, names)))
        if not self.holds_patterns:
            self.resolving.pop()()

    @property
    def group(self) -> Group | None:
        return self.state.groups.get(GROUP)

    def _new_id(self) -> str:
        self._count += 1
        return str(self._count)

    def tell(self, story: str) -> str:
        return " / ".join(self.step(step.strip()) for step in story.split(";"))

    def step(self, step: str) -> str:
        self.heard = []
        words = step.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        match plain:
            case [number, unit] if unit in SECONDS:
                self.timers.advance(int(number) * SECONDS[unit])
            case ["log", *rest]:
                self._log(rest)
            case ["expire"]:
                list(self.state.removal.expire())
            case ["delete", "group"]:
                self.state.removal.delete_group(GROUP, self._tell_error("delete"))
            case ["fetch", *partitions]:
                self._fetch(partitions)
            case [who, verb, *rest]:
                self.who = who
                self._act(who, verb, rest, options)
            case _:
                raise AssertionError(f"no such step: {step}")
        return self._show()

    def _show(self) -> str:
        group = self.group
        if group is None:
            shown = "-"
        else:
            generation = f"({group.generation})" if group.generation else ""
            members = ",".join(member.client.id for member in group.members.values())
            shown = f"{SHORT[group.state]}{generation} {members}".rstrip()
        return f"{shown}: {', '.join(self.heard)}" if self.heard else shown

    # Steps ----------------------------------------------------------------------------------

    def _log(self, rest: list[str]) -> None:
        match rest:
            case ["waits"]:
                self.log.holds_back = True
            case ["commits"]:
                self.log.holds_back = False
                self.log.commit()
            case ["refuses", error]:
                self.log.refusal = Errors[error]
            case ["accepts"]:
                self.log.refusal = None
            case ["moves", "away"]:
                self.log.lose_leadership()
                self.shard.close()

    def _act(self, who: str, verb: str, rest: list[str], options: dict[str, str]) -> None:
        match verb:
            case "joins":
                self.join(who, options)
            case "syncs":
                self.sync(who, options)
            case "beats":
                self._beat(who, options)
            case "leaves":
                self._leave(who, options)
            case "commits":
                self.commit(who, where_of(rest[0]), int(rest[1]), options)
            case _:
                raise AssertionError(f"no such verb: {verb}")

    def join(self, who: str, options: dict[str, str]) -> None:
        session_ms = int(options.get("session", 10)) * 1000
        topics = options.get("topics", "t").split(",")
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=int(options.get("rebalance", 60)) * 1000,
            member_id=self._id(who, options),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self.metadata or subscription(*topics))
                for name in options.get("protocols", "range").split(",")
                if name
            ],
        )
        version = int(options.get("v", 5))

        def reply(response: JoinGroupResponse) -> None:
            if response.error_code == Errors.MEMBER_ID_REQUIRED and "v" not in options:
                self.ids[who] = response.member_id
                self.join(who, {k: v for k, v in options.items() if k != "id"})
                return
            self._hear_join(who, response)

        self.state.join(GROUP, Join.of(request, version, Client(who, "/host"), reply))

    def _hear_join(self, who: str, response: JoinGroupResponse) -> None:
        if response.error_code:
            if response.error_code == Errors.MEMBER_ID_REQUIRED:
                self.ids[who] = response.member_id
            self.heard.append(f"{who} {Errors(response.error_code).name}")
            return
        self.ids[who] = response.member_id
        if response.members:
            names = ",".join(self._name(member.member_id) for member in response.members)
            skips = " skips assignment" if response.skip_assignment else ""
            self.heard.append(f"{who} leads {names}{skips}")
        else:
            self.heard.append(f"{who} follows {self._name(response.leader)}")

    def sync(self, who: str, options: dict[str, str]) -> None:
        fixed = {"id", "instance", "generation", "type", "protocol"}
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._generation(options),
            member_id=self._id(who, options),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type"),
            protocol_name=options.get("protocol"),
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self.ids[name], assignment=self.assignment(text)
                )
                for name, text in options.items()
                if name not in fixed
            ],
        )

        def reply(response: SyncGroupResponse) -> None:
            if response.error_code:
                self.heard.append(f"{who} {Errors(response.error_code).name}")
            else:
                self.heard.append(f"{who} has {self.text_of(bytes(response.assignment))}")

        self.state.sync(request, reply)

    def assignment(self, text: str) -> bytes:
        """What a leader assigns, in the bytes of its protocol."""
        return text.encode()

    def text_of(self, assignment: bytes) -> str:
        return assignment.decode() or "nothing"

    def _beat(self, who: str, options: dict[str, str]) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self._generation(options),
            member_id=self._id(who, options),
            group_instance_id=options.get("instance"),
        )
        self.heard.append(f"{who} {self.state.heartbeat(request).name}")

    def _leave(self, who: str, options: dict[str, str]) -> None:
        leaving = LeaveGroupMemberIdentity(
            member_id=self._id(who, options), group_instance_id=options.get("instance")
        )
        error = self.state.leave(GROUP, leaving)
        self.heard.append(f"{who} {error.name}")

    def commit(self, who: str, where: TopicPartition, offset: int, options: dict[str, str]) -> None:
        committer = Committer(
            self._id(who, options),
            options.get("instance"),
            self._generation(options),
            knows_epochs=int(options.get("v", 8)) >= 9,
        )
        position = OffsetCommitValue(
            offset=offset,
            leader_epoch=-1,
            metadata=options.get("metadata", ""),
            commit_timestamp=self.clock.now_ms(),
        )

        def reply(outcomes: Outcomes) -> None:
            self.heard.append(f"{who} {outcomes[where].name}")

        self.state.commit(GROUP, committer, {where: position}, reply)

    def _fetch(self, partitions: list[str]) -> None:
        wanted = [where_of(partition) for partition in partitions] or None
        for where, shown in self.state.offsets(GROUP, wanted, require_stable=True).items():
            told = shown.error.name if shown.error else shown.committed.offset
            self.heard.append(f"{where} {told}")

    def _tell_error(self, who: str) -> Callable[[Errors], None]:
        return lambda error: self.heard.append(f"{who} {error.name}")

    # Names ----------------------------------------------------------------------------------

    def _id(self, who: str, options: dict[str, str]) -> str:
        given = options.get("id")
        if given == "none":
            return ""
        return self.ids.get(given or who, given or "")

    def _generation(self, options: dict[str, str]) -> int:
        if "generation" in options:
            return int(options["generation"])
        return self.group.generation if self.group and self.group.members else -1

    def _name(self, member_id: str) -> str:
        names = {known: name for name, known in self.ids.items()}
        if self.group is not None:
            names.update({m.id: m.client.id for m in self.group.members.values()})
        return names.get(member_id, member_id)
