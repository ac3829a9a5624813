"""Links in the documentation lead somewhere: to a file, or to a heading in it."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.tidy.sources import ROOT, tracked_texts

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
OUTSIDE = ("http://", "https://", "mailto:")


def slug(heading: str) -> str:
    """The anchor that a heading gets on code hosts: lower case, dashes for spaces."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(text: str) -> set[str]:
    return {slug(heading) for heading in HEADING.findall(text)}


def broken_links(name: str, text: str) -> Iterator[str]:
    for target in LINK.findall(CODE.sub("", text)):
        if target.startswith(OUTSIDE):
            continue
        path, _, anchor = target.partition("#")
        leads_to = ROOT / PurePosixPath(name).parent / path if path else ROOT / name
        if not leads_to.exists():
            yield f"{name}: {target} leads to no file"
        elif anchor and anchor not in anchors(leads_to.read_text()):
            yield f"{name}: {target} leads to no heading"


def test_links_in_the_documentation_lead_somewhere() -> None:
    pages = {name: text for name, text in tracked_texts().items() if name.endswith(".md")}
    assert not [problem for name, text in pages.items() for problem in broken_links(name, text)]


def test_a_broken_link_is_found() -> None:
    assert list(broken_links("README.md", "see [this](docs/no-such-page.md)"))
    assert list(broken_links("README.md", "see [this](#no-such-heading)"))
    assert not list(broken_links("README.md", "# A heading\n[up](README.md) `[code](nowhere)`"))
