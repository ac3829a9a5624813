"""The rows of a result: what was measured, what it should be, and whether it is.

A row that is compared with a peer holds both medians of the same run and their ratio; `rounds` are
the single readings, in the order in which they were taken.
"""

import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

Row = dict[str, Any]


def below(name: str, readings: Sequence[float], unit: str, limit: float, **more: object) -> Row:
    """The median must stay below the limit."""
    value = median(readings)
    return {
        "name": name,
        "value": _rounded(value),
        "unit": unit,
        "peer": None,
        "target": f"< {limit:g} {unit}",
        "met": value < limit,
        "best": _rounded(min(readings)),
        "rounds": [_rounded(reading) for reading in readings],
        **more,
    }


def beside(
    name: str,
    readings: Sequence[float],
    unit: str,
    *,
    peer: str,
    peer_readings: Sequence[float],
    at_least: float | None = None,
    at_most: float | None = None,
    **more: object,
) -> Row:
    """The median must be so many times the peer's."""
    ours, theirs = median(readings), median(peer_readings)
    ratio = ours / theirs
    target, met = None, None
    if at_least is not None:
        target, met = f">= {at_least:g} x peer", ratio >= at_least
    elif at_most is not None:
        target, met = f"<= {at_most:g} x peer", ratio <= at_most
    return {
        "name": name,
        "value": _rounded(ours),
        "unit": unit,
        "peer": peer,
        "peer_value": _rounded(theirs),
        "ratio": round(ratio, 2),
        "target": target,
        "met": met,
        "rounds": [_rounded(reading) for reading in readings],
        "peer_rounds": [_rounded(reading) for reading in peer_readings],
        **more,
    }


def reading(name: str, value: float, unit: str, **more: object) -> Row:
    """A figure without a target."""
    return {
        "name": name,
        "value": _rounded(value),
        "unit": unit,
        "peer": None,
        "target": None,
        "met": None,
        **more,
    }


def tell(row: Row) -> Row:
    """Show a row to whoever watches, and hand it on."""
    shown = f"  {row['name']:<52}{row['value']:>10} {row['unit']}"
    if row["peer"]:
        shown += f"  beside {row['peer_value']} ({row['peer']}), {row['ratio']} x"
    if "floor" in row:
        shown += f"  floor {row['floor']}"
    if row["target"]:
        shown += f"  {row['target']}: {'met' if row['met'] else 'MISSED'}"
    print(shown, file=sys.stderr, flush=True)
    return row


def percentile(readings: Sequence[float], share: float) -> float:
    ordered = sorted(readings)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _rounded(value: float) -> float:
    return round(value, 1) if abs(value) >= 10 else round(value, 3)
