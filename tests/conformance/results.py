"""What became of each test of a suite, here and on Apache Kafka, as data and as a table.

`expected/<suite>.json` is committed: for each profile, each test with what it does on Apache Kafka
3.9 and what it did on Odradek, as seen by runs with `--keep`. `runs` counts in how many runs on
Odradek, one after the other, the test has ended in this way. The column of Kafka decides: a test
that passes there must pass here, and a suite's own idea of right and wrong does not matter.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
    """One test on one profile as it is written down."""

    kafka: Outcome | None = None
    kafka_seconds: float = 0.0
    odradek: Outcome | None = None
    seconds: float = 0.0
    runs: int = 0

    def noted(self, result: Result, *, on_kafka: bool) -> "Row":
        """The row with what was just seen in the column of Kafka, or in that of Odradek."""
        seconds = round(result.seconds, 1)
        if on_kafka:
            return replace(self, kafka=result.outcome, kafka_seconds=seconds)
        runs = self.runs + 1 if self.odradek is result.outcome else 1
        return replace(self, odradek=result.outcome, seconds=seconds, runs=runs)


Table = Mapping[str, Row]


@dataclass(frozen=True, slots=True)
class Expected:
    """All that is written down of a suite: a table for each profile. An excuse names what a test
    needs and Odradek does not have."""

    excuses: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Table] = field(default_factory=dict)

    def table(self, profile: str) -> Table:
        return self.profiles.get(profile, {})

    def must_pass(self, profile: str, test: str) -> bool:
        row = self.table(profile).get(test, Row())
        return row.kafka is Outcome.PASSED and test not in self.excuses

    def noted(self, profile: str, result: Result, *, on_kafka: bool) -> "Expected":
        if result.test == CALM:
            return self
        table = dict(self.table(profile))
        table[result.test] = table.get(result.test, Row()).noted(result, on_kafka=on_kafka)
        return replace(self, profiles={**self.profiles, profile: table})


def load(suite: str, folder: Path = EXPECTED) -> Expected:
    path = folder / f"{suite}.json"
    if not path.exists():
        return Expected()
    data = json.loads(path.read_text())
    tables = {
        profile: {
            test: Row(
                kafka=Outcome(said["kafka"]) if "kafka" in said else None,
                kafka_seconds=said.get("kafka_seconds", 0.0),
                odradek=Outcome(said["odradek"]) if "odradek" in said else None,
                seconds=said.get("seconds", 0.0),
                runs=said.get("runs", 0),
            )
            for test, said in table.items()
        }
        for profile, table in data["profiles"].items()
    }
    return Expected(data["excuses"], tables)


def as_json(suite: str, version: str, expected: Expected) -> str:
    """A line for each test, so that a change shows what has changed."""
    tables = {
        profile: {test: _said(row) for test, row in sorted(table.items())}
        for profile, table in sorted(expected.profiles.items())
    }
    text = {profile: _lines(table, 2) for profile, table in tables.items()}
    return (
        f'{{\n "suite": "{suite}",\n "version": "{version}",\n'
        f' "excuses": {_lines(expected.excuses, 1)},\n'
        ' "profiles": {\n'
        + ",\n".join(f'  "{profile}": {lines}' for profile, lines in text.items())
        + "\n }\n}\n"
    )


def _said(row: Row) -> Mapping[str, str | float]:
    return {name: value for name, value in asdict(row).items() if value}


def _lines(entries: Mapping[str, object], depth: int) -> str:
    """An object with each entry on a line of its own."""
    if not entries:
        return "{}"
    indent = " " * depth
    lines = (
        f"{indent} {json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in entries.items()
    )
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def troubles(
    expected: Expected, profile: str, results: Sequence[Result], *, asked: Sequence[str] = ()
) -> list[str]:
    """What is wrong with a run on Odradek, a sentence or a failure each; nothing when all is well.

    A test that passes on Kafka must pass. A test that Kafka's column does not know has never been
    held against Kafka: no suite may grow unnoticed. And no test that was asked for may get lost,
    nor any of the whole suite where none was named.
    """
    table = expected.table(profile)
    seen = {result.test for result in results}
    return [
        *(
            f"{result.test}: {result.outcome}\n{result.detail}"
            for result in results
            if result.outcome is not Outcome.PASSED
            and (result.test == CALM or expected.must_pass(profile, result.test))
        ),
        *(
            f"{test}: never run on Kafka"
            for test in sorted(seen - {CALM})
            if table.get(test, Row()).kafka is None
        ),
        *(
            f"{test}: did not run"
            for test in table
            if expected.must_pass(profile, test)
            and test not in seen
            and (not asked or belongs_to(test, asked))
        ),
    ]


def belongs_to(test: str, asked: Sequence[str]) -> bool:
    """A test is asked for by its name, or by that of the test that it is below of."""
    return test in asked or test.partition("/")[0] in asked


@dataclass(frozen=True, slots=True)
class Totals:
    """A suite on one profile in a few numbers."""

    tests: int
    right: int  # pass on Kafka
    same: int  # and on Odradek
    excuses: Mapping[str, int]  # of the others
    runs: int  # in so many, one after the other, every test that is right on Kafka ended alike


def totals(expected: Expected, profile: str) -> Totals:
    table = expected.table(profile)
    right = {test: row for test, row in table.items() if row.kafka is Outcome.PASSED}
    others = {test: row for test, row in right.items() if row.odradek is not Outcome.PASSED}
    return Totals(
        tests=len(table),
        right=len(right),
        same=len(right) - len(others),
        excuses=Counter(
            expected.excuses.get(test, "unexplained" if row.odradek else "not run")
            for test, row in others.items()
        ),
        runs=min((row.runs for row in right.values()), default=0),
    )


def as_markdown(suite: str, version: str, profile: str, expected: Expected) -> str:
    table, sums = expected.table(profile), totals(expected, profile)
    lines = [
        f"# {suite} {version} on {profile}",
        "",
        f"{sums.tests} tests, {sums.right} pass on Kafka 3.9, of these {sums.same} on Odradek.",
        "",
        "| test | Kafka 3.9 | seconds | Odradek | seconds | runs | |",
        "|---|---|--:|---|--:|--:|---|",
        *(
            f"| {test} | {row.kafka or ''} | {row.kafka_seconds:.1f} | {row.odradek or ''} "
            f"| {row.seconds:.1f} | {row.runs} | {expected.excuses.get(test, '')} |"
            for test, row in sorted(table.items())
        ),
    ]
    return "\n".join([*lines, ""])


def summary(results: Sequence[Result]) -> str:
    counts = [(outcome, sum(r.outcome is outcome for r in results)) for outcome in Outcome]
    return ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
