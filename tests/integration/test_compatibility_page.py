"""The compatibility page says what the broker answers."""

import re

from odradek.protocol.registry import api

from scripts.compatibility import PAGE, advertised, page, usage


def test_the_page_is_what_the_broker_advertises() -> None:
    served = advertised()
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert [(int(key), name, int(low), int(high)) for key, name, low, high in rows] == [
        (entry.api_key, api(entry.api_key).name, entry.min_version, entry.max_version)
        for entry in served
    ]
    assert page(served, usage()) == PAGE.read_text(), "run python -m scripts.compatibility"


def test_every_api_that_is_served_is_proved_somewhere() -> None:
    unproved = [
        row.split("|")[2].strip()
        for row in PAGE.read_text().splitlines()
        if re.match(r"\| \d+ \|", row) and not row.split("|")[5].strip()
    ]
    assert unproved == []
