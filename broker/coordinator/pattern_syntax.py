"""The syntax of RE2, in which consumers say what topics they want, read into a tree.

What backtracking alone can do (references to groups, looking ahead or behind, possessive
repetition) is no part of RE2 and refused, as Kafka refuses it.

Topic names have an alphabet of 65 characters. Therefore a character of a pattern, however it is
written, is read as the set of those of the alphabet that it stands for: a literal that no topic
name can have is an empty set.
"""

import re
from dataclasses import dataclass
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits
from typing import Final, TypeAlias
from unicodedata import category

ALPHABET: Final = frozenset(f"{ascii_letters}{digits}._-")
WORD: Final = ALPHABET - frozenset(".-")

MAX_REPEAT: Final = 1000
_MAX_DEPTH: Final = 100

_PERL_CLASSES: Final = {"d": frozenset(digits), "w": WORD, "s": frozenset[str]()}
_POSIX_CLASSES: Final = {
    "alnum": frozenset(ascii_letters + digits),
    "alpha": frozenset(ascii_letters),
    "ascii": ALPHABET,
    "blank": frozenset[str](),
    "cntrl": frozenset[str](),
    "digit": frozenset(digits),
    "graph": ALPHABET,
    "lower": frozenset(ascii_lowercase),
    "print": ALPHABET,
    "punct": frozenset("._-"),
    "space": frozenset[str](),
    "upper": frozenset(ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(digits + "abcdefABCDEF"),
}
_SCRIPTS: Final = {"Latin": frozenset(ascii_letters), "Common": ALPHABET - set(ascii_letters)}
_CATEGORIES: Final = "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So"
_UNICODE_CLASSES: Final = _SCRIPTS | {
    name: frozenset(c for c in ALPHABET if category(c).startswith(name))
    for name in f"{_CATEGORIES} Z Zs Zl Zp C Cc Cf Co Cs".split()
}
_CONTROLS: Final = dict(zip("afnrtv", "\a\f\n\r\t\v", strict=True))

_REPEAT: Final = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_HEX: Final = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_OCTAL: Final = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_UNICODE: Final = re.compile(r"[pP](?:\{(\^?)([A-Za-z_]+)\}|([A-Za-z]))")
_POSIX: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_NAME: Final = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")


class PatternError(ValueError):
    """The text is no regular expression; says why."""


@dataclass(frozen=True, slots=True)
class One:
    """One character of these."""

    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Edge:
    """A place between characters: `^`, `$`, `b` between word and other, or `B` elsewhere."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    node: "Node"
    least: int
    most: int | None


Node: TypeAlias = One | Edge | Sequence | Choice | Repeat


def parse(pattern: str) -> Node:
    """The tree of a pattern. Raises PatternError."""
    parser = _Parser(pattern)
    node = parser.choice(0)
    if parser.at < len(pattern):
        raise PatternError("unexpected )")
    return node


class _Parser:
    """Reads from left to right; `at` is the place in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._ignores_case = False
        self._names: set[str] = set()

    def _takes(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        if found:
            self.at += len(word)
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    # Structure ------------------------------------------------------------------------------

    def choice(self, depth: int) -> Node:
        """Everything up to the end, or to the parenthesis that closes it."""
        if depth > _MAX_DEPTH:
            raise PatternError("expression nests too deeply")
        options = [self._sequence(depth)]
        while self._takes("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        # Whether the last part can be repeated: a repetition by itself cannot.
        can_repeat = False
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            bounds = self._repetition()
            if bounds is None:
                before = len(parts)
                parts.extend(self._atom(depth))
                can_repeat = can_repeat if len(parts) == before else True
            elif can_repeat:
                parts[-1] = Repeat(parts[-1], *bounds)
                can_repeat = False
            else:
                raise PatternError(
                    "invalid nested repetition operator"
                    if parts
                    else "missing argument to repetition operator"
                )
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repetition(self) -> tuple[int, int | None] | None:
        """How often the part before is repeated, if that is said here."""
        bounds: tuple[int, int | None]
        if self._takes("*"):
            bounds = 0, None
        elif self._takes("+"):
            bounds = 1, None
        elif self._takes("?"):
            bounds = 0, 1
        elif (found := self._match(_REPEAT)) is not None:
            least, has_most, most = int(found[1]), found[2], found[3]
            bounds = least, (least if not has_most else int(most) if most else None)
            largest = least if bounds[1] is None else bounds[1]
            if not least <= largest <= MAX_REPEAT:
                raise PatternError("invalid repeat count")
        else:
            return None
        self._takes("?")  # which match is preferred makes no difference for whether there is one
        return bounds

    def _atom(self, depth: int) -> list[Node]:
        """What stands here: mostly one node, none for flags, several for quoted text."""
        if self.text.startswith("(", self.at):
            return self._group(depth)
        if self.text.startswith("[", self.at):
            self.at += 1
            return [One(self._class())]
        if self._takes("."):
            return [One(ALPHABET)]
        for text, kind in (("^", "^"), ("$", "$"), (r"\A", "^"), (r"\z", "$")):
            if self._takes(text):
                return [Edge(kind)]
        for text in (r"\b", r"\B"):
            if self._takes(text):
                return [Edge(text[1])]
        if self._takes(r"\Q"):
            return [self._literal(character) for character in self._quoted()]
        if self._takes(r"\C"):
            return [One(ALPHABET)]
        if self._takes("\\"):
            return [One(self._escape())]
        self.at += 1
        return [self._literal(self.text[self.at - 1])]

    def _quoted(self) -> str:
        end = self.text.find(r"\E", self.at)
        end = len(self.text) if end < 0 else end
        quoted = self.text[self.at : end]
        self.at = min(len(self.text), end + 2)
        return quoted

    def _group(self, depth: int) -> list[Node]:
        outer = self._ignores_case
        if (found := self._match(_FLAGS)) is not None and found.end() - found.start() > 3:
            self._set_flags(found[1], found[2] or "")
            if found[3] == ")":
                return []
        elif found is not None:
            if found[3] == ")":
                raise PatternError("invalid or unsupported Perl syntax")
        elif (named := self._match(_NAME)) is not None:
            if named[1] in self._names:
                raise PatternError("duplicate capture group name")
            self._names.add(named[1])
        elif self.text.startswith("(?", self.at):
            raise PatternError("invalid or unsupported Perl syntax")
        else:
            self.at += 1
        node = self.choice(depth + 1)
        if not self._takes(")"):
            raise PatternError("missing closing )")
        self._ignores_case = outer
        return [node]

    def _set_flags(self, on: str, off: str) -> None:
        """Of the flags only `i` matters: a name has no line ends, and no match is preferred."""
        if "i" in on:
            self._ignores_case = True
        if "i" in off:
            self._ignores_case = False

    # Characters -----------------------------------------------------------------------------

    def _literal(self, character: str) -> One:
        return One(self._folded(frozenset(character)))

    def _folded(self, characters: frozenset[str]) -> frozenset[str]:
        if self._ignores_case:
            characters |= {c.upper() for c in characters} | {c.lower() for c in characters}
        return characters & ALPHABET

    def _escape(self) -> frozenset[str]:
        """Behind a backslash, outside of a class or inside."""
        if self.at >= len(self.text):
            raise PatternError("trailing backslash at end of expression")
        if (named := self._match(_UNICODE)) is not None:
            return self._unicode(named)
        letter = self.text[self.at]
        if letter.lower() in _PERL_CLASSES:
            self.at += 1
            found = _PERL_CLASSES[letter.lower()]
            return ALPHABET - found if letter.isupper() else found
        return self._folded(frozenset(self._escaped_character()))

    def _escaped_character(self) -> str:
        if (found := self._match(_HEX)) is not None:
            code = int(found[1] or found[2], 16)
            if code > 0x10FFFF:
                raise PatternError("invalid escape sequence")
            return chr(code)
        if (found := self._match(_OCTAL)) is not None:
            return chr(int(found[0], 8))
        letter = self.text[self.at]
        self.at += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter.isascii() and not letter.isalnum():
            return letter
        raise PatternError("invalid escape sequence")

    def _unicode(self, named: re.Match[str]) -> frozenset[str]:
        name = named[2] or named[3]
        if name != "Any" and name not in _UNICODE_CLASSES:
            raise PatternError("invalid character class range")
        found = ALPHABET if name == "Any" else _UNICODE_CLASSES[name]
        is_negated = (named[0][0] == "P") != bool(named[1])
        return ALPHABET - found if is_negated else self._folded(found)

    # Classes --------------------------------------------------------------------------------

    def _class(self) -> frozenset[str]:
        """Behind the opening bracket."""
        is_negated = self._takes("^")
        found: set[str] = set()
        is_first = True
        while is_first or not self._takes("]"):
            if self.at >= len(self.text):
                raise PatternError("missing closing ]")
            is_first = False
            found |= self._class_part()
        characters = self._folded(frozenset(found))
        return ALPHABET - characters if is_negated else characters

    def _class_part(self) -> frozenset[str]:
        if (posix := self._match(_POSIX)) is not None:
            if posix[2] not in _POSIX_CLASSES:
                raise PatternError("invalid character class range")
            named = _POSIX_CLASSES[posix[2]]
            return ALPHABET - named if posix[1] else named
        if self._is_named_class():
            self.at += 1
            return self._escape()
        first = self._class_character()
        is_range = self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at)
        if not is_range:
            return frozenset(first)
        self.at += 1
        if self.at >= len(self.text):
            raise PatternError("missing closing ]")
        last = self._class_character()
        if last < first:
            raise PatternError("invalid character class range")
        return self._folded_range(first, last)

    def _folded_range(self, first: str, last: str) -> frozenset[str]:
        inside = {c for c in ALPHABET if first <= c <= last}
        if self._ignores_case:
            inside |= {c for c in ALPHABET if first <= c.swapcase() <= last}
        return frozenset(inside)

    def _is_named_class(self) -> bool:
        return self.text.startswith("\\", self.at) and self.text[self.at + 1 : self.at + 2] in set(
            "dDwWsSpP"
        )

    def _class_character(self) -> str:
        if self._takes("\\"):
            if self.at >= len(self.text):
                raise PatternError("trailing backslash at end of expression")
            return self._escaped_character()
        self.at += 1
        return self.text[self.at - 1]
