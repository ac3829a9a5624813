"""The sticky assignment of members with different subscriptions: balanced by moving partitions.

Everybody keeps what is still wanted; what nobody has goes to the member with the least. Then, while
somebody has at least two more than another who could take one of them, a partition moves. Between
two members a topic's partitions never move both ways: the one that would go back goes instead.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek.client.java_order import hash_order, partition_hash
from odradek.protocol.types import TopicPartition

Pair = tuple[str, str]


class Movements:
    """Which partitions moved from whom to whom, by topic."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, Pair] = {}
        self._partitions: dict[tuple[str, Pair], dict[TopicPartition, None]] = {}
        self._peaks: dict[tuple[str, Pair], int] = {}

    def note(self, partition: TopicPartition, old: str, new: str) -> None:
        origin = old
        if partition in self._pairs:
            origin = self._forget(partition)
            if origin == new:
                return
        key = (partition.topic, (origin, new))
        self._pairs[partition] = key[1]
        moved = self._partitions.setdefault(key, {})
        moved[partition] = None
        self._peaks[key] = max(self._peaks.get(key, 0), len(moved))

    def _forget(self, partition: TopicPartition) -> str:
        pair = self._pairs.pop(partition)
        key = (partition.topic, pair)
        del self._partitions[key][partition]
        if not self._partitions[key]:
            del self._partitions[key], self._peaks[key]
        return pair[0]

    def instead_of(self, partition: TopicPartition, old: str, new: str) -> TopicPartition:
        """A partition of the topic that came the opposite way, if there is one, else this one."""
        origin = self._pairs[partition][0] if partition in self._pairs else old
        key = (partition.topic, (new, origin))
        returning = self._partitions.get(key)
        if not returning:
            return partition
        return hash_order(returning, partition_hash, self._peaks[key])[0]


class Balance:
    def __init__(
        self,
        topics: Mapping[str, Sequence[str]],
        counts: Mapping[str, int],
        owned: Mapping[str, Sequence[TopicPartition]],
        previous: Mapping[TopicPartition, str],
    ) -> None:
        self._counts = counts
        self._topics = {
            member: [topic for topic in wanted if topic in counts]
            for member, wanted in topics.items()
        }
        self._takers: dict[str, list[str]] = {topic: [] for topic in counts}
        for member, wanted in self._topics.items():
            for topic in wanted:
                self._takers[topic].append(member)
        in_order = sorted(counts, key=lambda topic: (len(self._takers[topic]), topic))
        self._all = [TopicPartition(topic, i) for topic in in_order for i in range(counts[topic])]
        self._previous = previous
        self._movements = Movements()
        self._must_revoke = False
        self._given: dict[str, list[TopicPartition]] = {}
        self._owner: dict[TopicPartition, str] = {}
        for member, partitions in owned.items():
            self._keep(member, partitions)
        self._ranking = sorted((len(given), member) for member, given in self._given.items())

    def balanced(self) -> dict[str, list[TopicPartition]]:
        starts_empty = not self._given[self._ranking[-1][1]]
        unassigned = [partition for partition in self._all if partition not in self._owner]
        for partition in unassigned:
            self._give_to_the_least(partition)
        movable = [p for p in self._all if len(self._takers[p.topic]) > 1]
        unassigned = [p for p in unassigned if len(self._takers[p.topic]) > 1]
        fixed = self._set_fixed_members_aside()
        before = {member: list(given) for member, given in self._given.items()}
        if not self._must_revoke:
            self._move(unassigned)
        has_moved = self._move(movable)
        if not starts_empty and has_moved and imbalance(self._given) >= imbalance(before):
            self._given = before
        return self._given | fixed

    def _keep(self, member: str, partitions: Iterable[TopicPartition]) -> None:
        given = self._given[member] = []
        for partition in partitions:
            if partition.topic not in self._takers:
                continue
            if partition.topic in self._topics[member]:
                given.append(partition)
                self._owner[partition] = member
            else:
                self._must_revoke = True

    def _give_to_the_least(self, partition: TopicPartition) -> None:
        for _, member in self._ranking:
            if partition.topic in self._topics[member]:
                self._rerank(member, lambda given: given.append(partition))
                self._owner[partition] = member
                return

    def _rerank(self, member: str, change: Callable[[list[TopicPartition]], object]) -> None:
        given = self._given[member]
        self._ranking.remove((len(given), member))
        change(given)
        insort(self._ranking, (len(given), member))

    def _most_possible(self, member: str) -> int:
        return sum(self._counts[topic] for topic in self._topics[member])

    def _set_fixed_members_aside(self) -> dict[str, list[TopicPartition]]:
        """Those that have all they can have, and nothing that anybody else could take."""
        fixed = {}
        for member in list(self._given):
            given = self._given[member]
            if len(given) < self._most_possible(member):
                continue
            if any(len(self._takers[partition.topic]) > 1 for partition in given):
                continue
            self._ranking.remove((len(given), member))
            fixed[member] = self._given.pop(member)
        return fixed

    def _is_balanced(self) -> bool:
        if not self._ranking or self._ranking[0][0] >= self._ranking[-1][0] - 1:
            return True
        for count, member in self._ranking:
            if count == self._most_possible(member):
                continue
            own = set(self._given[member])
            for topic in self._topics[member]:
                for index in range(self._counts[topic]):
                    partition = TopicPartition(topic, index)
                    if partition not in own and count + 1 < len(
                        self._given[self._owner[partition]]
                    ):
                        return False
        return True

    def _move(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move what makes the shares more even, until nothing does; whether anything moved."""
        has_moved = False
        is_changing = True
        while is_changing:
            is_changing = False
            for partition in partitions:
                if self._is_balanced():
                    break
                if self._move_one(partition):
                    is_changing = has_moved = True
        return has_moved

    def _move_one(self, partition: TopicPartition) -> bool:
        share = len(self._given[self._owner[partition]])
        before = self._previous.get(partition)
        if before in self._given and share > len(self._given[before]) + 1:
            self._reassign(partition, before)
            return True
        if any(share > len(self._given[taker]) + 1 for taker in self._takers[partition.topic]):
            taker = next(m for _, m in self._ranking if partition.topic in self._topics[m])
            self._reassign(partition, taker)
            return True
        return False

    def _reassign(self, partition: TopicPartition, new: str) -> None:
        moving = self._movements.instead_of(partition, self._owner[partition], new)
        old = self._owner[moving]
        self._movements.note(moving, old, new)
        self._rerank(old, lambda given: given.remove(moving))
        self._rerank(new, lambda given: given.append(moving))
        self._owner[moving] = new


def imbalance(assignment: Mapping[str, Sequence[TopicPartition]]) -> int:
    """The differences of all pairs of shares added up; less is better."""
    sizes = sorted(map(len, assignment.values()))
    return sum(size * (2 * place - len(sizes) + 1) for place, size in enumerate(sizes))
