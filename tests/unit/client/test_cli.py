"""What all verbs of the command line have in common: examples, options, completion, progress."""

from collections.abc import Iterator

import click
import pytest
from click.shell_completion import ShellComplete
from odradek.broker.main import main
from odradek.client.cli import VERBS
from odradek.client.cli_output import Progress, progress_line
from odradek.protocol.clock import ManualClock

LOCAL = ("dump-log",)


def verbs(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from verbs(inner, (*path, name))


def all_verbs() -> dict[str, click.Command]:
    context = click.Context(main)
    found: dict[str, click.Command] = {}
    for name in (*VERBS, *LOCAL):
        command = main.get_command(context, name)
        assert command is not None
        found.update(verbs(command, (name,)))
    return found


@pytest.mark.parametrize("path", all_verbs())
def test_the_help_of_every_verb_shows_how_it_is_used(path: str) -> None:
    command = all_verbs()[path]
    text = command.get_help(click.Context(command, info_name=path))
    assert f"  odradek {path}" in text or f"| odradek {path}" in text


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, command in all_verbs().items()
        if not isinstance(command, click.Group) and path not in LOCAL
    ],
)
def test_every_verb_is_told_where_the_cluster_is_and_prints_json(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = all_verbs()[path]
    options = {name: option for option in command.params for name in option.opts}
    assert "--json" in options
    assert options["-b"] is options["--bootstrap-server"]
    context = click.Context(command)
    assert options["-b"].get_default(context) == "localhost:9092"
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", "elsewhere:9092")
    assert options["-b"].value_from_envvar(context) == "elsewhere:9092"


@pytest.mark.parametrize(
    ("words", "begun", "offered"),
    [
        ((), "to", ["topic"]),
        ((), "con", ["consume", "config", "container"]),
        (("topic",), "d", ["delete", "describe"]),
        (("consume",), "--off", ["--offset"]),
        (("serve",), "--data", ["--data-dir"]),
    ],
)
def test_a_shell_completes_verbs_and_options(
    words: tuple[str, ...], begun: str, offered: list[str]
) -> None:
    shell = ShellComplete(main, {}, "odradek", "_ODRADEK_COMPLETE")
    found = [item.value for item in shell.get_completions(list(words), begun)]
    assert found == offered


def test_a_bar_grows_where_the_end_is_known() -> None:
    assert progress_line("sent", 1500, None, 750.0) == "sent 1,500 records, 750/s"
    half = "[" + "#" * 15 + "-" * 15 + "]  50% read 5 records, 2/s"
    assert progress_line("read", 5, 10, 2.0) == half
    assert progress_line("read", 12, 10, 2.0).startswith("[" + "#" * 30 + "] 100%")


@pytest.mark.parametrize(
    ("is_terminal", "is_printing", "is_shown"),
    [(True, False, True), (True, True, False), (False, False, False)],
    ids=["a terminal", "records on the terminal", "a pipe"],
)
def test_progress_is_shown_to_who_watches_and_never_among_records(
    is_terminal: bool,
    is_printing: bool,
    is_shown: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    clock = ManualClock()
    progress = Progress("sent", clock, 4, is_printing=is_printing)
    for _ in range(4):
        clock.advance(500)
        progress.step()
    progress.end()
    shown = capsys.readouterr().err
    assert ("100% sent 4 records, 2/s" in shown) is is_shown
    assert bool(shown) is is_shown
