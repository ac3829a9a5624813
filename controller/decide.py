"""What a controller does when something happened: image in, image and plan out. Pure.

A plan is carried out in this order: partition states are written, topic nodes are written, brokers
are told. So in-sync replicas are trimmed before the assignment they belong to, and are a part of it
at any moment. `image` is the picture before the plan's own writes; the controller adds those once
the store has taken them. Every rule here may be repeated: on a picture that is already as it should
be, it plans nothing.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from odradek.controller import election
from odradek.controller.image import Broker, ClusterImage, Topic
from odradek.controller.znodes import Assignment, PartitionState
from odradek.protocol.types import TopicPartition

UNCLEAN_CONFIG = "unclean.leader.election.enable"

States = Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True)
class Terms:
    """In whose name decisions are made, and the cluster's defaults they depend on."""

    controller_epoch: int
    unclean_by_default: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """One replica that must stop fetching or serving, and perhaps be deleted."""

    where: TopicPartition
    broker_id: int
    delete: bool


@dataclass(frozen=True, slots=True)
class Plan:
    # Topic nodes to write, each compared with the version it carries.
    topics: tuple[Topic, ...] = ()
    # States to write, each compared with the partition epoch it carries; -1 creates it.
    states: States = field(default_factory=dict)
    # Partitions of `states` whose replicas know already: only metadata is spread.
    quiet: frozenset[TopicPartition] = frozenset()
    # Partitions whose replicas are told although nothing is written, all or only some of them.
    lead: frozenset[TopicPartition] = frozenset()
    lead_on: frozenset[int] = frozenset()
    # Replicas that begin empty.
    fresh: frozenset[tuple[TopicPartition, int]] = frozenset()
    stop: tuple[Stop, ...] = ()
    # Brokers that are told everything, and whether all are told who lives.
    welcome: frozenset[int] = frozenset()
    members_changed: bool = False
    # Topics whose partitions are announced as being deleted.
    vanishing: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self == Plan()


@dataclass(frozen=True, slots=True)
class Decision:
    image: ClusterImage
    plan: Plan


@dataclass(frozen=True, slots=True)
class Membership:
    """Brokers that went and came. One that came back within its session did both."""

    left: frozenset[int]
    came: frozenset[int]
    moved: frozenset[int]

    @classmethod
    def between(cls, before: Mapping[int, Broker], now: Mapping[int, Broker]) -> "Membership":
        reborn = {b for b in before.keys() & now.keys() if before[b].epoch != now[b].epoch}
        stayed = (before.keys() & now.keys()) - reborn
        return cls(
            left=frozenset((before.keys() - now.keys()) | reborn),
            came=frozenset((now.keys() - before.keys()) | reborn),
            moved=frozenset(b for b in stayed if before[b] != now[b]),
        )


def take_office(image: ClusterImage, terms: Terms) -> Decision:
    """Put everything right, and tell everyone everything: who knows what the last one told."""
    plan = replace(settle(image, terms), welcome=frozenset(image.brokers), members_changed=True)
    return Decision(replace(image, returned={}), plan)


def brokers_left(image: ClusterImage, left: Set[int], terms: Terms) -> Decision:
    """Move leaders away from brokers that are gone and take these out of the in-sync replicas."""
    staying = {b: broker for b, broker in image.brokers.items() if b not in left}
    image = image.with_brokers(staying)
    return Decision(image, replace(settle(image, terms), members_changed=True))


def brokers_came(
    image: ClusterImage, brokers: Mapping[int, Broker], came: Set[int], terms: Terms
) -> Decision:
    """Tell newcomers everything, and give leaders to partitions that waited for them."""
    image = image.with_brokers(brokers)
    plan = replace(settle(image, terms), welcome=frozenset(came), members_changed=True)
    return Decision(image, plan)


def topics_read(image: ClusterImage, topics: Iterable[Topic], terms: Terms) -> Decision:
    """Give leaders to the partitions of topics that are new or have grown."""
    topics = list(topics)
    image = image.with_topics(topics)
    fresh = [where for topic in topics for where in topic.partitions()]
    return Decision(image, settle(image, terms, among=fresh))


def settle(
    image: ClusterImage, terms: Terms, among: Iterable[TopicPartition] | None = None
) -> Plan:
    """What each partition needs so that its leader and in-sync replicas are alive."""
    states = {}
    for where in image.partitions() if among is None else among:
        if where.topic in image.deleting or where in image.damaged:
            continue
        assignment = image.assignment(where)
        if assignment is None:
            continue
        state = _settled(image, where, assignment, terms)
        if state is not None:
            states[where] = replace(state, controller_epoch=terms.controller_epoch)
    created = [where for where in states if where not in image.states]
    fresh = frozenset((where, broker) for where in created for broker in _replicas(image, where))
    return Plan(states=states, fresh=fresh)


def _settled(
    image: ClusterImage, where: TopicPartition, assignment: Assignment, terms: Terms
) -> PartitionState | None:
    state = image.states.get(where)
    candidates = image.can_lead(where)
    if state is None:
        return election.first_state(assignment.replicas, candidates, terms.controller_epoch)
    gone = {
        b
        for b in (*state.isr, state.leader)
        if b not in assignment.replicas or not image.is_online(b, where)
    }
    returned = image.returned.get(where, frozenset())
    if returned and len(assignment.replicas) > 1:
        stayed = _without_returned(state, assignment, candidates, gone | returned)
        elected = stayed or election.clean(state, assignment.replicas, candidates)
        if elected is not None:
            return elected
    if state.leader not in gone:
        return election.without(state, gone)
    elect = election.unclean if allows_unclean(image, where.topic, terms) else election.clean
    return elect(state, assignment.replicas, candidates) or election.without(state, gone)


def _without_returned(
    state: PartitionState, assignment: Assignment, candidates: Set[int], away: Set[int]
) -> PartitionState | None:
    """As if those who came back unseen had been seen to go: whoever stayed is in sync and leads.

    Those who came back must catch up first, for their disks may have lost what was not yet
    written. None when nobody stayed; then they are all there is, but an epoch begins, so that
    nothing they append can be taken for what they had before.
    """
    if state.leader not in away:
        return election.without(state, away)
    return election.clean(state, assignment.replicas, candidates - away)


def allows_unclean(image: ClusterImage, topic: str, terms: Terms) -> bool:
    value = image.topic_configs.get(topic, {}).get(UNCLEAN_CONFIG)
    return terms.unclean_by_default if value is None else value.strip().lower() == "true"


def controlled_shutdown(image: ClusterImage, broker_id: int, terms: Terms) -> Decision:
    """Move leaders off a broker that wants to stop; where it follows, it follows no longer.

    Partitions with one replica stay as they are: nobody else could serve them.
    """
    image = image.with_shutting_down(broker_id)
    states, stop = {}, []
    for where in image.partitions_on(broker_id):
        state = image.states.get(where)
        replicas = _replicas(image, where)
        if state is None or len(replicas) < 2 or where.topic in image.deleting:
            continue
        if state.leader == broker_id:
            candidates = image.can_lead(where)
            following = election.controlled_shutdown(
                state, replicas, candidates, image.shutting_down
            )
        else:
            following = election.without(state, {broker_id})
            stop.append(Stop(where, broker_id, delete=False))
        if following is not None:
            states[where] = replace(following, controller_epoch=terms.controller_epoch)
    return Decision(image, Plan(states=states, stop=tuple(stop)))


def still_led_by(image: ClusterImage, broker_id: int) -> list[TopicPartition]:
    """Partitions that would lose their leader if the broker stopped now and need not."""
    return [
        where
        for where in image.partitions_on(broker_id)
        if (state := image.states.get(where)) is not None
        and state.leader == broker_id
        and len(_replicas(image, where)) > 1
        and where.topic not in image.deleting
    ]


def directory_failed(
    image: ClusterImage, broker_id: int, failed: Set[TopicPartition], terms: Terms
) -> Decision:
    """Replicas on a directory that failed are as good as gone."""
    known = image.offline.get(broker_id, frozenset())
    image = image.with_offline(broker_id, known | failed)
    return Decision(image, settle(image, terms, among=failed))


def probe_replicas(image: ClusterImage, broker_id: int) -> Decision:
    """Tell a broker again what it hosts: its answer says which replicas it has lost."""
    hosted = frozenset(where for where in image.partitions_on(broker_id) if where in image.states)
    return Decision(image, Plan(lead=hosted, lead_on=frozenset({broker_id})))


def delete_topics(
    image: ClusterImage, names: Set[str], done: Set[tuple[TopicPartition, int]] = frozenset()
) -> Decision:
    """Announce that topics are going, and have their replicas deleted wherever a broker lives.

    `done` are replicas that are gone already.
    """
    image = image.with_deleting(image.deleting | names)
    known = {name for name in names if name in image.topics}
    stop = [
        Stop(where, broker_id, delete=True)
        for name in sorted(known)
        for where in image.topics[name].partitions()
        for broker_id in _replicas(image, where)
        if broker_id in image.brokers and (where, broker_id) not in done
    ]
    return Decision(image, Plan(stop=tuple(stop), vanishing=frozenset(known)))


def _replicas(image: ClusterImage, where: TopicPartition) -> tuple[int, ...]:
    assignment = image.assignment(where)
    return () if assignment is None else assignment.replicas
