"""The client's verbs of the command line, and what they share. Loaded when a verb is used.

`LazyVerbs` is a click group that knows the verbs by name and imports a verb's module only when it
is called, so that `odradek serve` starts without them. Exit codes: 0 done, 1 the cluster refused,
2 wrong usage, 3 no broker could be reached, 130 interrupted.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from odradek.client.settings import Given

T = TypeVar("T")
C = TypeVar("C", bound="Client")

EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_INTERRUPTED: Final = 130

# Long enough for a broker that is busy, short enough for a person who waits.
TIMEOUT_MS: Final = 15_000
# Nobody there: a broker that is starting may still be a moment late.
CONNECT_S: Final = 3.0

# verb -> (module, its one line of help)
VERBS: Final = {
    "topic": ("odradek.client.cli_topics", "Create, list, describe, alter and delete topics."),
    "group": ("odradek.client.cli_groups", "Look at consumer groups and move their offsets."),
    "produce": ("odradek.client.cli_produce", "Send lines or JSON documents as records."),
    "consume": ("odradek.client.cli_consume", "Print records, formatted as you like."),
    "config": ("odradek.client.cli_configs", "Read and change settings of topics and brokers."),
    "api-versions": ("odradek.client.cli_cluster", "Show which APIs a broker speaks."),
    "health": ("odradek.client.cli_cluster", "Check that a cluster answers and is whole."),
    "bench": ("odradek.client.cli_bench", "Measure what a cluster does for one client."),
}


class LazyVerbs(click.Group):
    """A group with verbs that are imported when they are called, beside its own."""

    verbs: ClassVar[Mapping[str, tuple[str, str]]] = VERBS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self.verbs]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        own = super().get_command(ctx, name)
        if own is not None or name not in self.verbs:
            return own
        command = getattr(import_module(self.verbs[name][0]), name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs, without importing any of them."""
        rows = []
        for name in self.list_commands(ctx):
            own = super().get_command(ctx, name)
            rows.append((name, own.get_short_help_str(80) if own else self.verbs[name][1]))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@dataclass(slots=True)
class Common:
    """The options every verb has."""

    servers: str = "localhost:9092"
    as_json: bool = False
    settings: dict[str, str] = field(default_factory=dict)

    def client(self, **more: "Given") -> "dict[str, Given]":
        """Settings for a client: what the verb wants, under what the user gave."""
        chosen: dict[str, Given] = {"bootstrap.servers": self.servers, "client.id": "odradek-cli"}
        chosen.update((name.replace("_", "."), value) for name, value in more.items())
        chosen.update(self.settings)
        return chosen

    def admin(self) -> "dict[str, Given]":
        return self.client(default_api_timeout_ms=TIMEOUT_MS)


def common_options(command: Callable[..., T]) -> Callable[..., T]:
    """Add -b, --json and -X to a verb; its first parameter is then the `Common`."""

    def with_common(servers: str, as_json: bool, settings: tuple[str, ...], **rest: object) -> T:
        return command(Common(servers, as_json, dict(pair(text) for text in settings)), **rest)

    with_common.__name__ = command.__name__
    with_common.__doc__ = command.__doc__
    if hasattr(command, "__click_params__"):
        with_common.__click_params__ = command.__click_params__  # type: ignore[attr-defined]
    for option in (
        click.option(
            "-X",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="A client setting; repeatable.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "-b",
            "--bootstrap-server",
            "servers",
            envvar="ODRADEK_BOOTSTRAP_SERVER",
            default="localhost:9092",
            show_default=True,
            help="Where the cluster is; also ODRADEK_BOOTSTRAP_SERVER.",
        ),
    ):
        with_common = option(with_common)
    return with_common


class Client(Protocol):
    async def start(self, timeout_s: float | None = None) -> None: ...

    async def close(self) -> None: ...


@asynccontextmanager
async def opened(client: C) -> AsyncIterator[C]:
    """A client for a person: it does not wait long for a cluster that is not there."""
    await client.start(CONNECT_S)
    try:
        yield client
    finally:
        await client.close()


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE taken apart."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def run(work: Coroutine[object, object, T]) -> T:
    """Run a verb's coroutine; failures become one sentence and an exit code."""
    from odradek.protocol.errors import Errors, KafkaError
    from odradek.protocol.settings import SettingsError

    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            return runner.run(work)
    except KafkaError as error:
        unreachable = error.error in (Errors.NETWORK_EXCEPTION, Errors.BROKER_NOT_AVAILABLE)
        sentence = error.message if unreachable and error.message else str(error)
        fail(sentence, EXIT_UNREACHABLE if unreachable else EXIT_REFUSED)
    except SettingsError as error:
        fail("; ".join(error.problems), EXIT_USAGE)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has had enough; nothing more can be said to them.
        sys.stderr.close()
        sys.exit(0)


def _new_loop() -> asyncio.AbstractEventLoop:
    from odradek.client.loop_thread import new_loop

    return new_loop()


def fail(sentence: str, code: int = EXIT_REFUSED) -> NoReturn:
    click.echo(f"odradek: {sentence}", err=True)
    sys.exit(code)
