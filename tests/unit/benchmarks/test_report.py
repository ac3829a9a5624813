"""The report says what was met, what was missed and what nobody measured; its plots are SVG."""

from xml.etree import ElementTree

import pytest

from benchmarks.grid.plots import Column, columns, fold, lines, nice_step
from benchmarks.grid.readings import Reading, Result
from benchmarks.grid.report import report_lines, write_report

SVG = "{http://www.w3.org/2000/svg}"


def unbatched(ours: float, kafka: float, *, scatter: float = 0.01) -> Result:
    """Five rounds, which scatter around their median by so much."""
    readings = [
        Reading("1 KB", peer, metric, tuple(value * (1 + scatter * n) for n in range(-2, 3)))
        for peer, value in (("odradek", ours), ("kafka-3.9", kafka))
        for metric in ("records/s", "CPU µs/record")
    ]
    return Result("unbatched", "Unbatched", tuple(readings), {"cores": 2})


def test_the_report_counts_a_bar_as_met_or_missed_with_its_figures() -> None:
    text = "\n".join(report_lines([unbatched(ours=20_000, kafka=10_000)]))

    assert "| unbatched produce, requests/s | kafka-3.9 | >= 2.5x | 2.00x (1 KB) | 0/1 |" in text
    assert "| 1 KB | 20,000 | kafka-3.9 | 10,000 | 2.00 | >= 2.5x |" in text
    assert "| start to ready | kafka-3.9, kafka-4 | <= 0.15x | | | not measured |" in text


def test_a_met_bar_is_not_among_the_cells_that_miss() -> None:
    text = "\n".join(report_lines([unbatched(ours=30_000, kafka=10_000)]))

    assert "3.00x (1 KB) | 1/1 | met |" in text
    assert "| 30,000 | kafka-3.9 | 10,000 | 3.00 | >= 2.5x |" not in text


def test_a_verdict_that_the_rounds_do_not_bear_out_says_so() -> None:
    met, missed = (
        "\n".join(report_lines([unbatched(ours=ours, kafka=10_000, scatter=0.1)]))
        for ours in (25_500, 24_500)
    )

    assert "2.55x (1 KB) | 1/1 | met, within the noise |" in met
    assert "2.45x (1 KB) | 0/1 | **missed**, within the noise |" in missed
    assert "| 2.45 | >= 2.5x | within the noise |" in missed


def test_plots_of_scenarios_that_are_gone_are_removed(tmp_path) -> None:
    (tmp_path / "gone.svg").write_text("old")

    report = write_report(tmp_path, [unbatched(3, 1)])

    assert {path.name for path in tmp_path.iterdir()} == {report.name, "unbatched.svg"}


def test_a_column_stands_on_the_axis_and_is_as_high_as_its_value_says() -> None:
    svg = columns("a < b", ["x"], {"ours": [Column(50, 40, 60)], "theirs": [Column(100, 100, 100)]})

    drawn = ElementTree.fromstring(svg).findall(f"{SVG}rect")[3:]
    half, full = (float(rect.attrib["height"]) for rect in drawn)
    assert half == pytest.approx(full / 2, abs=0.1)


def test_a_peer_without_a_reading_leaves_a_gap() -> None:
    svg = columns("t", ["x", "y"], {"ours": [Column(1, 1, 1), None]})

    assert len(ElementTree.fromstring(svg).findall(f"{SVG}rect")) == 3  # ground, legend, column


def test_a_line_has_a_point_for_each_second() -> None:
    svg = lines("t", "seconds", {"ours": [0, 5, 10]})

    (line,) = ElementTree.fromstring(svg).findall(f"{SVG}polyline")
    assert len(line.attrib["points"].split()) == 3


@pytest.mark.parametrize(
    ("most", "step"), [(0, 1.0), (1, 0.2), (99, 20), (101, 50), (2600, 1000), (0.03, 0.01)]
)
def test_ticks_are_round_numbers_that_reach_the_highest_value(most, step) -> None:
    assert nice_step(most) == pytest.approx(step)


def test_labels_break_at_spaces() -> None:
    assert fold("RF 4, min.insync 2, acks=all", 20) == ["RF 4, min.insync 2,", "acks=all"]
