"""Go's test programs: built with `go test -c`, run under test2json, read event by event."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.conformance.results import Outcome, Result

OUTCOMES = {"pass": Outcome.PASSED, "fail": Outcome.FAILED, "skip": Outcome.SKIPPED}
DETAIL_LINES = 30


def run_program(
    program: Path,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    log: Path,
) -> Iterator[Result]:
    """The result of each test when it ends."""
    command = ["go", "tool", "test2json", "-t", str(program), "-test.v=test2json", *arguments]
    with (
        log.open("w") as kept,
        subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as running,
    ):
        assert running.stdout is not None
        yield from results_in(running.stdout, kept.write)


def results_in(lines: Iterable[str], keep: Callable[[str], object]) -> Iterator[Result]:
    """A top-level test that has tests below it is told by these alone. Further down, a slash may
    be part of a test's own name."""
    said: dict[str, list[str]] = {}
    parents: set[str] = set()
    for line in lines:
        keep(line)
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        test = event.get("Test", "")
        top, slash, _ = test.partition("/")
        if slash:
            parents.add(top)
        if event["Action"] == "output":
            said.setdefault(test, []).append(event["Output"])
        if event["Action"] not in OUTCOMES or not test or test in parents:
            continue
        outcome = OUTCOMES[event["Action"]]
        text = "" if outcome is Outcome.PASSED else "".join(said.get(test, [])[-DETAIL_LINES:])
        yield Result(test, outcome, float(event.get("Elapsed", 0.0)), text)
