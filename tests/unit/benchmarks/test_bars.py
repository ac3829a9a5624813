"""Bars are judged cell by cell, on medians, against whom they name."""

from benchmarks.grid.bars import BARS, Bar, Limit, OursAt, Peers, judge
from benchmarks.grid.peers import PEERS
from benchmarks.grid.readings import OURS, Reading, Result
from benchmarks.grid.scenarios import SCENARIOS, Contest

FAST = Bar("fast", ("s",), "MB/s", Peers(("other",)), at_least=1.5)


def result(*readings: Reading, scenario: str = "s") -> Result:
    return Result(scenario, "a scenario", readings)


def mb(cell: str, peer: str, *rounds: float) -> Reading:
    return Reading(cell, peer, "MB/s", rounds)


def test_a_bar_compares_medians_so_that_one_bad_round_does_not_count() -> None:
    found = result(mb("a", OURS, 30, 1, 31), mb("a", "other", 20, 20, 900))

    (verdict,) = judge(FAST, {"s": found})

    assert (verdict.ratio, verdict.is_met) == (1.5, True)


def test_a_bar_is_judged_in_every_cell_that_both_have() -> None:
    found = result(
        mb("a", OURS, 30),
        mb("a", "other", 10),
        mb("b", OURS, 14),
        mb("b", "other", 10),
        mb("c", OURS, 1),
    )

    assert [(v.cell, v.is_met) for v in judge(FAST, {"s": found})] == [("a", True), ("b", False)]


def test_an_upper_bar_is_missed_from_above_and_its_worst_is_the_highest() -> None:
    slow = Bar("slow", ("s",), "MB/s", Peers(("other",)), at_most=0.8)
    found = result(mb("a", OURS, 9), mb("a", "other", 10), mb("b", OURS, 8), mb("b", "other", 10))

    verdicts = list(judge(slow, {"s": found}))

    assert [verdict.is_met for verdict in verdicts] == [False, True]
    assert slow.worst([verdict.ratio for verdict in verdicts]) == 0.9


def test_only_the_cells_that_a_bar_names_are_judged() -> None:
    some = Bar("some", ("s",), "MB/s", Peers(("other",)), at_least=1, cells="RF [24]")
    found = result(*(mb(cell, peer, 1) for cell in ("RF 1", "RF 4") for peer in (OURS, "other")))

    assert [verdict.cell for verdict in judge(some, {"s": found})] == ["RF 4"]


def test_a_limit_of_the_machine_comes_from_another_scenario() -> None:
    most = Bar("most", ("s",), "MB/s", Limit("limits", "wire"), at_least=0.6)
    machine = result(mb("wire", "machine", 100), mb("disk", "machine", 1), scenario="limits")

    (verdict,) = judge(most, {"s": result(mb("a", OURS, 50)), "limits": machine})

    assert (verdict.other, verdict.ratio, verdict.is_met) == ("wire", 0.5, False)
    assert not list(judge(most, {"s": result(mb("a", OURS, 50))}))


def test_growth_is_measured_from_our_own_cell_with_one() -> None:
    growth = Bar("growth", ("s",), "MB/s", OursAt(1), at_most=1.3, cells="1000 ")
    found = result(
        mb("1 connections, 5 at once", OURS, 10),
        mb("100 connections, 5 at once", OURS, 99),
        mb("1000 connections, 5 at once", OURS, 13),
    )

    (verdict,) = judge(growth, {"s": found})

    assert (verdict.other, verdict.is_met) == ("1 connections, 5 at once", True)


def test_every_bar_names_scenarios_metrics_and_peers_that_exist() -> None:
    scenarios = {scenario.name: scenario for scenario in SCENARIOS}
    for bar in BARS:
        for name in bar.scenarios:
            scenario = scenarios[name]
            if isinstance(scenario, Contest):
                assert bar.metric in scenario.metrics, (bar.what, name)
                if isinstance(bar.against, Peers):
                    assert set(bar.against.names) <= set(scenario.peers), (bar.what, name)
        if isinstance(bar.against, Peers):
            assert set(bar.against.names) <= set(PEERS)


def test_a_verdict_is_borne_out_when_the_rounds_are_on_its_side_of_the_bar() -> None:
    clear = [
        (mb("met", OURS, 31, 32, 33, 34, 35), mb("met", "other", 19, 19, 20, 20, 18)),
        (mb("missed", OURS, 21, 22, 23, 24, 25), mb("missed", "other", 19, 19, 20, 20, 18)),
    ]
    close = [
        (mb("met by a hair", OURS, 28, 29, 31, 32, 33), mb("met by a hair", "other", *[20.0] * 5)),
        (mb("missed by one", OURS, 27, 28, 29, 31, 32), mb("missed by one", "other", *[20.0] * 5)),
    ]
    found = result(*(reading for pair in clear + close for reading in pair))

    verdicts = {v.cell: (v.is_met, v.is_borne_out) for v in judge(FAST, {"s": found})}

    assert verdicts == {
        "met": (True, True),
        "missed": (False, True),
        "met by a hair": (True, False),
        "missed by one": (False, False),
    }


def test_a_verdict_on_an_upper_bar_is_borne_out_from_below() -> None:
    slow = Bar("slow", ("s",), "MB/s", Peers(("other",)), at_most=0.8)
    found = result(
        mb("met", OURS, 5, 6, 7, 6, 5),
        mb("met", "other", *[10.0] * 5),
        mb("missed", OURS, 9, 10, 9, 10, 9),
        mb("missed", "other", *[10.0] * 5),
    )

    assert [(v.is_met, v.is_borne_out) for v in judge(slow, {"s": found})] == [
        (True, True),
        (False, True),
    ]
