"""The member programs of all client libraries: what each of them needs, and how it is started."""

import sys
from pathlib import Path

from scripts.parts import KAFKA_ON_KRAFT, KAFKA_ON_ZOOKEEPER, build_dir
from tests.clients.roster import go, java
from tests.support.parts import require

PYTHON_PROGRAM = Path(__file__).with_name("group_member.py")
NODE_PROGRAM = build_dir("node-clients") / "member.js"
# By library: the version of Java's client and the protocol of its groups …
JAVA_MEMBERS = {
    "java-3.9": (KAFKA_ON_ZOOKEEPER, "classic"),
    "java-4.2": (KAFKA_ON_KRAFT, "classic"),
    "java-consumer": (KAFKA_ON_KRAFT, "consumer"),
}
# … and the program in Go.
GO_MEMBERS = {"franz-go": "franzmember", "sarama": "saramamember", "kafka-go": "kafkagomember"}


def member_command(
    library: str, where: tuple[str, str, str], assignor: str, instance: str | None
) -> list[str]:
    """`where` is the address of a broker, the group, and the topic or pattern."""
    arguments = [*where, assignor, *([] if instance is None else [instance])]
    if library in JAVA_MEMBERS:
        require("java-clients")
        version, protocol = JAVA_MEMBERS[library]
        program = "PatternMember" if where[-1].startswith("^") else "GroupMember"
        return [*java(version, program), protocol, *arguments]
    if library in GO_MEMBERS:
        require("go-clients")
        return [*go(GO_MEMBERS[library]), *arguments]
    if library == "kafkajs":
        require("node-clients")
        return ["node", str(NODE_PROGRAM), *arguments]
    return [sys.executable, str(PYTHON_PROGRAM), library, *arguments]
