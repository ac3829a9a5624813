"""docs/compatibility.md: what is served, who uses it, what proves it.

The table has one row for each API that the broker advertises in its answer to ApiVersions. Which
client used an API, and in which versions, was seen on the wire while `tests/clients` ran against
the broker (`usage.json` there). The tests are those whose text names the API's request. Below
stand the totals of other people's test suites, as `tests/conformance` has written them down.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from odradek.protocol.messages.versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.registry import API_KEYS, api

from tests.conformance.clusters import PROFILES
from tests.conformance.results import load, totals
from tests.conformance.suites import SUITES
from tests.support.processes import Process
from tests.support.raw_client import RawClient

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
USAGE = ROOT / "tests" / "clients" / "usage.json"
ODRADEK = Path(sys.executable).with_name("odradek")

# client -> api name -> versions seen
Usage = Mapping[str, Mapping[str, Sequence[int]]]

_HEAD = """\
# Compatibility

Made by `python -m scripts.compatibility`; a test compares it with what the broker answers.

Odradek behaves like Apache Kafka 3.9. Every API below is advertised with exactly these versions,
and only these: an API that is not listed is not served. "Used by" names the clients that were
seen to use an API, with the versions they chose, while the tests in `tests/clients` ran; "proved
in" names the tests that ask for it by name. Beside these, `tests/behaviours/test_all_versions.py`
asks for every API in every version.

"""


def advertised() -> list[ApiVersion]:
    """What a broker answers to ApiVersions."""
    with Process([ODRADEK, "serve", "--port", "0", "--ephemeral"], name="odradek") as broker:
        ready = broker.wait_for_line("^Odradek ready on ")
        with RawClient(int(ready.rpartition(":")[2])) as client:
            request = ApiVersionsRequest(
                client_software_name="odradek", client_software_version="1"
            )
            answer = client.ask(request, 3)
    assert isinstance(answer, ApiVersionsResponse)
    return sorted(answer.api_keys, key=lambda entry: entry.api_key)


def usage() -> Usage:
    seen: Usage = json.loads(USAGE.read_text()) if USAGE.exists() else {}
    return seen


def proofs(name: str) -> list[str]:
    """The tests that ask for this API in so many words."""
    word = re.compile(rf"\b{name}Request\b")
    return [
        f"[{path.parent.name}/{path.name}](../{path.relative_to(ROOT)})"
        for folder in ("behaviours", "integration")
        for path in sorted((ROOT / "tests" / folder).glob("*.py"))
        if word.search(path.read_text())
    ]


def page(served: Sequence[ApiVersion], seen: Usage) -> str:
    lines = [
        _HEAD,
        "| key | API | versions | used by | proved in |",
        "|--:|---|---|---|---|",
    ]
    for entry in served:
        name = api(entry.api_key).name
        versions = f"{entry.min_version}-{entry.max_version}"
        lines.append(
            f"| {entry.api_key} | {name} | {versions} | {_users(name, seen)} "
            f"| {', '.join(proofs(name))} |"
        )
    missing = sorted(set(API_KEYS) - {entry.api_key for entry in served})
    names = ", ".join(f"{api(key).name} ({key})" for key in missing)
    return "\n".join([*lines, "", f"Declared but not served: {names}.", "", *suite_totals(), ""])


_SUITES_HEAD = """\
## Other people's test suites

`make conformance` brings these suites from their registries and runs them. What a test does on
Apache Kafka 3.9 is written down in `tests/conformance/expected`: one that passes there must pass
here. Not counted against us are tests of what Odradek does not have yet, named as the others.
Runs says how often, in a row, every test that passes on Kafka has ended in the same way on Odradek.
Of the others, one does not end alike each time: kafka-python's `test_delete_records` with three
brokers, which expects one `poll` to bring the records of three leaders, and fails on Kafka, too.

| suite | version | brokers | tests | pass on Kafka 3.9 | of these on Odradek | the others | runs |
|---|---|--:|--:|--:|--:|---|--:|"""


def suite_totals() -> list[str]:
    lines = [_SUITES_HEAD]
    for suite in SUITES.values():
        expected = load(suite.name)
        for profile in sorted(expected.profiles):
            sums = totals(expected, profile)
            others = ", ".join(f"{count} {excuse}" for excuse, count in sums.excuses.items())
            lines.append(
                f"| {suite.name} | {suite.version} | {PROFILES[profile].brokers} | {sums.tests} "
                f"| {sums.right} | {sums.same} | {others} | {sums.runs} |"
            )
    return lines


def _users(name: str, seen: Usage) -> str:
    return ", ".join(
        f"{client} ({_ranges(apis[name])})" for client, apis in sorted(seen.items()) if name in apis
    )


def _ranges(versions: Sequence[int]) -> str:
    return ", ".join(str(version) for version in sorted(versions))


def main() -> None:
    PAGE.write_text(page(advertised(), usage()))
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
