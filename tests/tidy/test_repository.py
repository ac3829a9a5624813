"""The repository obeys the rules of its own house: a rule that matters is a test, not prose."""

from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.tidy import rules
from tests.tidy.sources import PACKAGES, python_texts, tracked_texts

# One process reads and parses the files, once.
pytestmark = pytest.mark.xdist_group("tidy")

# The edges: the few modules through which the packages meet the world.
MAY_READ_THE_CLOCK = {"protocol/clock.py"}
MAY_OPEN_FILES = {"storage/files.py", "broker/main.py", "broker/config.py", "client/cli.py"}
CODE_ENDINGS = (".py", ".toml", ".sh", "Makefile", "scripts/find-python", ".ci/run")


def offences(
    rule: Callable[[str], Iterable[rules.Offence]], texts: dict[str, str], *allowed: str
) -> Iterator[str]:
    for name, text in texts.items():
        if name not in allowed:
            yield from (f"{name}:{line}: {problem}" for line, problem in rule(text))


def check(rule: Callable[[str], Iterable[rules.Offence]], texts: dict[str, str], *allowed: str):
    found = list(offences(rule, texts, *allowed))
    assert not found, "\n".join(found)


def test_code_lines_fit_in_100_columns() -> None:
    code = {name: text for name, text in tracked_texts().items() if name.endswith(CODE_ENDINGS)}
    check(rules.long_lines, code)


def test_functions_fit_on_a_screen() -> None:
    check(rules.long_functions, python_texts())


def test_files_are_short_enough_to_be_about_one_thing() -> None:
    too_long = []
    for name, text in python_texts().items():
        lines = text.count("\n")
        limit = rules.MAX_TEST_FILE_LINES if name.startswith("tests/") else rules.MAX_FILE_LINES
        if lines > limit:
            too_long.append(f"{name}: {lines} lines, at most {limit}")
    assert not too_long, "\n".join(too_long)


def test_nothing_is_left_for_later() -> None:
    check(rules.unfinished_work, tracked_texts())
    check(rules.stubs, python_texts(*PACKAGES))


def test_no_failure_is_swallowed() -> None:
    check(rules.swallowed_exceptions, python_texts())


def test_time_is_read_through_the_clock_alone() -> None:
    check(rules.clock_calls, python_texts(*PACKAGES), *MAY_READ_THE_CLOCK)


def test_files_are_opened_at_the_edges_alone() -> None:
    check(rules.open_calls, python_texts(*PACKAGES), *MAY_OPEN_FILES)


def test_every_module_says_what_it_is() -> None:
    modules = {name: text for name, text in python_texts().items() if "/test_" not in name}
    check(rules.missing_docstring, modules)


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    check(rules.machine_paths, tracked_texts())
