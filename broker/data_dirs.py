"""Taking directories into use: locked before anything in them is read, and then looked at.

A directory with somebody else's files is refused: most likely the path is a mistake, and a broker
deletes what it takes for old data. Raises CannotStart.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from odradek.broker.failures import CannotStart
from odradek.storage.directory import LogDirectory
from odradek.storage.files import Files
from odradek.storage.properties_files import MetaProperties, read_meta

_META: Final = "meta.properties"
# What a broker, ours or Kafka's, leaves in a log directory beside the directories of partitions.
_OWN_NAMES: Final = re.compile(
    r"\.lock|\.kafka_cleanshutdown|lost\+found|meta\.properties.*|metadata\.db.*"
    r"|[a-z-]+-checkpoint(\.tmp)?|.+-\d+(\..+)?|.+\.[0-9a-zA-Z_-]+-(delete|future|stray)"
)


def lock_all(
    directories: Iterable[LogDirectory], files: Files, undo: list[Callable[[], object]]
) -> MetaProperties:
    """Lock them, adding to `undo` what gives them back; gives what they say of their broker."""
    known = MetaProperties(None, None, None)
    for directory in directories:
        try:
            directory.lock()
        except OSError as error:
            raise CannotStart(
                f"The data directory {directory.path} cannot be used: {error.strerror}."
            ) from error
        undo.append(directory.unlock)
        known = read_meta(files, directory.path) or known
    refuse_foreign([directory.path for directory in directories], files)
    return known


def refuse_foreign(paths: Iterable[str], files: Files) -> None:
    for path in paths:
        names = [entry.name for entry in files.scan(path)]
        if _META in names:
            continue
        for name in names:
            if not _OWN_NAMES.fullmatch(name):
                raise CannotStart(
                    f"The data directory {path} holds {name!r}, which is no broker's: "
                    "choose an empty directory."
                )
