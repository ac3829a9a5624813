"""What became of each test of a suite, here and on Apache Kafka, as data and as a table.

`expected/<suite>.json` is committed: each test with what it does on Apache Kafka 3.9 and what it
did on Odradek when the file was last renewed (`--keep`). The column of Kafka decides: a test that
passes there must pass here, and a suite's own idea of right and wrong does not matter.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

EXPECTED = Path(__file__).parent / "expected"
CALM = "the brokers stay calm"  # what every run on Odradek is asked beside the suite's own tests


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Result:
    test: str
    outcome: Outcome
    seconds: float
    detail: str = ""  # why it failed or was skipped, in a line or a few


@dataclass(frozen=True, slots=True)
class Row:
    """One test as it is written down. `excuse` names what it needs and Odradek does not have."""

    kafka: Outcome | None = None
    odradek: Outcome | None = None
    seconds: float = 0.0
    excuse: str = ""

    @property
    def must_pass(self) -> bool:
        return self.kafka is Outcome.PASSED and not self.excuse


Table = Mapping[str, Row]


def load(suite: str, folder: Path = EXPECTED) -> Table:
    path = folder / f"{suite}.json"
    if not path.exists():
        return {}
    return {
        test: Row(
            kafka=Outcome(row["kafka"]) if "kafka" in row else None,
            odradek=Outcome(row["odradek"]) if "odradek" in row else None,
            seconds=row.get("seconds", 0.0),
            excuse=row.get("excuse", ""),
        )
        for test, row in json.loads(path.read_text())["tests"].items()
    }


def noted(table: Table, results: Iterable[Result], *, on_kafka: bool) -> Table:
    """The table with what was just seen in the column of Kafka, or in that of Odradek."""
    rows = dict(table)
    for result in results:
        if result.test == CALM:
            continue
        before = rows.get(result.test, Row())
        rows[result.test] = Row(
            kafka=result.outcome if on_kafka else before.kafka,
            odradek=before.odradek if on_kafka else result.outcome,
            seconds=before.seconds if on_kafka else round(result.seconds, 1),
            excuse=before.excuse,
        )
    return dict(sorted(rows.items()))


def troubles(table: Table, results: Sequence[Result], *, whole: bool) -> list[str]:
    """What is wrong with a run on Odradek, a sentence or a failure each; nothing when all is well.

    A test that passes on Kafka must pass. A test that is not in the table has never been held
    against Kafka: no suite may grow unnoticed. And of a whole suite no test may get lost.
    """
    seen = {result.test for result in results}
    lost = [test for test, row in table.items() if row.must_pass and test not in seen]
    return [
        *(
            f"{result.test}: {result.outcome}\n{result.detail}"
            for result in results
            if result.outcome is not Outcome.PASSED and _must_pass(table, result)
        ),
        *(f"{r.test}: not in the table" for r in results if r.test not in (*table, CALM)),
        *(f"{test}: did not run" for test in lost if whole),
    ]


def _must_pass(table: Table, result: Result) -> bool:
    return result.test == CALM or table.get(result.test, Row()).must_pass


def as_json(suite: str, version: str, profile: str, table: Table) -> str:
    tests = {
        test: {
            name: value
            for name, value in (
                ("kafka", row.kafka),
                ("odradek", row.odradek),
                ("seconds", row.seconds),
                ("excuse", row.excuse),
            )
            if value or name == "seconds"
        }
        for test, row in table.items()
    }
    head = {"suite": suite, "version": version, "profile": profile}
    return json.dumps({**head, "tests": tests}, indent=1, ensure_ascii=False) + "\n"


def as_markdown(suite: str, version: str, table: Table) -> str:
    lines = [
        f"# {suite} {version}",
        "",
        totals(table),
        "",
        "| test | Kafka 3.9 | Odradek | seconds | |",
        "|---|---|---|--:|---|",
        *(
            f"| {test} | {row.kafka or ''} | {row.odradek or ''} | {row.seconds:.1f} "
            f"| {row.excuse} |"
            for test, row in table.items()
        ),
    ]
    return "\n".join([*lines, ""])


def totals(table: Table) -> str:
    passing = [row for row in table.values() if row.kafka is Outcome.PASSED]
    same = sum(row.odradek is Outcome.PASSED for row in passing)
    return f"{len(table)} tests, {len(passing)} pass on Kafka 3.9, of these {same} on Odradek."


def summary(results: Sequence[Result]) -> str:
    counts = [(outcome, sum(r.outcome is outcome for r in results)) for outcome in Outcome]
    return ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
