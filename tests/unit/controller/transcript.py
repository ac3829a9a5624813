"""A cluster that exists only as an image, moved by one-line stories.

    >>> tell("brokers 1 2 3; topic t 1,2,3; 1 dies")
    ... 't-0 leader 1 epoch 0 isr 1,2,3 / t-0 leader 2 epoch 1 isr 2,3'

Each step is decided by the real rules; the store is played by counting versions. A step shows what
it changed, or "-"; the first `brokers` shows nothing.
"""

from dataclasses import replace

from odradek.controller import decide, leadership, reassignment
from odradek.controller.decide import Decision, Membership, Plan, Terms
from odradek.controller.image import Broker, ClusterImage, Topic
from odradek.controller.isr_changes import Granted, IsrChange, judge
from odradek.controller.leadership import ElectionType
from odradek.controller.znodes import Assignment, BrokerRegistration, PartitionState
from odradek.protocol.endpoints import Endpoint, SecurityProtocol
from odradek.protocol.types import TopicPartition


def tell(story: str, terms: Terms | None = None) -> str:
    world = World(terms or Terms(controller_epoch=1))
    shown = [world.step(step.strip()) for step in story.split(";")]
    return " / ".join(line for line in shown if line)


def broker(broker_id: int, epoch: int, rack: str | None = None) -> Broker:
    endpoint = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, f"host{broker_id}", 9092)
    return Broker(broker_id, epoch, BrokerRegistration((endpoint,), 0, rack))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def where_of(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def show(where: TopicPartition, state: PartitionState) -> str:
    leader = "none" if state.leader < 0 else state.leader
    isr = ",".join(map(str, state.isr))
    recovering = " recovering" if state.recovering else ""
    return f"{where} leader {leader} epoch {state.leader_epoch} isr {isr}{recovering}"


class World:
    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.image = ClusterImage()
        self.epoch = 100
        self.plans: list[Plan] = []

    def step(self, step: str) -> str:
        match step.split():
            case ["brokers", *ids]:
                self.image = self.image.with_brokers({int(b): self._born(int(b)) for b in ids})
                return ""
            case ["topic", name, *replicas]:
                return self._new_topic(name, replicas)
            case ["config", name, key, value]:
                self.image = self.image.with_topic_config(name, {key: value})
                return self._act(Decision(self.image, decide.settle(self.image, self.terms)))
            case [ids, "dies" | "die"]:
                staying = {b: x for b, x in self.image.brokers.items() if b not in numbers(ids)}
                return self._membership(staying)
            case [ids, "returns" | "return" | "bounces"]:
                born = {b: self._born(b) for b in numbers(ids)}
                return self._membership({**self.image.brokers, **born})
            case [broker_id, "shuts", "down"]:
                return self._act(decide.controlled_shutdown(self.image, int(broker_id), self.terms))
            case [broker_id, "loses", *partitions]:
                failed = {where_of(text) for text in partitions}
                return self._act(
                    decide.directory_failed(self.image, int(broker_id), failed, self.terms)
                )
            case ["isr", partition, members]:
                return self._alter_isr(where_of(partition), numbers(members))
            case ["move", partition, target]:
                return self._move(where_of(partition), numbers(target))
            case ["cancel", partition]:
                return self._move(where_of(partition), None)
            case ["elect", kind, partition]:
                return self._elect(ElectionType[kind.upper()], where_of(partition))
            case ["new", "controller"]:
                self.terms = replace(self.terms, controller_epoch=self.terms.controller_epoch + 1)
                return self._act(decide.take_office(self.image, self.terms))
        raise ValueError(f"no such step: {step}")

    def _born(self, broker_id: int) -> Broker:
        self.epoch += 1
        return broker(broker_id, self.epoch)

    def _new_topic(self, name: str, replicas: list[str]) -> str:
        assignments = {p: Assignment(numbers(text)) for p, text in enumerate(replicas)}
        topic = Topic(name, name.encode().ljust(16, b"\0"), assignments)
        return self._act(decide.topics_read(self.image, [topic], self.terms))

    def _membership(self, brokers: dict[int, Broker]) -> str:
        change = Membership.between(self.image.brokers, brokers)
        shown = []
        if change.left:
            shown.append(self._act(decide.brokers_left(self.image, change.left, self.terms)))
        if change.came:
            shown.append(
                self._act(decide.brokers_came(self.image, brokers, change.came, self.terms))
            )
        return ", ".join(line for line in shown if line != "-") or "-"

    def _alter_isr(self, where: TopicPartition, members: tuple[int, ...]) -> str:
        state = self.image.states[where]
        change = IsrChange(
            where,
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            dict.fromkeys(members, -1),
        )
        outcome = judge(self.image, change, self.terms)
        if not isinstance(outcome, Granted):
            return outcome.name
        plan = Plan(states={where: outcome.state}, quiet=frozenset({where}))
        shown = self._act(Decision(self.image, plan))
        first, last = reassignment.complete(self.image, [where], self.terms)
        if first.plan.is_empty:
            return shown
        return f"{shown}, {self._act(first)}{self._act(Decision(self.image, last))}"

    def _move(self, where: TopicPartition, target: tuple[int, ...] | None) -> str:
        reassignment.check(self.image, where, target)
        return self._act(reassignment.begin(self.image, {where: target}, self.terms))

    def _elect(self, kind: ElectionType, where: TopicPartition) -> str:
        elections = leadership.elect(self.image, [where], kind, self.terms)
        if elections.outcomes[where]:
            return elections.outcomes[where].name
        return self._act(Decision(self.image, elections.plan))

    def _act(self, decision: Decision) -> str:
        """Play the store: each write adds one to the version of its node."""
        plan = decision.plan
        self.plans.append(plan)
        stored = {
            where: replace(state, partition_epoch=state.partition_epoch + 1)
            for where, state in plan.states.items()
        }
        topics = [replace(topic, version=topic.version + 1) for topic in plan.topics]
        self.image = decision.image.with_topics(topics).with_states(stored)
        shown = [show(where, state) for where, state in stored.items()]
        shown += [
            f"stop {s.where} on {s.broker_id}{' and delete' if s.delete else ''}" for s in plan.stop
        ]
        for topic in topics:
            for p, a in topic.assignments.items():
                shown.append(f"{topic.name}-{p} replicas {_joined(a.replicas)}{_moving(a)}")
        return ", ".join(shown) or "-"


def _joined(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _moving(assignment: Assignment) -> str:
    return f" +{_joined(assignment.adding)} -{_joined(assignment.removing)}" * assignment.is_moving
