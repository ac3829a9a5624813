"""Results survive their JSON, and a warm-up ends when a peer stops growing."""

import json

import pytest

from benchmarks.grid.readings import Reading, Result, is_still_growing, load_results


def test_a_result_comes_back_from_its_json_as_it_was(tmp_path) -> None:
    reading = Reading("acks=1", "odradek", "MB/s", (1.5, 2.0, 3.0), warm_up=(0.5,))
    result = Result("acks", "one partition", (reading,), {"cores": 2})
    (tmp_path / "acks.json").write_text(result.to_json())

    assert load_results(tmp_path, ["acks", "never-measured"]) == [result]
    assert (reading.median, reading.spread) == (2.0, (1.5, 3.0))


def test_json_keeps_four_digits() -> None:
    text = Result("s", "t", (Reading("c", "p", "m", (123456.789, 0.00012345)),)).to_json()

    assert json.loads(text)["readings"][0]["rounds"] == [123500.0, 0.0001234]


@pytest.mark.parametrize(
    ("rates", "grows"),
    [
        ((10,), True),
        ((10, 20, 30, 40), True),
        ((30, 20, 29, 21, 30), False),
        ((10, 30, 20, 29, 21, 40), True),
        ((10, 30, 31, 30, 29, 31), False),
    ],
)
def test_a_warm_up_goes_on_while_one_of_the_last_four_rounds_was_clearly_better(rates, grows):
    assert is_still_growing(rates) is grows
