"""Our bytes against those of Kafka's own serializers, for every message in every version.

Arbitrary messages are encoded by us and handed to Kafka twice, as bytes and as values (in Kafka's
JSON). Kafka must read our bytes to the same values, write the same bytes again, and write the
same bytes from the values: then we would also read what it writes as what it means.
"""

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from odradek.protocol.compiler import encode
from odradek.protocol.registry import api
from odradek.protocol.schema import (
    Array,
    Field,
    Fixed,
    Kind,
    Message,
    Nested,
    Records,
    Text,
    Versioned,
)
from odradek.protocol.types import id_to_text

from scripts.parts import KAFKA_ON_ZOOKEEPER, KAFKA_VERSIONS
from tests.support.definitions import Member, camel_case, catalogue
from tests.support.java import SMALL_JVM
from tests.support.messages import Maker, every_version
from tests.support.parts import kafka_jars

pytestmark = pytest.mark.needs(*(f"kafka-{version}" for version in KAFKA_VERSIONS))

ORACLE = Path(__file__).parent.parent / "support" / "MessageOracle.java"
EXAMPLES = 12


@dataclass(frozen=True, slots=True)
class Question:
    message: str
    version: int
    encoded: bytes
    values: dict[str, Any]
    said: dict[str, Any]
    """The values as Kafka says them back: of records, only their size."""


# Kafka 4 renamed fields of the first, and changed the second after 3.9 had shown a draft of it.
NEWER_IN_KAFKA_4 = {
    ("VoteRequest", 0),
    ("VoteRequest", 1),
    ("ReadShareGroupStateSummaryResponse", 0),
}


@pytest.mark.parametrize("kafka", KAFKA_VERSIONS)
def test_kafka_reads_and_writes_the_same_bytes(kafka: str) -> None:
    questions = [
        question
        for message, version in every_version()
        if _is_comparable(kafka, message.__name__, version)
        for question in _questions(kafka, message, version)
    ]
    differing = [
        f"{question.message} v{question.version}: {difference}"
        for question, answer in zip(questions, _ask(kafka, questions), strict=True)
        if (difference := _difference(question, answer))
    ]
    assert differing[:20] == [], f"{len(differing)} of {len(questions)} differ"


@pytest.mark.parametrize("kafka", KAFKA_VERSIONS)
def test_headers_have_the_versions_that_kafka_gives_them(kafka: str) -> None:
    told = [tuple(map(int, line.split())) for line in _run_oracle(kafka, "headers").splitlines()]
    assert len(told) >= 300
    for key, version, request_header, response_header in told:
        described = api(key)
        assert described.request_header_version(version) == request_header, (key, version)
        assert described.response_header_version(version) == response_header, (key, version)


def _is_comparable(kafka: str, message: str, version: int) -> bool:
    if kafka == KAFKA_ON_ZOOKEEPER and (message, version) in NEWER_IN_KAFKA_4:
        return False
    return (message, version) in catalogue(kafka)


def _questions(kafka: str, message: type[Versioned], version: int) -> list[Question]:
    random = Random(f"{message.__name__} {version}")
    known = catalogue(kafka)[message.__name__, version].members
    found = []
    for _ in range(EXAMPLES):
        made = Maker(random).message(message, version)
        _forget_unknown_tags(made, known)
        encoded = encode(made, version)
        values, said = _json(made, version), _json(made, version, records=False)
        found.append(Question(message.__name__, version, encoded, values, said))
    return found


def _forget_unknown_tags(message: Message, known: tuple[Member, ...]) -> None:
    """Leave out tagged fields that this Kafka has not heard of: it keeps but does not show them."""
    names = {member.name for member in known}
    for field in message.fields:
        if field.tag is not None and field.name not in names:
            setattr(message, field.name, field.absent)


def _ask(kafka: str, questions: list[Question]) -> list[list[str]]:
    lines = []
    for question in questions:
        java = catalogue(kafka)[question.message, question.version]
        values = json.dumps(question.values)
        lines.append(f"{java.java_class}\t{java.java_version}\t{question.encoded.hex()}\t{values}")
    answers = _run_oracle(kafka, stdin="\n".join(lines) + "\n")
    return [line.split("\t", 3) for line in answers.splitlines()]


def _run_oracle(kafka: str, *args: str, stdin: str = "") -> str:
    command = ["java", *SMALL_JVM, "-cp", kafka_jars(kafka), str(ORACLE), *args]
    asked = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=280)
    assert asked.returncode == 0, asked.stderr
    return asked.stdout


def _difference(question: Question, answer: list[str]) -> str | None:
    if answer[0] != "ok":
        return " ".join(answer)
    _, again, from_values, values = answer
    ours = question.encoded.hex()
    if json.loads(values) != question.said:
        return f"our bytes say {values} to Kafka, not {question.said}"
    if again != ours:
        return f"Kafka writes what it read from us as {again}, we {ours}"
    if from_values != ours:
        return f"Kafka writes {question.values} as {from_values}, we {ours}"
    return None


def _json(message: Message, version: int, *, records: bool = True) -> dict[str, Any]:
    """The message as Kafka's JSON says it: tagged fields only where they differ from default."""
    said: dict[str, Any] = {}
    for field in message.fields:
        value = getattr(message, field.name)
        if version not in field.versions or _is_left_out(field, value, version):
            continue
        if isinstance(field.kind, Records) and value is not None and not records:
            said[camel_case(field) + "SizeInBytes"] = len(value)
        else:
            said[camel_case(field)] = _json_value(field.kind, value, version, records)
    return said


def _is_left_out(field: Field, value: Any, version: int) -> bool:
    if isinstance(field.kind, Nested) and version in field.nullable:
        return False
    return field.tag is not None and value == field.absent


def _json_value(kind: Kind, value: Any, version: int, records: bool) -> Any:
    match kind:
        case _ if value is None:
            return None
        case Fixed(name="uuid"):
            return id_to_text(value)
        case Fixed() | Text():
            return value
        case Nested():
            return _json(value, version, records=records)
        case Array(of=element):
            return [_json_value(element, item, version, records) for item in value]
        case _:
            return base64.b64encode(value).decode()
