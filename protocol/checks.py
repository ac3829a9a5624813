"""Rules that a setting's value must keep, each able to say itself in words.

A rule's words complete the sentence "must be …" in error messages and stand in the generated
documentation, so a bound is written once, as code.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

# Everything a setting can hold once it is parsed. Lists are tuples: configurations are immutable.
Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class Check(NamedTuple):
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


# The versions between which brokers changed what they say to each other, by the number of interim
# versions that each had: -IV0 and on.
_INTERIM_VERSIONS = {
    0: "0.8.0 0.8.1 0.8.2 0.9.0",
    1: "0.10.2 1.0 1.1 2.5 2.6 3.1 3.2 3.4 3.8 3.9",
    2: "0.10.0 2.0 2.2 2.3 2.4 2.8 3.0",
    3: "0.10.1 0.11.0 2.1 2.7 3.5 3.6",
    4: "3.3",
    5: "3.7",
}
_KAFKA_VERSIONS = frozenset(
    version
    for count, names in _INTERIM_VERSIONS.items()
    for name in names.split()
    for version in (name, *(f"{name}-IV{number}" for number in range(count)))
)


def kafka_version() -> Check:
    """A version of Kafka up to 3.9. What follows the parts that matter is ignored, as Kafka does:
    0.10.0.0 is 0.10.0, and 2.8.1 is 2.8."""

    def accepts(value: Value) -> bool:
        if not isinstance(value, str):
            return False
        parts = value.split(".")[: 3 if value.startswith("0.") else 2]
        return ".".join(parts) in _KAFKA_VERSIONS

    return Check("a Kafka version such as 3.9", accepts)


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
