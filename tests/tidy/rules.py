"""The rules of the house, as functions from a file's text to its offences.

Each yields (line number, what is wrong). They look at syntax where that is possible, so that a
word in a comment or a string does not offend. The banned words are put together from pieces here,
because these files obey the rules too.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

Offence = tuple[int, str]

MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 450
MAX_TEST_FILE_LINES = 700

UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.:-])/(work|root|home/\w+)(?=/|\b(?!-))|\b(shared" + "/)")
CLOCK_CALLS = {
    f"time.{name}" for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")
} | {"datetime.now", "datetime.utcnow", "datetime.datetime.now", "datetime.datetime.utcnow"}
OPEN_CALLS = {"open", "os.open", "io.open"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _nodes(text: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parsed(text)))


def long_lines(text: str) -> Iterator[Offence]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_COLUMNS:
            yield number, f"{len(line)} columns"


def matches(pattern: re.Pattern[str], text: str) -> Iterator[Offence]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := pattern.search(line):
            yield number, repr(found.group())


def unfinished_work(text: str) -> Iterator[Offence]:
    return matches(UNFINISHED, text)


def machine_paths(text: str) -> Iterator[Offence]:
    return matches(MACHINE_PATH, text)


def long_functions(text: str) -> Iterator[Offence]:
    for node in _nodes(text):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield node.lineno, f"{node.name} has {lines} lines"


def missing_docstring(text: str) -> Iterator[Offence]:
    if not ast.get_docstring(_parsed(text)):
        yield 1, "no module docstring"


def does_nothing(handler: ast.ExceptHandler) -> bool:
    idle = all(isinstance(step, ast.Pass | ast.Continue | ast.Expr) for step in handler.body)
    return idle and not any(isinstance(node, ast.Call) for node in ast.walk(handler))


def swallowed_exceptions(text: str) -> Iterator[Offence]:
    """Broad handlers that do nothing: they hide the bug that will be looked for tomorrow."""
    for node in _nodes(text):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = ast.unparse(node.type) if node.type else "everything"
        if caught in ("everything", "Exception", "BaseException") and does_nothing(node):
            yield node.lineno, f"catches {caught} and does nothing"


def calls(text: str, banned: Iterable[str]) -> Iterator[Offence]:
    for node in _nodes(text):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in banned:
            yield node.lineno, f"calls {ast.unparse(node.func)}"


def clock_calls(text: str) -> Iterator[Offence]:
    return calls(text, CLOCK_CALLS)


def open_calls(text: str) -> Iterator[Offence]:
    return calls(text, OPEN_CALLS)


def stubs(text: str) -> Iterator[Offence]:
    for node in _nodes(text):
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        if ast.unparse(node.exc).startswith("NotImplementedError"):
            yield node.lineno, "raises NotImplementedError"
