"""The page on configuration is the one that the declarations make."""

from pathlib import Path

from odradek.broker.config_docs import render

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_says_what_the_declarations_say() -> None:
    assert PAGE.read_text() == render(), (
        "run: python -m odradek.broker.config_docs > docs/configuration.md"
    )
