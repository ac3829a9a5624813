"""The page of known failures names tests; each of them must be there."""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "reliability.md"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE.read_text())
    assert len(named) > 50, "the page has lost its tests"
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"def {name}\(", (TESTS / path).read_text())
    ]
    assert not missing
