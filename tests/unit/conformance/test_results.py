"""How the results of a suite are read and judged."""

import json
from pathlib import Path

from tests.conformance.go_tests import results_in
from tests.conformance.kafka_python import results_in as results_in_junit
from tests.conformance.librdkafka import outcome_in
from tests.conformance.results import (
    CALM,
    Outcome,
    Result,
    Row,
    Table,
    as_json,
    load,
    noted,
    totals,
    troubles,
)

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED
TABLE: Table = {
    "both": Row(kafka=PASSED, odradek=PASSED, seconds=1.5),
    "fails everywhere": Row(kafka=FAILED, odradek=FAILED),
    "acls": Row(kafka=PASSED, odradek=FAILED, excuse="needs ACLs"),
}


def test_only_a_test_that_passes_on_kafka_can_fail_here() -> None:
    results = [Result("both", PASSED, 1), Result("fails everywhere", FAILED, 1)]
    assert troubles(TABLE, [*results, Result("acls", FAILED, 1)], whole=True) == []
    assert troubles(TABLE, [Result("both", FAILED, 1, "why")], whole=True) == ["both: failed\nwhy"]


def test_a_skipped_test_has_not_passed() -> None:
    assert troubles(TABLE, [Result("both", SKIPPED, 1)], whole=False) == ["both: skipped\n"]


def test_no_test_gets_lost_and_none_comes_unnoticed() -> None:
    assert troubles(TABLE, [], whole=True) == ["both: did not run"]
    assert troubles(TABLE, [], whole=False) == []
    new = [Result("both", PASSED, 1), Result("new", PASSED, 1)]
    assert troubles(TABLE, new, whole=True) == ["new: not in the table"]


def test_an_alarm_of_a_broker_is_a_failure() -> None:
    results = [Result("both", PASSED, 1), Result(CALM, FAILED, 0, "Traceback")]
    assert troubles(TABLE, results, whole=True) == [f"{CALM}: failed\nTraceback"]


def test_a_table_survives_its_file(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text(as_json("suite", "1", "P1", TABLE))
    assert load("suite", tmp_path) == TABLE
    assert load("another", tmp_path) == {}
    assert totals(TABLE) == "3 tests, 2 pass on Kafka 3.9, of these 1 on Odradek."


def test_each_run_writes_its_own_column_and_leaves_excuses() -> None:
    seen = noted(TABLE, [Result("acls", PASSED, 2.04), Result(CALM, PASSED, 0)], on_kafka=False)
    assert seen["acls"] == Row(kafka=PASSED, odradek=PASSED, seconds=2.0, excuse="needs ACLs")
    assert noted(TABLE, [Result("both", FAILED, 9)], on_kafka=True)["both"] == Row(
        kafka=FAILED, odradek=PASSED, seconds=1.5
    )
    assert CALM not in seen


def test_go_tests_are_told_by_the_tests_below_them() -> None:
    events = [
        {"Action": "run", "Test": "TestA"},
        {"Action": "run", "Test": "TestA/range"},
        {"Action": "run", "Test": "TestA/range/848"},
        {"Action": "output", "Test": "TestA/range", "Output": "lost a record\n"},
        {"Action": "fail", "Test": "TestA/range", "Elapsed": 2.5},
        {"Action": "skip", "Test": "TestA/range/848", "Elapsed": 0.0},
        {"Action": "fail", "Test": "TestA", "Elapsed": 2.5},
        {"Action": "pass", "Test": "TestB", "Elapsed": 1.0},
        {"Action": "fail", "Elapsed": 4.0},
    ]
    kept: list[str] = []
    lines = ["warming up\n", *(json.dumps(event) + "\n" for event in events)]
    assert list(results_in(lines, kept.append)) == [
        Result("TestA/range", FAILED, 2.5, "lost a record\n"),
        Result("TestA/range/848", SKIPPED, 0.0),
        Result("TestB", PASSED, 1.0),
    ]
    assert kept == lines


def test_a_junit_report_names_module_and_test(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="test.integration.test_a" name="one" '
        'time="0.5"/><testcase classname="test_a" name="two" time="1"><failure message="no"/>'
        '</testcase><testcase classname="test_a" name="three" time="0"><skipped message="old"/>'
        "</testcase></testsuite></testsuites>"
    )
    assert list(results_in_junit(report)) == [
        Result("test_a::one", PASSED, 0.5),
        Result("test_a::two", FAILED, 1.0, "no"),
        Result("test_a::three", SKIPPED, 0.0, "old"),
    ]


def test_librdkafkas_runner_is_not_believed_when_nothing_has_run() -> None:
    table = "| <MAIN>    |     PASSED |   2.0s |\n| 0018_x    |    {} |   0.0s |\n"
    assert outcome_in(table.format("SKIPPED"), 0, None) is SKIPPED
    assert outcome_in(table.format(" PASSED"), 0, None) is PASSED
    assert outcome_in(table.format(" PASSED"), 134, None) is FAILED
    part = "[0081_admin / 1.2s] [ do_test_ListOffsets:42: temp queue: PASS (0.3s) ]\n"
    assert outcome_in(part, 0, "do_test_ListOffsets") is PASSED
    assert outcome_in(part, 0, "do_test_DeleteAcls") is SKIPPED
