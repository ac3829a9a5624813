"""Stories of one group of the consumer protocol, on a shard that exists only in memory.

    >>> tell("topics t=4; a joins; b joins; a beats; a gives; b beats")
    ... ('- / Stable(1) a1: a 1 t0123 / Reconciling(2) a1 b2: b 2 nothing / '
    ... 'Reconciling(2) a1~ b2: a 1 t01 / Reconciling(2) a2 b2: a 2 / Stable(2) a2 b2: b 2 t23')

Each step shows the group as it is then (state, epoch, members with their epochs: `~` has partitions
to give up, `?` waits for some, `c` speaks the classic protocol) and the answers that came with the
step: the epoch, and the assignment if one was told. A member `beats` and says nothing, `gives`
when it says that it holds just what it was given last, `holds t01` to say something else. Members
of the classic protocol speak as in `story`, with `joins classic`. What patterns stand for is found
out at once, or between `patterns wait` and `patterns resolve`.
"""

from struct import pack
from typing import Any

from odradek.broker.coordinator.assignments import Assignment
from odradek.broker.coordinator.consumer_group import ConsumerGroup
from odradek.broker.coordinator.consumer_groups import Beat
from odradek.broker.coordinator.group_config import GroupConfig
from odradek.broker.coordinator.heartbeat_checks import check_request
from odradek.broker.coordinator.members import Client
from odradek.broker.coordinator.reconciliation import MemberState
from odradek.broker.coordinator.shard_log import MemoryLog
from odradek.broker.coordinator.subscriptions import read_assignment, write_assignment
from odradek.broker.coordinator.topic_shapes import TopicShape
from odradek.protocol.compiler import encode
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)

from tests.unit.broker.coordinator.story import GROUP, World

MARKS = {MemberState.STABLE: "", MemberState.UNREVOKED: "~", MemberState.UNRELEASED: "?"}


def tell(story: str, **settings: Any) -> str:
    return ConsumerWorld(GroupConfig(**settings)).tell(story)


def end_of(story: str, **settings: Any) -> str:
    return tell(story, **settings).split(" / ")[-1]


def id_of(topic: str) -> bytes:
    return topic.encode().ljust(16, b"\0")


def read(text: str) -> dict[bytes, list[int]]:
    """`t01,u2` as partitions by topic."""
    if text == "nothing":
        return {}
    return {id_of(each[0]): [int(number) for number in each[1:]] for each in text.split(",")}


def shown(assignment: Assignment | dict[bytes, list[int]]) -> str:
    named = sorted((i.rstrip(b"\0").decode(), sorted(p)) for i, p in assignment.items())
    return ",".join(f"{name}{''.join(map(str, numbers))}" for name, numbers in named) or "nothing"


class ConsumerWorld(World):
    def __init__(self, config: GroupConfig | None = None, log: MemoryLog | None = None) -> None:
        self.epochs: dict[str, int] = {}
        self.given: dict[str, dict[bytes, list[int]]] = {}
        self.instances: dict[str, str] = {}
        super().__init__(config, log)

    @property
    def consumer_group(self) -> ConsumerGroup | None:
        return self.state.consumers.groups.get(GROUP)

    def after_restart(self) -> "ConsumerWorld":
        """The same log with another coordinator, and clients that remember what they knew."""
        other = ConsumerWorld(self.config, self.log)
        other.shapes = self.shapes
        other.ids, other.epochs, other.given = self.ids, self.epochs, self.given
        other.instances = self.instances
        return other

    def step(self, step: str) -> str:
        words = step.split()
        if words[0] == "topics":
            self.heard = []
            pairs = (word.split("=") for word in words[1:])
            self.shapes = {name: TopicShape(id_of(name), int(count)) for name, count in pairs}
            return self._show()
        if words[0] == "patterns":
            self.heard = []
            self.holds_patterns = words[1] == "wait"
            while self.resolving and not self.holds_patterns:
                self.resolving.pop(0)()
            return self._show()
        return super().step(step)

    def _show(self) -> str:
        group = self.consumer_group
        if group is None:
            return super()._show()
        members = " ".join(
            f"{member.says.client.id}{member.has.epoch}{MARKS[member.has.state]}"
            + ("c" if member.says.classic else "")
            for member in group.members.values()
        )
        text = f"{group.state.value}({group.epoch}) {members}".rstrip()
        return f"{text}: {', '.join(self.heard)}" if self.heard else text

    def _act(self, who: str, verb: str, rest: list[str], options: dict[str, str]) -> None:
        if "classic" in rest:
            self._join_classic(who, options)
            return
        if who in self.epochs or verb in ("joins", "goes"):
            match verb:
                case "joins":
                    self._heartbeat(who, 0, options, is_join=True)
                    return
                case "beats":
                    self._heartbeat(who, self._epoch(who, options), options)
                    return
                case "gives":
                    options = {"owned": shown(self.given.get(who, {})), **options}
                    self._heartbeat(who, self._epoch(who, options), options)
                    return
                case "holds":
                    options = {"owned": rest[0], **options}
                    self._heartbeat(who, self._epoch(who, options), options)
                    return
                case "leaves":
                    self._heartbeat(who, -1, options)
                    return
                case "goes":
                    self._heartbeat(who, -2, options)
                    return
        if who in self.epochs:
            options.setdefault("v", "9")
        super()._act(who, verb, rest, options)

    def _epoch(self, who: str, options: dict[str, str]) -> int:
        return int(options["epoch"]) if "epoch" in options else self.epochs[who]

    def _heartbeat(
        self, who: str, epoch: int, options: dict[str, str], *, is_join: bool = False
    ) -> None:
        self.epochs.setdefault(who, 0)
        owned = options.get("owned", "nothing" if is_join else None)
        topics = options.get("topics", "t" if is_join and "pattern" not in options else None)
        member_id = options.get("id", who)
        self.ids[who] = member_id
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=options.get("instance"),
            rebalance_timeout_ms=int(options.get("rebalance", 60)) * 1000 if is_join else -1,
            subscribed_topic_names=None
            if topics is None
            else [topic for topic in topics.split(",") if topic != "none"],
            subscribed_topic_regex=options.get("pattern"),
            server_assignor=options.get("assignor"),
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatTopicPartitions(topic_id=topic, partitions=numbers)
                for topic, numbers in read(owned).items()
            ],
        )
        try:
            check_request(request, 1, self.config.assignors)
            beat = Beat.of(request, Client(who, "/host"), member_id)
            self.state.consumer_heartbeat(beat, lambda answer: self._hear(who, answer))
        except KafkaError as error:
            self.heard.append(f"{who} {error.error.name}")

    def _hear(self, who: str, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code:
            self.heard.append(f"{who} {Errors(answer.error_code).name}")
            return
        self.epochs[who] = answer.member_epoch
        told = ""
        if answer.assignment is not None:
            given = {t.topic_id: t.partitions for t in answer.assignment.topic_partitions}
            self.given[who] = given
            told = f" {shown(given)}"
        self.heard.append(f"{who} {answer.member_epoch}{told}")

    # The classic protocol -------------------------------------------------------------------

    def _join_classic(self, who: str, options: dict[str, str]) -> None:
        owned = [
            SubscriptionTopicPartition(topic=topic.rstrip(b"\0").decode(), partitions=numbers)
            for topic, numbers in read(options.pop("owned", "nothing")).items()
        ]
        topics = options.pop("topics", "t").split(",")
        value = ConsumerProtocolSubscription(topics=topics, owned_partitions=owned)
        self.metadata = pack(">h", 1) + encode(value, 1)
        self.epochs.pop(who, None)
        self.join(who, options)
        self.metadata = None

    def assignment(self, text: str) -> bytes:
        names = {shape.id: name for name, shape in self.shapes.items()}
        given = {topic: frozenset(numbers) for topic, numbers in read(text).items()}
        return write_assignment(given, names, 1)

    def text_of(self, assignment: bytes) -> str:
        return shown(read_assignment(assignment, self.shapes))

    def _generation(self, options: dict[str, str]) -> int:
        group = self.consumer_group
        if group is None or "generation" in options:
            return super()._generation(options)
        return {m.says.client.id: m.has.epoch for m in group.members.values()}.get(self.who, -1)
