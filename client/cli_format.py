r"""Format strings for records, as kcat has them, and offsets as people write them.

    %t topic  %p partition  %o offset  %T timestamp (ms)  %k key  %s value  %h headers
    %K length of the key  %S length of the value (-1: null)  %% a percent sign
    \n \t \r \0 \\ and \xHH as usual

Pure; unknown letters are refused when the string is read, not when the first record comes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from odradek.client.values import ConsumerRecord

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|([%\\])$", re.DOTALL)

Piece = Callable[[ConsumerRecord], bytes]


class FormatError(ValueError):
    """A format or an offset that cannot be read."""


def compile_format(text: str, null: bytes = b"") -> Callable[[ConsumerRecord], bytes]:
    """The function that writes a record so; `null` stands for a key or value that is not there."""

    def content(value: object) -> bytes:
        if value is None:
            return null
        return value if isinstance(value, bytes) else str(value).encode()

    fields: dict[str, Piece] = {
        "t": lambda r: r.topic.encode(),
        "p": lambda r: b"%d" % r.partition,
        "o": lambda r: b"%d" % r.offset,
        "T": lambda r: b"%d" % r.timestamp_ms,
        "k": lambda r: content(r.key),
        "s": lambda r: content(r.value),
        "K": lambda r: b"%d" % _length(r.key),
        "S": lambda r: b"%d" % _length(r.value),
        "h": lambda r: b",".join(name.encode() + b"=" + content(v) for name, v in r.headers),
    }
    pieces: list[Piece] = []
    for match in _TOKEN.finditer(text):
        letter, code, escape, plain, dangling = match.groups()
        if dangling or (letter and letter not in fields and letter != "%"):
            raise FormatError(f"{match[0]!r} in the format means nothing")
        if escape and escape not in _ESCAPES:
            raise FormatError(f"{match[0]!r} in the format means nothing")
        if letter and letter != "%":
            pieces.append(fields[letter])
        else:
            fixed = (
                b"%"
                if letter
                else bytes.fromhex(code)
                if code
                else _ESCAPES[escape]
                if escape
                else plain.encode()
            )
            pieces.append(_always(fixed))
    return lambda record: b"".join([piece(record) for piece in pieces])


def _always(fixed: bytes) -> Piece:
    return lambda record: fixed


def _length(content: object) -> int:
    return len(content) if isinstance(content, bytes) else -1


def unescape(text: str) -> str:
    r"""What \t, \n and their kind stand for, in a delimiter."""

    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPES:
            raise FormatError(f"{match[0]!r} means nothing")
        return _ESCAPES[match[2]].decode()

    return re.sub(r"\\(?:x([0-9a-fA-F]{2})|(.))", plain, text, flags=re.DOTALL)


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: an offset, so many before the end, a time, or an end of the log."""

    offset: int | None = None
    before_end: int | None = None
    timestamp_ms: int | None = None
    at_end: bool = False


def parse_start(text: str) -> Start:
    """beginning, end, @TIMESTAMP_MS, an offset, or -N for N before the end."""
    if text in ("beginning", "earliest"):
        return Start()
    if text in ("end", "latest"):
        return Start(at_end=True)
    try:
        if text.startswith("@"):
            return Start(timestamp_ms=int(text[1:]))
        number = int(text)
    except ValueError:
        message = f"{text!r} is none of beginning, end, @timestamp, N, -N"
        raise FormatError(message) from None
    return Start(before_end=-number) if number < 0 else Start(offset=number)
