"""Kafka's command-line tools, as far as health checks and start scripts use them.

Files that were written for Kafka's images call these by name, so the image has them under the same
names; here their words become those of `odradek`. An option that is not known is refused: a tool
that did only half of what was asked would be worse than none. Pure.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

Words = list[str]


class UnknownWords(ValueError):
    """What was asked of a tool cannot be said to `odradek`."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UnknownWords(message)


def translated(tool: str, words: Sequence[str]) -> Words:
    """The words for `odradek` that do what `tool` does with its own. Raises UnknownWords."""
    translate = TOOLS.get(tool.removesuffix(".sh"))
    if translate is None:
        raise UnknownWords(f"there is no {tool} here; there are {', '.join(TOOLS)}")
    return translate(words)


def _parser(tool: str, *servers: str) -> _Parser:
    parser = _Parser(prog=tool, add_help=False)
    parser.add_argument("--bootstrap-server", *servers, dest="servers", required=True)
    return parser


def _topics(words: Sequence[str]) -> Words:
    parser = _parser("kafka-topics")
    verbs = parser.add_mutually_exclusive_group(required=True)
    for verb in ("list", "create", "describe", "alter", "delete"):
        verbs.add_argument(f"--{verb}", dest="verb", action="store_const", const=verb)
    parser.add_argument("--topic")
    parser.add_argument("--partitions")
    parser.add_argument("--replication-factor")
    parser.add_argument("--config", action="append", default=[])
    for flag in ("if-not-exists", "exclude-internal"):
        parser.add_argument(f"--{flag}", action="store_true")
    asked = parser.parse_args(words)
    if asked.verb in ("create", "alter", "delete") and asked.topic is None:
        raise UnknownWords(f"--{asked.verb} needs a --topic")
    if asked.verb == "list":
        shown = [] if asked.exclude_internal else ["--internal"]
        return ["topic", "list", *shown, "-b", asked.servers]
    return ["topic", asked.verb, *_named_topic(asked), "-b", asked.servers]


def _named_topic(asked: argparse.Namespace) -> Iterator[str]:
    if asked.topic is not None:
        yield asked.topic
    if asked.verb in ("create", "alter"):
        yield from _option("-p", asked.partitions)
        for config in asked.config:
            yield from _option("-c", config)
    if asked.verb == "create":
        yield from _option("-r", asked.replication_factor)
        if asked.if_not_exists:
            yield "--if-not-exists"


def _api_versions(words: Sequence[str]) -> Words:
    return ["api-versions", "-b", _parser("kafka-broker-api-versions").parse_args(words).servers]


def _console_producer(words: Sequence[str]) -> Words:
    parser = _parser("kafka-console-producer", "--broker-list")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--property", action="append", default=[])
    asked = parser.parse_args(words)
    properties = dict(text.partition("=")[::2] for text in asked.property)
    unknown = properties.keys() - {"parse.key", "key.separator"}
    if unknown:
        raise UnknownWords(f"--property {min(unknown)} is not known")
    by_key = properties.get("parse.key") == "true"
    delimiter = properties.get("key.separator", "\t") if by_key else None
    return ["produce", asked.topic, *_option("-K", delimiter), "-b", asked.servers]


def _console_consumer(words: Sequence[str]) -> Words:
    parser = _parser("kafka-console-consumer")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--from-beginning", action="store_true")
    parser.add_argument("--max-messages")
    parser.add_argument("--group")
    parser.add_argument("--partition")
    asked = parser.parse_args(words)
    where = [] if asked.group else ["-o", "beginning" if asked.from_beginning else "end"]
    return [
        *("consume", asked.topic, "--follow", *where, *_option("-n", asked.max_messages)),
        *(*_option("-g", asked.group), *_option("-p", asked.partition), "-b", asked.servers),
    ]


def _option(name: str, value: str | None) -> Words:
    return [] if value is None else [name, value]


TOOLS: Final[dict[str, Callable[[Sequence[str]], Words]]] = {
    "kafka-topics": _topics,
    "kafka-broker-api-versions": _api_versions,
    "kafka-console-producer": _console_producer,
    "kafka-console-consumer": _console_consumer,
}
