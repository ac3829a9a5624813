"""Which Python the environment is made with: candidates are programs that tell what a loop took."""

import subprocess
from pathlib import Path

import pytest

FIND = Path(__file__).resolve().parents[3] / "scripts" / "find-python"


def candidate(directory: Path, name: str, *took: int, status: int = 0) -> Path:
    """Tells these times in turns, the first one for being looked at."""
    program = directory / name
    times = " ".join(map(str, took))
    program.write_text(
        f"#!/bin/sh\necho >> {program}.calls\nset -- {times}\n"
        f'shift $(( ($(wc -l < {program}.calls) - 1) % {max(1, len(took))} ))\necho "$1"\n'
        f"exit {status}\n"
    )
    program.chmod(0o755)
    return program


def chosen(*candidates: Path) -> subprocess.CompletedProcess[str]:
    names = " ".join(map(str, candidates))
    return subprocess.run(
        [FIND], env={"PATH": "/usr/bin:/bin", "PYTHON": names}, capture_output=True, text=True
    )


def test_the_first_is_chosen_where_none_is_clearly_faster(tmp_path: Path):
    first, second = candidate(tmp_path, "first", 1000), candidate(tmp_path, "second", 900)
    assert chosen(first, second).stdout.strip() == str(first)


def test_one_that_is_clearly_faster_is_chosen(tmp_path: Path):
    first, second = candidate(tmp_path, "first", 1700), candidate(tmp_path, "second", 1300)
    assert chosen(first, second).stdout.strip() == str(second)


def test_a_slow_moment_of_the_faster_one_does_not_count(tmp_path: Path):
    first = candidate(tmp_path, "first", 1700)
    second = candidate(tmp_path, "second", 9000, 9000, 1300, 9000)
    assert chosen(first, second).stdout.strip() == str(second)


def test_one_that_is_too_old_is_passed_over(tmp_path: Path):
    old, good = candidate(tmp_path, "old", 1, status=3), candidate(tmp_path, "good", 1000)
    assert chosen(old, good).stdout.strip() == str(good)


@pytest.mark.parametrize(("status", "word"), [(3, "3.11 or later"), (4, "venv module")])
def test_where_there_is_none_one_sentence_says_what_is_missing(
    tmp_path: Path, status: int, word: str
):
    done = chosen(candidate(tmp_path, "useless", 1, status=status))
    assert done.returncode == 1
    assert not done.stdout
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1
