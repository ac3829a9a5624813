"""Plots as SVG, drawn by hand: groups of columns with their spread, and lines over time.

Only what the report needs: a white ground, one axis, a legend. The text is the reader's own font.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 820, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 56, 58
COLORS = ("#1b6ca8", "#c0392b", "#e08e0b", "#5b8c5a", "#8e6c8a", "#555555")
_TICKS = 5
_LABEL_COLUMNS = 20


class Column(NamedTuple):
    value: float
    least: float
    most: float


Series = Mapping[str, Sequence[Column | None]]


def columns(title: str, groups: Sequence[str], series: Series) -> str:
    """A group of columns for each name; a peer that has no reading there leaves a gap."""
    found = [column for each in series.values() for column in each if column is not None]
    scale = _Scale(max((column.most for column in found), default=1.0))
    room = (WIDTH - LEFT - RIGHT) / max(1, len(groups))
    width = min(46.0, room * 0.8 / max(1, len(series)))
    parts = [*_frame(title, list(series), scale)]
    for number, group in enumerate(groups):
        middle = LEFT + room * (number + 0.5)
        parts.append(_group_label(middle, group))
        start = middle - width * len(series) / 2
        for place, (color, each) in enumerate(zip(COLORS, series.values(), strict=False)):
            column = each[number]
            if column is not None:
                parts.append(_column(start + place * width, width, column, color, scale))
    return _document(parts)


def lines(title: str, x_title: str, series: Mapping[str, Sequence[float]]) -> str:
    """One line for each name, a value for each step."""
    longest = max((len(each) for each in series.values()), default=1)
    scale = _Scale(max((max(each) for each in series.values() if each), default=1.0))
    step = (WIDTH - LEFT - RIGHT) / max(1, longest - 1)
    parts = [*_frame(title, list(series), scale)]
    for color, each in zip(COLORS, series.values(), strict=False):
        points = " ".join(f"{LEFT + n * step:.1f},{scale.y(v):.1f}" for n, v in enumerate(each))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
    every = max(1, longest // 10)
    parts += [
        _text(LEFT + number * step, HEIGHT - BOTTOM + 16, str(number), "middle")
        for number in range(0, longest, every)
    ]
    parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - BOTTOM + 36, x_title, "middle"))
    return _document(parts)


def nice_step(most: float, ticks: int = _TICKS) -> float:
    """The smallest of 1, 2, 5, 10 … that reaches `most` in so many steps."""
    if most <= 0:
        return 1.0
    power = 10.0 ** floor(log10(most / ticks))
    return next(step * power for step in (1, 2, 5, 10) if step * power * ticks >= most * 0.9999)


class _Scale:
    def __init__(self, most: float) -> None:
        self.step = nice_step(most)
        self.ticks = max(1, ceil(most / self.step * 0.9999))
        self.top = self.step * self.ticks

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.top


def short(value: float) -> str:
    """A figure as a person would say it."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _frame(title: str, names: Sequence[str], scale: _Scale) -> Iterator[str]:
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    yield _text(LEFT, 20, title, "start", size=14)
    x = float(LEFT)
    for name, color in zip(names, COLORS, strict=False):
        yield f'<rect x="{x:.0f}" y="30" width="11" height="11" fill="{color}"/>'
        yield _text(x + 16, 40, name, "start")
        x += 34 + 7 * len(name)
    for tick in range(scale.ticks + 1):
        value = scale.step * tick
        y = scale.y(value)
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
        yield _text(LEFT - 6, y + 4, short(value), "end")


def _column(x: float, width: float, column: Column, color: str, scale: _Scale) -> str:
    top, bottom = scale.y(column.value), scale.y(0)
    middle = x + width / 2
    bar = (
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{width - 2:.1f}" height="{bottom - top:.1f}" '
        f'fill="{color}"/>'
    )
    spread = (
        f'<path d="M{middle - 1:.1f} {scale.y(column.most):.1f}V{scale.y(column.least):.1f}" '
        f'stroke="#222222"/>'
    )
    label_y = scale.y(max(column.value, column.most)) - 4
    label = _text(middle, label_y, short(column.value), "middle", size=9) if width > 18 else ""
    return bar + spread + label


def _group_label(middle: float, group: str) -> str:
    rows = fold(group)
    top = HEIGHT - BOTTOM + 16
    return "".join(_text(middle, top + 13 * n, row, "middle") for n, row in enumerate(rows))


def fold(text: str, columns: int = _LABEL_COLUMNS) -> list[str]:
    """Break at spaces, so that no row is longer than it must be."""
    rows: list[str] = []
    for word in text.split():
        if rows and len(rows[-1]) + 1 + len(word) <= columns:
            rows[-1] += f" {word}"
        else:
            rows.append(word)
    return rows


def _text(x: float, y: float, text: str, anchor: str, size: int = 11) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="#222222">{escape(text)}</text>'


def _document(parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"
