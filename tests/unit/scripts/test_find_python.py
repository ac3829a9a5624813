"""Which Python the environment is made with: candidates are programs that answer what is asked."""

import subprocess
from pathlib import Path

import pytest

FIND = Path(__file__).resolve().parents[3] / "scripts" / "find-python"


def candidate(directory: Path, name: str, says: str = "", *, status: int = 0) -> Path:
    program = directory / name
    program.write_text(f"#!/bin/sh\necho {says}\nexit {status}\n")
    program.chmod(0o755)
    return program


def chosen(*candidates: Path | str) -> subprocess.CompletedProcess[str]:
    names = " ".join(map(str, candidates))
    return subprocess.run(
        [FIND], env={"PATH": "/usr/bin:/bin", "PYTHON": names}, capture_output=True, text=True
    )


def test_the_first_one_is_chosen(tmp_path: Path):
    first = candidate(tmp_path, "first", "optimised")
    second = candidate(tmp_path, "second", "optimised")
    assert chosen(first, second).stdout.strip() == str(first)


def test_one_that_was_built_for_speed_comes_before_one_that_was_not(tmp_path: Path):
    first, second = (
        candidate(tmp_path, "first", "plain"),
        candidate(tmp_path, "second", "optimised"),
    )
    assert chosen(first, second).stdout.strip() == str(second)


def test_where_none_was_built_for_speed_the_first_is_chosen(tmp_path: Path):
    first, second = candidate(tmp_path, "first", "plain"), candidate(tmp_path, "second", "plain")
    assert chosen(first, second).stdout.strip() == str(first)


def test_one_that_is_too_old_or_not_there_is_passed_over(tmp_path: Path):
    old, good = candidate(tmp_path, "old", status=3), candidate(tmp_path, "good", "plain")
    assert chosen(old, tmp_path / "nowhere", good).stdout.strip() == str(good)


@pytest.mark.parametrize(("status", "word"), [(3, "3.11 or later"), (4, "venv module")])
def test_where_there_is_none_one_sentence_says_what_is_missing(
    tmp_path: Path, status: int, word: str
):
    done = chosen(candidate(tmp_path, "useless", status=status))
    assert done.returncode == 1
    assert not done.stdout
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_this_machine_has_one():
    done = subprocess.run([FIND], capture_output=True, text=True)
    assert Path(done.stdout.strip()).exists()
    assert subprocess.run([done.stdout.strip(), "-c", "import venv"]).returncode == 0
