"""Groups of both protocols in any order of events: nothing is read twice, and all settle.

Clients are honest, and late: they go on reading what they were told to give up until they say that
they have given it up. Answers may be lost. Now and then the coordinator moves, with or without a
compaction of its log before.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from odradek.broker.coordinator.assignments import slots_of
from odradek.broker.coordinator.consumer_group import ConsumerGroupState
from odradek.protocol.records import BatchBuilder, iter_records

from tests.unit.broker.coordinator.consumer_story import ConsumerWorld, read, shown

NAMES = ["a", "b", "c"]
CLASSICS = ["k", "l"]
someone = st.sampled_from(NAMES)
someone_classic = st.sampled_from(CLASSICS)

Reading = dict[bytes, list[int]]


def compacted(world: ConsumerWorld) -> None:
    """Leave only the last record of each key, at its place in the order of the log."""
    last: dict[bytes | None, tuple[bytes | None, bytes | None]] = {}
    for batch in world.log.batches:
        for record in iter_records(batch):
            last.pop(record.key, None)
            last[record.key] = record.key, record.value
    builder = BatchBuilder()
    for key, value in last.values():
        builder.append(0, key, value)
    world.log.batches.clear()
    world.log.end_offset = 0
    if last:
        world.log.append(builder.build())


class Chaos(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.world = ConsumerWorld()
        self.world.tell("topics t=3 u=2")
        # What each client reads now.
        self.reading: dict[str, Reading] = {}

    def tell(self, story: str) -> list[str]:
        self.world.tell(story)
        return self.world.heard

    # Clients of the consumer protocol -------------------------------------------------------

    def _listen(self, who: str) -> None:
        """Begin to read what was assigned, keep what was not given up yet."""
        group = self.world.consumer_group
        if group is None or who not in group.members or self.world.epochs.get(who, 0) <= 0:
            self.reading.pop(who, None)
            return
        mine = self.reading.setdefault(who, {})
        for topic, numbers in self.world.given.get(who, {}).items():
            mine[topic] = sorted({*mine.get(topic, []), *numbers})

    def _knows(self, who: str) -> bool:
        return self.world.epochs.get(who, 0) > 0

    @rule(who=someone, topics=st.sampled_from(["t", "u", "t,u"]))
    def joins(self, who: str, topics: str) -> None:
        """A client that joins reads nothing."""
        self.reading.pop(who, None)
        self.tell(f"{who} joins topics={topics}")
        self._listen(who)

    @rule(who=someone, pattern=st.sampled_from(["t", "[tu]", "x"]))
    def joins_by_pattern(self, who: str, pattern: str) -> None:
        self.reading.pop(who, None)
        self.tell(f"{who} joins pattern={pattern} topics=none")
        self._listen(who)

    def _beat(self, who: str, story: str) -> None:
        self.tell(story)
        if any(answer.startswith(f"{who} ") and "_" in answer for answer in self.world.heard):
            # Fenced or forgotten: it gives everything up.
            self.world.epochs[who] = 0
            self.world.given.pop(who, None)
        self._listen(who)

    @rule(who=someone)
    def beats(self, who: str) -> None:
        if self._knows(who):
            self._beat(who, f"{who} beats")

    @rule(who=someone)
    def says_what_it_reads(self, who: str) -> None:
        if self._knows(who):
            self._beat(who, f"{who} holds {shown(self.reading.get(who, {}))}")

    @rule(who=someone)
    def gives_up(self, who: str) -> None:
        if not self._knows(who):
            return
        given = self.world.given.get(who, {})
        self.reading[who] = {topic: list(numbers) for topic, numbers in given.items()}
        self._beat(who, f"{who} gives")

    @rule(who=someone)
    def wants_something_else(self, who: str) -> None:
        if self._knows(who):
            self._beat(who, f"{who} beats topics=u")

    @rule(who=someone)
    def leaves(self, who: str) -> None:
        if self._knows(who):
            self.reading.pop(who, None)
            self.tell(f"{who} leaves")
            self.world.epochs[who] = 0
            self.world.given.pop(who, None)

    # Clients of the classic protocol, of the eager kind -------------------------------------

    @rule(who=someone_classic)
    def classic_joins(self, who: str) -> None:
        self.reading.pop(who, None)
        self.tell(f"{who} joins classic topics=t,u")

    @rule(who=someone_classic)
    def classic_syncs(self, who: str) -> None:
        group = self.world.group
        assignment = ""
        if group is not None and who in self.world.ids and group.leader_id == self.world.ids[who]:
            assignment = f" {who}=t012,u01"
        self.tell(f"{who} syncs{assignment}")
        for answer in self.world.heard:
            name, _, what = answer.partition(" has ")
            if name == who and what:
                self.reading[who] = read(what)

    @rule(who=someone_classic)
    def classic_beats(self, who: str) -> None:
        self.tell(f"{who} beats")
        if self.world.heard not in ([f"{who} NONE"], [f"{who} REBALANCE_IN_PROGRESS"]):
            self.reading.pop(who, None)

    @rule(who=someone_classic)
    def classic_leaves(self, who: str) -> None:
        self.reading.pop(who, None)
        self.tell(f"{who} leaves")

    # The world ------------------------------------------------------------------------------

    @rule(topics=st.sampled_from(["t=3", "t=4 u=2", "u=2", "t=1 u=3 x=1"]))
    def topics_change(self, topics: str) -> None:
        self.tell(f"topics {topics}")

    @rule(seconds=st.sampled_from([1, 5, 30, 61]))
    def time_passes(self, seconds: int) -> None:
        """Whoever is not heard of for a session stops to read by itself."""
        if seconds > 8:
            self.reading.clear()
            self.world.epochs = dict.fromkeys(self.world.epochs, 0)
            self.world.given.clear()
        self.tell(f"{seconds} s")

    @rule(is_compacted=st.booleans())
    def the_coordinator_moves(self, is_compacted: bool) -> None:
        if is_compacted:
            compacted(self.world)
        before = self.world.consumer_group
        self.world = self.world.after_restart()
        after = self.world.consumer_group
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            for name in ("epoch", "topics_hash", "target_epoch", "targets", "members", "instances"):
                assert getattr(before, name) == getattr(after, name)
            assert before._holders == after._holders
            assert before.patterns == after.patterns

    # What must hold -------------------------------------------------------------------------

    @invariant()
    def no_partition_has_two_holders(self) -> None:
        group = self.world.consumer_group if hasattr(self, "world") else None
        if group is None:
            return
        held = [slot for m in group.members.values() for slot in slots_of(m.has.all_held)]
        assert len(held) == len(set(held))
        assert set(held) == set(group._holders)
        assert group.targets.keys() <= group.members.keys()
        assert group.instances == {}

    @invariant()
    def no_partition_is_read_twice(self) -> None:
        """By members of the consumer protocol: an eager classic member is in no hurry either."""
        if not hasattr(self, "world") or self.world.consumer_group is None:
            return
        read_now = [
            (topic, number)
            for who in NAMES
            for topic, numbers in self.reading.get(who, {}).items()
            for number in numbers
        ]
        assert len(read_now) == len(set(read_now)), self.reading

    def teardown(self) -> None:
        """Left alone with its members of the consumer protocol, a group becomes Stable."""
        if not hasattr(self, "world"):
            return
        for who in CLASSICS:
            self.classic_leaves(who)
        for _ in range(12):
            for who in NAMES:
                self.gives_up(who)
        group = self.world.consumer_group
        alive = [] if group is None else [m for m in group.members if self._knows(m)]
        if group is not None and len(alive) == len(group.members) and alive:
            assert group.state is ConsumerGroupState.STABLE, self.world._show()


Chaos.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestChaos = Chaos.TestCase
