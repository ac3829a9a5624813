"""Two builds in turns: a row for each cell and metric, the working tree beside its base."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import builds
from benchmarks.builds import NEW, OLD, rows_of
from benchmarks.grid.readings import Reading

AUTHOR = ("-c", "user.name=test", "-c", "user.email=test@localhost")


def test_each_cell_and_metric_has_a_row_with_both_builds() -> None:
    readings = [
        Reading("1 KB", NEW, "MB/s", (90.0, 110.0, 100.0)),
        Reading("1 KB", OLD, "MB/s", (50.0, 40.0, 60.0)),
        Reading("1 KB", OLD, "CPU ms/MB", (2.0,)),
        Reading("1 KB", NEW, "CPU ms/MB", (1.0,)),
    ]

    faster, cheaper = rows_of("consume", iter(readings))

    assert (faster["name"], faster["unit"]) == ("consume, 1 KB", "MB/s")
    assert (faster["value"], faster["peer_value"], faster["ratio"]) == (100.0, 50.0, 2.0)
    assert (cheaper["unit"], cheaper["ratio"]) == ("CPU ms/MB", 0.5)


def test_a_row_is_told_as_soon_as_both_builds_have_told_theirs() -> None:
    def readings():
        yield Reading("1 KB", NEW, "MB/s", (2.0,))
        yield Reading("1 KB", OLD, "MB/s", (1.0,))
        raise AssertionError("the next cell takes a minute")

    assert next(rows_of("consume", readings()))["ratio"] == 2.0


def test_a_scenario_in_which_nobody_takes_turns_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["builds", "recovery"])
    with pytest.raises(SystemExit):
        builds.main()
    assert "no such scenario: recovery" in capsys.readouterr().err


def test_the_base_is_the_revision_as_it_is_named_in_the_working_tree(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the copy that is compared with, HEAD is what it was compared with last."""
    base = tmp_path / "build" / "base"
    monkeypatch.setattr(builds, "ROOT", tmp_path)
    monkeypatch.setattr(builds, "BASE", base)
    git(tmp_path, "init", "--quiet")
    for text in ("types:\n", "types: # again\n"):
        (tmp_path / "Makefile").write_text(text)
        git(tmp_path, "add", "Makefile")
        git(tmp_path, *AUTHOR, "commit", "--quiet", "--message", text)

    for revision in ("HEAD~1", "HEAD"):
        builds.check_out(revision)
        assert git(base, "rev-parse", "HEAD") == git(tmp_path, "rev-parse", revision)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout
