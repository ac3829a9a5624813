"""Rules that a setting's value must keep, each able to say itself in words.

A rule's words complete the sentence "must be …" in error messages and stand in the generated
documentation, so a bound is written once, as code.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

# Everything a setting can hold once it is parsed. Lists are tuples: configurations are immutable.
Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Check:
    rule: str
    accepts: Callable[[Value], bool]


def at_least(low: float) -> Check:
    return Check(f"at least {low}", lambda value: isinstance(value, int | float) and value >= low)


def between(low: float, high: float) -> Check:
    return Check(
        f"from {low} to {high}",
        lambda value: isinstance(value, int | float) and low <= value <= high,
    )


def one_of(*choices: str, ignore_case: bool = False) -> Check:
    """One of the words; for a list, every item is one of them."""
    allowed = {_fold(choice, ignore_case) for choice in choices}

    def accepts(value: Value) -> bool:
        items = value if isinstance(value, tuple) else (value,)
        return all(isinstance(item, str) and _fold(item, ignore_case) in allowed for item in items)

    return Check("one of " + ", ".join(choices), accepts)


def matching(pattern: str, rule: str) -> Check:
    """Text, or a list whose every item is text, that the pattern matches as a whole."""
    compiled = re.compile(pattern)

    def accepts(value: Value) -> bool:
        items = value if isinstance(value, tuple) else (value,)
        return all(isinstance(item, str) and compiled.fullmatch(item) for item in items)

    return Check(rule, accepts)


def non_empty() -> Check:
    return Check("not empty", lambda value: isinstance(value, str | tuple) and len(value) > 0)


def either(*checks: Check) -> Check:
    return Check(
        " or ".join(check.rule for check in checks),
        lambda value: any(check.accepts(value) for check in checks),
    )


def exactly(expected: Value, because: str = "") -> Check:
    """One value only; `because` says why there is no choice."""
    shown = str(expected).lower() if isinstance(expected, bool) else str(expected)
    return Check(f"{shown} ({because})" if because else shown, lambda value: value == expected)


def _fold(text: str, ignore_case: bool) -> str:
    return text.lower() if ignore_case else text
