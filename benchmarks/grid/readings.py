"""What was measured: one reading for each cell, peer and metric of a scenario, with all its rounds.

A scenario's result is one JSON document; the report and the bars are made from those documents
alone, so they can be made again, in another process and on another day.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Self

OURS = "odradek"


@dataclass(frozen=True, slots=True)
class Reading:
    cell: str
    peer: str
    metric: str
    rounds: tuple[float, ...]
    warm_up: tuple[float, ...] = ()
    """The rounds before those that count, where a peer had to get warm."""

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.rounds), max(self.rounds)


@dataclass(frozen=True, slots=True)
class Result:
    """One scenario, measured."""

    scenario: str
    title: str
    readings: tuple[Reading, ...]
    circumstances: dict[str, Any] = field(default_factory=dict)
    """The machine, its load before, how long it took, what could not be measured and why."""

    def cells(self) -> list[str]:
        return list(dict.fromkeys(reading.cell for reading in self.readings))

    def peers(self) -> list[str]:
        return list(dict.fromkeys(reading.peer for reading in self.readings))

    def metrics(self) -> list[str]:
        return list(dict.fromkeys(reading.metric for reading in self.readings))

    def find(self, cell: str, peer: str, metric: str) -> Reading | None:
        for reading in self.readings:
            if (reading.cell, reading.peer, reading.metric) == (cell, peer, metric):
                return reading
        return None

    def to_json(self) -> str:
        return json.dumps(_rounded(asdict(self)), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        document = json.loads(text)
        readings = tuple(
            Reading(**{**each, "rounds": tuple(each["rounds"]), "warm_up": tuple(each["warm_up"])})
            for each in document.pop("readings")
        )
        return cls(readings=readings, **document)


def is_still_growing(rates: Sequence[float], *, by: float = 0.05, window: int = 4) -> bool:
    """Whether the last rounds of a warm-up were still better than all before them.

    Slow rounds are noise: only `window` of them without a better one end the growth.
    """
    if len(rates) <= window:
        return True
    return max(rates[-window:]) > max(rates[:-window]) * (1 + by)


def load_results(folder: Path, names: Iterable[str]) -> list[Result]:
    """Those of the named scenarios that have been measured."""
    paths = (folder / f"{name}.json" for name in names)
    return [Result.from_json(path.read_text()) for path in paths if path.exists()]


def _rounded(value: Any) -> Any:
    """Four digits say more than enough of any measurement."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
