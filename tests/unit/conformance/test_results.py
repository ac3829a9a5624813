"""How the results of a suite are read and judged."""

import json
from dataclasses import replace
from pathlib import Path

from tests.conformance.go_tests import results_in
from tests.conformance.kafka_python import results_in as results_in_junit
from tests.conformance.librdkafka import outcome_in
from tests.conformance.results import (
    CALM,
    Expected,
    Outcome,
    Result,
    Row,
    Totals,
    as_json,
    load,
    totals,
    troubles,
)

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED
EXPECTED = Expected(
    excuses={"acls": "needs ACLs"},
    profiles={
        "P1": {
            "both": Row(kafka=PASSED, kafka_seconds=2.5, odradek=PASSED, seconds=1.5, runs=2),
            "fails everywhere": Row(kafka=FAILED, odradek=FAILED, runs=1),
            "acls": Row(kafka=PASSED, odradek=FAILED, runs=3),
        },
        "P3": {"both": Row(kafka=FAILED)},
    },
)
GOOD = Result("both", PASSED, 1)


def test_only_a_test_that_passes_on_kafka_can_fail_here() -> None:
    results = [GOOD, Result("fails everywhere", FAILED, 1), Result("acls", FAILED, 1)]
    assert troubles(EXPECTED, "P1", results) == []
    bad = Result("both", FAILED, 1, "why")
    assert troubles(EXPECTED, "P1", [bad]) == ["both: failed\nwhy"]


def test_each_profile_has_its_own_right_and_wrong() -> None:
    assert troubles(EXPECTED, "P3", [Result("both", FAILED, 1)]) == []


def test_a_skipped_test_has_not_passed() -> None:
    assert troubles(EXPECTED, "P1", [Result("both", SKIPPED, 1)]) == ["both: skipped\n"]


def test_no_test_gets_lost_and_none_comes_unnoticed() -> None:
    assert troubles(EXPECTED, "P1", []) == ["both: did not run"]
    assert troubles(EXPECTED, "P1", [], asked=["both"]) == ["both: did not run"]
    assert troubles(EXPECTED, "P1", [], asked=["acls"]) == []
    new = [GOOD, Result("new", PASSED, 1)]
    assert troubles(EXPECTED, "P1", new) == ["new: never run on Kafka"]


def test_a_test_is_asked_for_by_the_name_above_it() -> None:
    below = Expected(profiles={"P1": {"TestA/range/848": Row(kafka=PASSED)}})
    assert troubles(below, "P1", [], asked=["TestA"]) == ["TestA/range/848: did not run"]


def test_an_alarm_of_a_broker_is_a_failure() -> None:
    results = [GOOD, Result(CALM, FAILED, 0, "Traceback")]
    assert troubles(EXPECTED, "P1", results) == [f"{CALM}: failed\nTraceback"]


def test_what_is_expected_survives_its_file(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text(as_json("suite", "1", EXPECTED))
    assert load("suite", tmp_path) == EXPECTED
    assert load("another", tmp_path) == Expected()


def test_totals_count_what_kafka_passes_and_the_runs_of_every_test() -> None:
    assert totals(EXPECTED, "P1") == Totals(
        tests=3, right=2, same=1, excuses={"needs ACLs": 1}, runs=2
    )


def test_each_run_writes_its_own_column() -> None:
    row = Row(kafka=PASSED, kafka_seconds=2.5, odradek=PASSED, seconds=1.5, runs=2)
    on_kafka = EXPECTED.noted("P1", Result("both", FAILED, 9), on_kafka=True)
    assert on_kafka.table("P1")["both"] == replace(row, kafka=FAILED, kafka_seconds=9)
    here = EXPECTED.noted("P1", Result("both", PASSED, 2.04), on_kafka=False)
    assert here.table("P1")["both"] == replace(row, seconds=2.0, runs=3)
    assert EXPECTED.noted("P1", Result(CALM, PASSED, 0), on_kafka=False) == EXPECTED


def test_another_outcome_begins_the_count_of_runs_again() -> None:
    here = EXPECTED.noted("P1", Result("acls", PASSED, 2), on_kafka=False)
    assert here.table("P1")["acls"].runs == 1


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
