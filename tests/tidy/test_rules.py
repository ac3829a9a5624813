"""Every rule catches what it is for, and leaves good code alone."""

import pytest

from tests.tidy import rules

LONG_FUNCTION = "def long():\n" + "    pass\n" * 70


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (rules.long_lines, "x" * 101),
        (rules.unfinished_work, "# TO" + "DO: later"),
        (rules.machine_paths, "path = '/wo" + "rk/main'"),
        (rules.machine_paths, "see ../shar" + "ed/notes"),
        (rules.long_functions, LONG_FUNCTION),
        (rules.missing_docstring, "x = 1\n"),
        (rules.swallowed_exceptions, "try:\n    f()\nexcept Exception:\n    pass\n"),
        (rules.swallowed_exceptions, "try:\n    f()\nexcept:\n    ...\n"),
        (rules.clock_calls, "import time\nnow = time.time()\n"),
        (rules.open_calls, "f = open('x')\n"),
        (rules.stubs, "def f():\n    raise NotImplementedError('later')\n"),
    ],
)
def test_a_rule_catches_its_offence(rule, text) -> None:
    assert list(rule(text))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (rules.machine_paths, "GET /workers and a/work and /rooted"),
        (rules.swallowed_exceptions, "try:\n    f()\nexcept Exception:\n    log()\n"),
        (rules.swallowed_exceptions, "try:\n    f()\nexcept KeyError:\n    pass\n"),
        (rules.clock_calls, "now = clock.now_ms()  # not time.time()\n"),
        (rules.open_calls, "file = files.open('x')\n"),
    ],
)
def test_a_rule_leaves_good_code_alone(rule, text) -> None:
    assert not list(rule(text))
