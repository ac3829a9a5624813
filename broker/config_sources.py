"""Where an operator's settings are written: options, environment variables, a properties file.

Options stand before the environment, the environment before the file. The file has the syntax of
Java's properties: `key=value`, `key: value` or `key value`, comments after `#` or `!`, a
backslash at the end continues the line, and backslash escapes, `\\uXXXX` among them; it is UTF-8.
A variable is called after its setting as in Kafka's container image: `KAFKA_` and the name in
capitals, with `_` for `.`, `__` for `_` and `___` for `-`; `KAFKA_CFG_` will do as well.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from odradek.broker.config import BrokerConfig, Given
from odradek.protocol.settings import SettingsError

# Variables of Kafka's scripts and images that begin alike and are no settings.
_NO_SETTING = re.compile(
    r"KAFKA_(.*_OPTS|(TOOLS_)?LOG4J_.*|JMX_.*|HOME|DEBUG|VERSION|MODE|KRAFT_CLUSTER_ID)"
)
_SEPARATORS = {"_": ".", "__": "_", "___": "-"}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load(
    *, file: Path | None, environment: Mapping[str, str], options: Iterable[str] = ()
) -> BrokerConfig:
    """The configuration from all places. Raises SettingsError with every problem found."""
    static = {} if file is None else from_file(file)
    return BrokerConfig({**static, **from_environment(environment), **from_options(options)})


def from_options(options: Iterable[str]) -> dict[str, Given]:
    """Each option is `name=value`, as it stands after `-o` on the command line."""
    given: dict[str, Given] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name.strip():
            raise SettingsError([f"The option -o {option} must have the form name=value"])
        given[name.strip()] = Given(text, "option -o")
    return given


def from_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    # The longer prefix first: where a setting is written in both ways, the shorter one stands.
    for prefix in ("KAFKA_CFG_", "KAFKA_"):
        for variable, text in environment.items():
            if not variable.startswith(prefix) or _NO_SETTING.fullmatch(variable):
                continue
            if prefix == "KAFKA_" and variable.startswith("KAFKA_CFG_"):
                continue
            given[setting_name(variable.removeprefix(prefix))] = Given(text, variable)
    return given


def setting_name(variable: str) -> str:
    """The setting that the rest of a variable's name stands for."""
    return re.sub("_{1,3}", lambda match: _SEPARATORS[match[0]], variable).lower()


def from_file(file: Path) -> dict[str, Given]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"The configuration file {file} cannot be read: {error}"]) from error
    return {
        name: Given(value, f"{file.name} line {line}")
        for name, value, line in parse_properties(text)
    }


def parse_properties(text: str) -> Iterator[tuple[str, str, int]]:
    """(key, value, line number) of every property in the text, in its order."""
    for line, number in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", line, re.DOTALL)
        assert match is not None, "the pattern matches the empty text"
        yield _unescape(match[1], number), _unescape(line[match.end() :], number), number


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines joined with those that continue them, without comments and empty ones."""
    joined = ""
    begins = 0
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        line = line.lstrip(" \t\f")
        if not joined:
            begins = number
            if not line or line[0] in "#!":
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        yield joined + line, begins
        joined = ""
    if joined:
        yield joined, begins


def _unescape(text: str, line: int) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise SettingsError([f"Line {line} of the properties has a malformed \\uXXXX escape"])
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", replaced, text, flags=re.DOTALL)
