"""An order of rounds is told from chance by how many of all orders are as good as it."""

from itertools import permutations

import pytest

from benchmarks.grid.chance import can_tell, chance_of_order


def test_five_that_are_all_above_five_are_so_by_chance_once_in_252() -> None:
    assert chance_of_order([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(1 / 252)


def test_those_that_are_all_below_are_above_by_chance_for_certain() -> None:
    assert chance_of_order([6, 7, 8], [1, 2, 3]) == 1


def test_rounds_that_are_the_same_tell_nothing() -> None:
    assert chance_of_order([5.0] * 7, [5.0] * 7) > 0.5


def test_one_round_of_each_never_tells_more_than_a_coin() -> None:
    assert chance_of_order([1], [100]) == 0.5
    assert not can_tell(1, 1)


def test_three_rounds_of_each_are_the_fewest_that_can_tell() -> None:
    assert not can_tell(2, 3)
    assert can_tell(3, 3)
    assert chance_of_order([1, 2, 3], [4, 5, 6]) == pytest.approx(0.05)


def test_it_is_what_counting_all_orders_gives() -> None:
    lower, higher = [1.0, 4.0, 5.0], [2.0, 6.0, 7.0, 3.0]

    def wins(order: tuple[float, ...]) -> int:
        return sum(high > low for high in order[3:] for low in order[:3])

    orders = list(permutations([*lower, *higher]))
    as_good = sum(wins(order) >= wins((*lower, *higher)) for order in orders)
    assert chance_of_order(lower, higher) == pytest.approx(as_good / len(orders))
