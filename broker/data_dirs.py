"""A last look before a directory is taken for a broker's: whose files are in it?

A directory with somebody else's files is refused: most likely the path is a mistake, and a broker
deletes what it takes for old data. Raises CannotStart.
"""

import re
from collections.abc import Iterable
from typing import Final

from odradek.broker.failures import CannotStart
from odradek.storage.files import Files

_META: Final = "meta.properties"
# What a broker, ours or Kafka's, leaves in a log directory beside the directories of partitions.
_OWN_NAMES: Final = re.compile(
    r"\.lock|\.kafka_cleanshutdown|lost\+found|meta\.properties.*|metadata\.db.*"
    r"|[a-z-]+-checkpoint(\.tmp)?|.+-\d+(\..+)?|.+\.[0-9a-zA-Z_-]+-(delete|future|stray)"
)


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
