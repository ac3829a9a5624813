"""What every verb of the command line needs: failures in a sentence, a directory that goes away."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import click

_EXIT_UNUSABLE: Final = 2

busy_poll_option: Final = click.option(
    "--busy-poll-us",
    type=click.IntRange(0, 10_000),
    default=200,
    show_default=True,
    envvar="ODRADEK_BUSY_POLL_US",
    show_envvar=True,
    help="Microseconds to look for the next request before sleeping; 0 never does.",
)


@contextmanager
def failures_in_a_sentence() -> Iterator[None]:
    from odradek.broker.failures import CannotStart
    from odradek.broker.network.acceptor import CannotListen
    from odradek.protocol.settings import SettingsError

    try:
        yield
    except SettingsError as error:
        give_up(" ".join(f"{problem.rstrip('.')}." for problem in error.problems))
    except (CannotStart, CannotListen) as error:
        give_up(str(error))


@contextmanager
def nothing_is_garbage() -> Iterator[None]:
    """Around imports: what they make stays for good, and looking through it takes a tenth of the
    time to start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def temporary_directory() -> Iterator[Path]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="odradek-") as path:
        yield Path(path)


@contextmanager
def profiled(path: Path | None) -> Iterator[None]:
    """Keep what every function cost, for `python -m pstats PATH`; without a path, nothing."""
    if path is None:
        yield
        return
    from cProfile import Profile

    profile = Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(path)


def give_up(sentence: str) -> NoReturn:
    click.echo(f"odradek: {sentence}", err=True)
    sys.exit(_EXIT_UNUSABLE)
