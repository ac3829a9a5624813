"""How far searches for counterexamples go.

`make fast` looks at a part of the examples, `make test` at all of them with ODRADEK_ALL_EXAMPLES,
and ODRADEK_THOROUGH is for searches of hours with seeds of their own.
"""

import os

THOROUGH = bool(os.environ.get("ODRADEK_THOROUGH"))
ALL = THOROUGH or bool(os.environ.get("ODRADEK_ALL_EXAMPLES"))


def examples(count: int) -> int:
    """How many of so many examples to try now."""
    return count if ALL else max(1, count // 5)
