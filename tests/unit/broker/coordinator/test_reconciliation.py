"""Reconciliation: nothing is held twice, and in the end everybody holds its target."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from odradek.broker.coordinator.assignments import (
    NOTHING,
    Assignment,
    common,
    contains,
    gathered,
    joined,
    overlaps,
    slots_of,
    without,
)
from odradek.broker.coordinator.reconciliation import Holding, MemberState, Target, reconciled

from tests.unit.broker.coordinator.consumer_story import id_of, read, shown

PARTITIONS = [(id_of("t"), number) for number in range(5)]
MEMBERS = ["a", "b", "c"]


def a(text: str) -> Assignment:
    return {topic: frozenset(numbers) for topic, numbers in read(text).items()}


def step(
    holding: Holding, target: str, owned: str | None, *, taken: str = "nothing", epoch: int = 2
) -> str:
    held = a(taken)
    after = reconciled(
        holding,
        Target(epoch, a(target)),
        None if owned is None else a(owned),
        lambda topic, partition: partition not in held.get(topic, ()),
    )
    return (
        f"{after.state.name} {after.epoch} after {after.previous_epoch}: {shown(after.assigned)}"
        + (f", gives up {shown(after.revoking)}" if after.revoking else "")
    )


STABLE = Holding(1, 0, MemberState.STABLE, a("t012"))
UNREVOKED = Holding(1, 1, MemberState.UNREVOKED, a("t01"), a("t2"))
UNRELEASED = Holding(2, 1, MemberState.UNRELEASED, a("t01"))


def test_a_newcomer_is_given_what_is_free() -> None:
    assert step(Holding(), "t012", "nothing") == "STABLE 2 after 0: t012"
    assert step(Holding(), "t012", "nothing", taken="t2") == "UNRELEASED 2 after 0: t01"
    assert step(Holding(), "nothing", "nothing") == "STABLE 2 after 0: nothing"


def test_what_is_not_wanted_any_more_is_given_up_first() -> None:
    assert step(STABLE, "t013", None) == "UNREVOKED 1 after 1: t01, gives up t2"
    assert step(STABLE, "t013", "t012") == "UNREVOKED 1 after 1: t01, gives up t2"


def test_who_does_not_hold_it_need_not_give_it_up() -> None:
    assert step(STABLE, "t013", "t01") == "STABLE 2 after 1: t013"


def test_nothing_happens_until_it_is_given_up() -> None:
    same = "UNREVOKED 1 after 1: t01, gives up t2"
    assert step(UNREVOKED, "t013", None) == same
    assert step(UNREVOKED, "t013", "t012") == same
    assert step(UNREVOKED, "t013", "t01") == "STABLE 2 after 1: t013"


def test_the_target_may_move_on_meanwhile() -> None:
    assert step(UNREVOKED, "t0", "t01", epoch=5) == "UNREVOKED 2 after 1: t0, gives up t1"
    assert step(UNREVOKED, "t0", "t0", epoch=5) == "STABLE 5 after 1: t0"


def test_what_comes_back_is_given_anew() -> None:
    """It counts as held until the member has said that it gave it up."""
    assert step(UNREVOKED, "t012", "t01", taken="t2") == "UNRELEASED 2 after 1: t01"


def test_what_others_let_go_of_is_given_as_they_do() -> None:
    assert step(UNRELEASED, "t0123", None, taken="t3") == "UNRELEASED 2 after 2: t012"
    assert step(UNRELEASED, "t0123", None) == "STABLE 2 after 2: t0123"


def test_who_holds_its_target_stays_as_it_is() -> None:
    reached = STABLE._replace(epoch=2)
    assert reconciled(reached, Target(2, a("t345")), None, lambda *_: True) is reached


class Party(RuleBasedStateMachine):
    """Members that beat in any order, and honestly say what they hold, while targets change.

    What a member really reads is what it was told last: it gives up at once, or late.
    """

    @initialize()
    def begin(self) -> None:
        self.epoch = 1
        self.targets: dict[str, Assignment] = dict.fromkeys(MEMBERS, NOTHING)
        self.holdings = {member: Holding() for member in MEMBERS}
        self.reads: dict[str, Assignment] = dict.fromkeys(MEMBERS, NOTHING)

    def _beat(self, member: str, owned: Assignment | None) -> None:
        holders = {
            slot for holding in self.holdings.values() for slot in slots_of(holding.all_held)
        }
        target = Target(self.epoch, self.targets[member])
        self.holdings[member] = reconciled(
            self.holdings[member], target, owned, lambda *slot: slot not in holders
        )
        # It begins to read what it is given; what it has to give up, it still reads.
        assigned = self.holdings[member].assigned
        self.reads[member] = joined(self.reads[member], assigned)

    @rule(shares=st.lists(st.sampled_from([*MEMBERS, None]), min_size=5, max_size=5))
    def a_new_target(self, shares: list[str | None]) -> None:
        self.epoch += 1
        self.targets = {
            member: gathered(
                slot for slot, owner in zip(PARTITIONS, shares, strict=True) if owner == member
            )
            for member in MEMBERS
        }

    @rule(member=st.sampled_from(MEMBERS))
    def beats(self, member: str) -> None:
        self._beat(member, None)

    @rule(member=st.sampled_from(MEMBERS))
    def beats_and_says_what_it_reads(self, member: str) -> None:
        self._beat(member, self.reads[member])

    @rule(member=st.sampled_from(MEMBERS))
    def gives_up_and_says_so(self, member: str) -> None:
        self.reads[member] = common(self.reads[member], self.holdings[member].assigned)
        self._beat(member, self.reads[member])

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        if not hasattr(self, "reads"):
            return
        slots = [slot for reads in self.reads.values() for slot in slots_of(reads)]
        assert len(slots) == len(set(slots))
        for member, holding in self.holdings.items():
            assert contains(holding.all_held, self.reads[member])
            assert not overlaps(holding.assigned, holding.revoking)

    def teardown(self) -> None:
        """However they got here: if they go on, all of them reach their targets."""
        if not hasattr(self, "reads"):
            return
        for _ in range(4 * len(MEMBERS)):
            for member in MEMBERS:
                self.gives_up_and_says_so(member)
        for member, holding in self.holdings.items():
            assert holding.is_reconciled_to(self.epoch)
            assert holding.assigned == self.targets[member]


TestParty = Party.TestCase

some = st.builds(gathered, st.sets(st.tuples(st.sampled_from([b"t", b"u"]), st.integers(0, 4))))


@given(some, some)
def test_assignments_are_sets_of_partitions(one: Assignment, other: Assignment) -> None:
    ones, others = set(slots_of(one)), set(slots_of(other))
    assert set(slots_of(common(one, other))) == ones & others
    assert set(slots_of(without(one, other))) == ones - others
    assert set(slots_of(joined(one, other))) == ones | others
    assert contains(one, other) == (others <= ones)
    assert overlaps(one, other) == bool(ones & others)
    for result in (common(one, other), without(one, other), joined(one, other)):
        assert result == gathered(slots_of(result)), "no topic without partitions"
