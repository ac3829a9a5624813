"""Putting rewritten segments in the place of old ones, so that a crash at any point is harmless.

    1  the new files are written completely and synced as NNN.log.cleaned and so on
    2  .cleaned -> .swap, the highest base offset first and each log file last
    3  the old segments -> .deleted
    4  .swap -> no suffix, each log file last

After a crash `complete` reads the state from the names. While a .cleaned log exists, step 2 was
not over: what is .cleaned goes, and so does every .swap at or above it. A .swap log without that
means that step 2 was over: the old segments it covers go and the swap is finished.
"""

import logging
from collections.abc import Iterable, Sequence

from odradek.storage.files import Entry, Files
from odradek.storage.segment import LOG, SEGMENT_FILES, Segment

_log = logging.getLogger(__name__)

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"


def begin(new: Sequence[Segment]) -> None:
    """Step 2. From here on the new segments win."""
    for segment in sorted(new, key=lambda s: s.base_offset, reverse=True):
        segment.rename(SWAP)


def finish(new: Sequence[Segment]) -> None:
    """Step 4."""
    for segment in new:
        segment.rename("")


def drop_unfinished(files: Files, directory: str, entries: Iterable[Entry]) -> None:
    """Remove what a crash left of deletions and of swaps that had not begun to win."""
    names = [entry.name for entry in entries]
    cleaned = [base for name in names if (base := _base(name, CLEANED)) is not None]
    lowest_cleaned = min(cleaned, default=None)
    for name in names:
        swapped = _base(name, SWAP)
        is_unfinished_swap = (
            swapped is not None and lowest_cleaned is not None and swapped >= lowest_cleaned
        )
        if name.endswith((CLEANED, DELETED)) or is_unfinished_swap:
            _log.info("Removing %s/%s, left over by a crash", directory, name)
            files.remove(f"{directory}/{name}")


def swapped_bases(entries: Iterable[Entry]) -> list[int]:
    """The base offsets of segments whose swap has to be finished."""
    suffix = LOG + SWAP
    bases = (_base(entry.name, SWAP) for entry in entries if entry.name.endswith(suffix))
    return sorted(base for base in bases if base is not None)


def complete(files: Files, directory: str, swapped: Segment, old_bases: Iterable[int]) -> None:
    """Steps 3 and 4 for one segment found as .swap; `old_bases` are all segments without suffix."""
    end = max(swapped.next_offset(), swapped.base_offset + 1)
    swapped.release()
    _log.info("Finishing the swap of %s", swapped)
    for base in old_bases:
        if swapped.base_offset <= base < end:
            for kind in SEGMENT_FILES:
                files.remove(f"{directory}/{base:020d}{kind}")
    swapped.rename("")


def _base(name: str, suffix: str) -> int | None:
    """The base offset in a segment file's name that ends with `suffix`."""
    if not name.endswith(suffix):
        return None
    stem, _, kind = name.removesuffix(suffix).partition(".")
    is_segment_file = f".{kind}" in SEGMENT_FILES and len(stem) == 20 and stem.isdigit()
    return int(stem) if is_segment_file else None
