"""A piece of Python source being written by the compiler: lines, and the values they name."""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from odradek.protocol.primitives import Vectors


class Source:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._structs: dict[str, str] = {}
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        start = len(self._lines)
        yield
        if len(self._lines) == start:
            self.line("pass")
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable name used nowhere else in this source."""
        self._count += 1
        return f"{stem}{self._count}"

    def bind(self, name: str, value: Any) -> str:
        self.names[name] = value
        return name

    def struct(self, format_: str, method: str) -> str:
        """The name of a bound method of the big-endian Struct of this format."""
        name = f"{method}_{format_.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(Struct(">" + format_), method)
        return name

    def vectors(self, prefix: str, code: str, method: str) -> str:
        """The name of the Vectors of this format."""
        name = f"{method}_{prefix}_{code}s".replace("?", "o")
        if name not in self.names:
            self.names[name] = Vectors(prefix, code, method)
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
