"""Regular expressions over topic names: whether a name as a whole is what a pattern describes.

The tree of a pattern becomes a machine with many states at once, and sets of its states become, as
they are met, the states of a machine with one: matching takes time in proportion to the name,
whatever the pattern. So no client can stop a broker with a pattern.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

from odradek.broker.coordinator.pattern_syntax import (
    WORD,
    Choice,
    Edge,
    Node,
    One,
    PatternError,
    Repeat,
    Sequence,
    parse,
)

# Of the machine with many states; of the one with one, more than that are forgotten again.
_MAX_STATES: Final = 2000
_MAX_BUILT: Final = 20 * _MAX_STATES
_MAX_KNOWN: Final = 4000

_END: Final = 0
_NOWHERE: Final = -1


class _Machine:
    """Numbered states: one character and the next state, or an edge and the next, or several."""

    def __init__(self, node: Node) -> None:
        self.characters: list[frozenset[str] | None] = [None]
        self.edges: list[str | None] = [None]
        self.nexts: list[tuple[int, ...]] = [()]
        self._built = 0
        self.start = self._build(node, _END)

    def _add(
        self,
        *nexts: int,
        characters: frozenset[str] | None = None,
        edge: str | None = None,
    ) -> int:
        if len(self.nexts) >= _MAX_STATES:
            raise PatternError("expression too large")
        self.characters.append(characters)
        self.edges.append(edge)
        self.nexts.append(nexts)
        return len(self.nexts) - 1

    def _build(self, node: Node, then: int) -> int:
        """The state that begins with the node and goes on with `then`."""
        self._built += 1
        if self._built > _MAX_BUILT:  # repetitions of nothing make no states, only work
            raise PatternError("expression too large")
        match node:
            case One(characters):
                return self._add(then, characters=characters)
            case Edge(kind):
                return self._add(then, edge=kind)
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._build(part, then)
                return then
            case Choice(options):
                return self._add(*[self._build(option, then) for option in options])
            case Repeat():
                return self._build_repeat(node, then)

    def _build_repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            again = self._add(_NOWHERE)
            self.nexts[again] = (self._build(node.node, again), then)
            then = again
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._add(self._build(node.node, then), end)
        for _ in range(node.least):
            then = self._build(node.node, then)
        return then


class _Step:
    """Where the machine is before a character: its states, and what came before."""

    __slots__ = ("accepts", "before", "moves", "states")

    def __init__(self, states: frozenset[int], before: str) -> None:
        self.states = states
        self.before = before
        self.moves: dict[str, _Step] = {}
        self.accepts: bool | None = None


_NO_CHARACTER: Final = ""


class TopicPattern:
    def __init__(self, text: str) -> None:
        """Raises PatternError when the text is no regular expression."""
        self._machine = _Machine(parse(text))
        self._known: dict[tuple[frozenset[int], bool], _Step] = {}
        self._first = _Step(frozenset((self._machine.start,)), _NO_CHARACTER)

    def matches(self, name: str) -> bool:
        step = self._first
        for character in name:
            following = step.moves.get(character)
            if following is None:
                following = step.moves[character] = self._move(step, character)
            step = following
        if step.accepts is None:
            step.accepts = _END in self._reachable(step, _NO_CHARACTER)
        return step.accepts

    def _move(self, step: _Step, character: str) -> _Step:
        machine = self._machine
        states = frozenset(
            machine.nexts[state][0]
            for state in self._reachable(step, character)
            if character in (machine.characters[state] or ())
        )
        key = states, character in WORD
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
                self._first.moves.clear()
            known = self._known[key] = _Step(states, character)
        return known

    def _reachable(self, step: _Step, after: str) -> set[int]:
        """The states that can be come to without a character, between the two characters."""
        machine = self._machine
        holds = {
            "^": step.before == _NO_CHARACTER,
            "$": after == _NO_CHARACTER,
            "b": (step.before in WORD) != (after in WORD),
        }
        holds["B"] = not holds["b"]
        found: set[int] = set()
        waiting = list(step.states)
        while waiting:
            state = waiting.pop()
            if state in found:
                continue
            found.add(state)
            edge = machine.edges[state]
            if machine.characters[state] is None and (edge is None or holds[edge]):
                waiting.extend(machine.nexts[state])
        return found


@lru_cache(maxsize=256)
def topic_pattern(text: str) -> TopicPattern:
    """Kept, because the members of a group send the same pattern. Raises PatternError."""
    return TopicPattern(text)


def matches_of(patterns: Iterable[str], names: Collection[str]) -> dict[str, frozenset[str]]:
    """The names that each pattern matches; one of another coordinator, not known here, none."""
    found: dict[str, frozenset[str]] = {}
    for text in patterns:
        try:
            pattern = topic_pattern(text)
        except PatternError:
            found[text] = frozenset()
        else:
            found[text] = frozenset(name for name in names if pattern.matches(name))
    return found
