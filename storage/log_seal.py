"""The seal of a finished copy: a small file that decides between two directories of one partition.

A log moves to another log directory by being copied there under a name of its own, which is then
changed to the partition's; only after that name is durable does the old directory lose its own.
A crash in between leaves both, and they look alike. So a copy is sealed before it takes the name:
of two directories the one with the seal is the log, and the other is what was left behind. The
seal is broken, durably, once the old directory has another name.
"""

from odradek.storage.checkpoints import replace_file
from odradek.storage.files import Files

SEAL = "replica-moved"


def seal(files: Files, directory: str) -> None:
    """Durable on return. Safe in a thread."""
    replace_file(files, f"{directory}/{SEAL}", b"")


def is_sealed(files: Files, directory: str) -> bool:
    return files.exists(f"{directory}/{SEAL}")


def break_seal(files: Files, directory: str) -> None:
    """Durable on return; nothing happens when there is none. Safe in a thread."""
    if not is_sealed(files, directory):
        return
    try:
        files.remove(f"{directory}/{SEAL}")
        files.sync_dir(directory)
    except FileNotFoundError:
        return  # the partition was deleted meanwhile
