"""A thousand stories of a cluster under faults: nothing that was promised is broken.

Each story is decided by its seed alone. One that fails says with which command it is played again.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.mutants import MUTANTS, mutated
from tests.sim.story import replay_command, run

ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("ODRADEK_SIM_SEEDS", "1000"))
# Stories in one test: enough of them that both workers are busy to the end.
CHAPTER = 20
# Every known mistake shows within so many stories; the rarest in one of 25.
MUTANT_SEEDS = 300


@pytest.mark.parametrize("first", range(0, SEEDS, CHAPTER))
def test_a_cluster_keeps_its_promises_whatever_fails(first: int) -> None:
    for seed in range(first, min(first + CHAPTER, SEEDS)):
        outcome = run(seed)
        assert not outcome.failures, f"{outcome}\nplay it again: {replay_command(seed)}"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_known_mistake_is_found_out(name: str) -> None:
    with mutated(name):
        assert any(run(seed).failures for seed in range(MUTANT_SEEDS))


def test_a_story_is_the_same_every_time_it_is_played() -> None:
    """In other processes, too, where words have other hashes and objects lie elsewhere, so that
    sets of either have another order."""
    told = [
        subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", "7", "--trace"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONMALLOC": allocator},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed, allocator in (("1", "pymalloc"), ("2", "malloc"))
    ]
    assert len(told[0].splitlines()) > 100
    assert b"is committed" in told[0], "it should be about transactions, too"
    assert told[0] == told[1]


def test_stories_are_about_something() -> None:
    outcomes = [run(seed) for seed in range(10)]
    assert sum(outcome.acknowledged for outcome in outcomes) > 500
    assert sum(outcome.elections for outcome in outcomes) > 30
    assert sum(outcome.transactions for outcome in outcomes) > 30
