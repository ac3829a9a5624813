"""Groups of real clients under test: member programs, what they hold, what they have read."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.group_programs import member_command
from tests.support.processes import Process

POLL_SECONDS = 0.1


class Member:
    """One member program, and what its lines say."""

    def __init__(self, command: Sequence[str], name: str) -> None:
        self.name = name
        self.process = Process(command, name=name)

    @property
    def assigned(self) -> frozenset[int]:
        """The partitions it holds: all that it was given and has not lost."""
        held: set[int] = set()
        for kind, partitions in self.changes:
            held = held | partitions if kind == "assigned" else held - partitions
        return frozenset(held)

    @property
    def changes(self) -> list[tuple[str, frozenset[int]]]:
        found = []
        for line in self.process.output:
            kind, _, rest = line.partition(" ")
            if kind in ("assigned", "revoked"):
                found.append((kind, frozenset(int(n) for n in rest.split(",") if n)))
        return found

    @property
    def records(self) -> list[tuple[int, int]]:
        words = [line.split() for line in self.process.output]
        return [(int(word[1]), int(word[2])) for word in words if word and word[0] == "got"]

    def leave(self) -> None:
        self.process.stop(timeout=30)

    def crash(self) -> None:
        self.process.kill()


class Party:
    """A group and its topic on one broker."""

    def __init__(
        self, bootstrap: str, name: str, partitions: int = 6, *, replicas: int = 1
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = f"{name}-topic"
        self.group = f"{name}-group"
        self.partitions = partitions
        self.everyone: list[Member] = []
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        created = self.admin.create_topics([NewTopic(self.topic, partitions, replicas)])
        created[self.topic].result()
        self.producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        self.sent = 0

    def __enter__(self) -> "Party":
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.everyone:
            member.process.kill()

    def join(
        self,
        library: str,
        assignor: str = "range",
        instance: str | None = None,
        *,
        wants: str | None = None,
    ) -> Member:
        """`wants` is a topic, or a pattern that begins with ^; by default the party's topic."""
        where = (self.bootstrap, self.group, wants or self.topic)
        command = member_command(library, where, assignor, instance)
        member = Member(command, f"{library}-{len(self.everyone)}")
        self.everyone.append(member)
        return member

    def send(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            self.producer.produce(self.topic, str(number), partition=number % self.partitions)
        assert self.producer.flush(30) == 0
        self.sent += count

    @property
    def read(self) -> Counter[tuple[int, int]]:
        """How often each record was read, whoever did."""
        return Counter(record for member in self.everyone for record in member.records)

    def wait(self, condition: Callable[[], bool], what: str, timeout: float = 40.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            held = {member.name: sorted(member.assigned) for member in self.everyone}
            assert time.monotonic() < deadline, f"not in {timeout} s: {what}; they hold {held}"
            time.sleep(POLL_SECONDS)

    def wait_shared(self, members: Iterable[Member], each: int) -> None:
        """Wait until these members hold all partitions, so many each and none twice."""
        members = list(members)

        def is_shared() -> bool:
            held = [partition for member in members for partition in member.assigned]
            return sorted(held) == list(range(self.partitions)) and all(
                len(member.assigned) == each for member in members
            )

        self.wait(is_shared, f"{len(members)} members hold {each} partitions each")

    def wait_all_read(self, timeout: float = 40.0) -> None:
        self.wait(lambda: len(self.read) >= self.sent, f"{self.sent} records are read", timeout)

    def come_and_go(self, library: str, assignor: str) -> None:
        """Two members, a third one, one that leaves, one that crashes: all is shared and read."""
        first, second = self.join(library, assignor), self.join(library, assignor)
        self._share_and_read([first, second])
        third = self.join(library, assignor)
        self._share_and_read([first, second, third])
        first.leave()
        self._share_and_read([second, third])
        second.crash()
        self._share_and_read([third])

    def _share_and_read(self, members: Sequence[Member]) -> None:
        self.wait_shared(members, each=self.partitions // len(members))
        self.send(600)
        self.wait_all_read()

    def describe(self) -> Any:
        return self.admin.describe_consumer_groups([self.group])[self.group].result()

    def committed(self) -> dict[int, int]:
        """The group's committed offsets, by partition."""
        asking = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        wanted = [TopicPartition(self.topic, number) for number in range(self.partitions)]
        found = asking.committed(wanted, timeout=10)
        asking.close()
        return {partition.partition: partition.offset for partition in found}
