"""Partitioner and assignors beside the Java client's, for tables of random inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from odradek.client.assignors import ASSIGNORS, Member, sticky_user_data
from odradek.client.partitioner import murmur2
from odradek.protocol.types import TopicPartition

from scripts.parts import KAFKA_ON_ZOOKEEPER
from tests.support.java import java_tool

PROGRAM = Path(__file__).parent / "java" / "ClientTables.java"
CASES = 1000


def java_answers(lines: Sequence[str]) -> list[str]:
    done = java_tool(KAFKA_ON_ZOOKEEPER, PROGRAM, stdin="\n".join(lines) + "\n")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_keys_hash_as_in_java() -> None:
    random = Random(7)
    keys = [random.randbytes(random.randrange(1, 100)) for _ in range(CASES)] + [b""]
    expected = java_answers([f"hash\t{key.hex()}" for key in keys])
    assert [str(murmur2(key)) for key in keys] == expected


@dataclass(frozen=True)
class Case:
    assignor: str
    counts: dict[str, int]
    members: list[Member]

    def line(self) -> str:
        counts = ",".join(f"{topic}:{count}" for topic, count in self.counts.items())
        members = [
            ";".join(
                (
                    member.member_id,
                    member.instance_id or "",
                    ",".join(member.topics),
                    str(member.generation),
                    words(member.owned),
                )
            )
            for member in self.members
        ]
        return "\t".join((self.assignor, counts, *members))

    def ours(self) -> str:
        assignment = ASSIGNORS[self.assignor].assign(self.members, self.counts)
        return "\t".join(f"{name}={words(sorted(assignment[name]))}" for name in sorted(assignment))


def words(partitions: Sequence[TopicPartition]) -> str:
    return ",".join(f"{topic}:{index}" for topic, index in partitions)


def random_case(assignor: str, random: Random) -> Case:
    """A group that has lived: some own what they were given, some are new, some come too late."""
    topics = [f"topic{i}" for i in range(random.randrange(1, 6))]
    counts = {topic: random.randrange(1, 12) for topic in topics}
    names = [
        f"{random.choice('abc')}-{random.getrandbits(32):08x}"
        for _ in range(random.randrange(1, 20))
    ]
    is_uniform = random.random() < 0.5
    newest = random.randrange(1, 5)
    unowned = [TopicPartition(t, i) for t, count in counts.items() for i in range(count)]
    random.shuffle(unowned)
    members = []
    for name in dict.fromkeys(names):
        wanted = (
            topics if is_uniform else random.sample(topics, random.randrange(1, len(topics) + 1))
        )
        owned: list[TopicPartition] = []
        generation = -1
        if random.random() < 0.7:
            generation = newest if random.random() < 0.9 else newest - 1
            count = random.randrange(0, 8)
            owned, unowned = unowned[:count], unowned[count:]
        if random.random() < 0.05 and members and members[0].owned:
            owned.append(members[0].owned[0])
        members.append(
            Member(
                name,
                tuple(wanted),
                tuple(owned),
                generation,
                f"static-{name}" if random.random() < 0.2 else None,
                sticky_user_data(owned, generation) if assignor == "sticky" else None,
            )
        )
    # A topic nobody subscribes to is not part of the question.
    asked = {topic for member in members for topic in member.topics}
    return Case(assignor, {t: c for t, c in counts.items() if t in asked}, members)


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
def test_assignors_share_out_as_in_java(assignor: str) -> None:
    random = Random(f"{assignor} 1")
    cases = [random_case(assignor, random) for _ in range(CASES)]
    expected = java_answers([case.line() for case in cases])
    differing = [
        case.line() for case, answer in zip(cases, expected, strict=True) if case.ours() != answer
    ]
    assert differing == []
