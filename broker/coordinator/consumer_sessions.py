"""The deadlines of members of consumer groups.

A member has to be heard of within its session. Who was told to give partitions up, to join again
or to sync has to do so within its own rebalance timeout. Whoever misses one of them is `overdue`.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial

from odradek.broker.coordinator.consumer_members import ConsumerMember
from odradek.broker.coordinator.timers import Deadline


class Duty(Enum):
    """What a member has to do in time; values are said when it does not."""

    BE_HEARD = "was not heard of in time"
    REVOKE = "did not give its partitions up in time"
    JOIN = "did not join again in time"
    SYNC = "did not sync in time"


class ConsumerSessions:
    def __init__(
        self,
        new_deadline: Callable[[Callable[[], None]], Deadline],
        session_timeout_ms: int,
        overdue: Callable[[str, str, Duty], None],
    ) -> None:
        """`overdue` is told group, member and duty."""
        self._new_deadline = new_deadline
        self._session_timeout_ms = session_timeout_ms
        self._overdue = overdue
        self._deadlines: dict[tuple[str, str], dict[Duty, Deadline]] = {}

    def keep_alive(self, group_id: str, member: ConsumerMember) -> None:
        """The member was heard of."""
        classic = member.says.classic
        timeout_ms = self._session_timeout_ms if classic is None else classic.session_timeout_ms
        self._deadline(group_id, member.id, Duty.BE_HEARD).set(timeout_ms)

    def expect(self, group_id: str, member: ConsumerMember, duty: Duty) -> None:
        """Give the member the time of a rebalance for the duty, from now on."""
        deadline = self._deadline(group_id, member.id, duty)
        deadline.set(max(0, member.says.rebalance_timeout_ms))

    def expect_anyway(self, group_id: str, member: ConsumerMember, duty: Duty) -> None:
        """The same, unless its time for it runs already."""
        if not self._deadline(group_id, member.id, duty).is_set:
            self.expect(group_id, member, duty)

    def is_done(self, group_id: str, member_id: str, duty: Duty) -> None:
        deadline = self._deadlines.get((group_id, member_id), {}).get(duty)
        if deadline is not None:
            deadline.clear()

    def try_again(self, group_id: str, member_id: str, duty: Duty, delay_ms: int) -> None:
        """What followed from a missed deadline came to nothing: miss it once more."""
        self._deadline(group_id, member_id, duty).set(delay_ms)

    def forget(self, group_id: str, member_id: str) -> None:
        for deadline in self._deadlines.pop((group_id, member_id), {}).values():
            deadline.clear()

    def forget_all(self) -> None:
        for group_id, member_id in list(self._deadlines):
            self.forget(group_id, member_id)

    def _deadline(self, group_id: str, member_id: str, duty: Duty) -> Deadline:
        deadlines = self._deadlines.setdefault((group_id, member_id), {})
        if duty not in deadlines:
            missed = partial(self._overdue, group_id, member_id, duty)
            deadlines[duty] = self._new_deadline(missed)
        return deadlines[duty]
