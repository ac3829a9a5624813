"""Finding the segments of a log in its directory, and clearing away what a crash left there.

An index that is missing, ends within an entry or is longer than its log allows is made again;
what else can be wrong with one shows when it is used. Names that mean nothing here are left alone
and logged.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.protocol.errors import KafkaError
from odradek.protocol.records import HEADER_BYTES
from odradek.storage import segment_swap
from odradek.storage.checkpoints import LEADER_EPOCHS
from odradek.storage.files import Entry, Files
from odradek.storage.log_config import LogConfig
from odradek.storage.log_seal import SEAL
from odradek.storage.producer_snapshots import SUFFIX as SNAPSHOT
from odradek.storage.properties_files import PARTITION_METADATA
from odradek.storage.segment import INDEX, LOG, SEGMENT_FILES, TIME_INDEX, TXN_INDEX, Segment

_log = logging.getLogger(__name__)

TEMPORARY = ".tmp"

_NAME = re.compile(r"(\d{20})(\.[a-z]+)(\.[a-z]+)?")
_OTHER_FILES = (LEADER_EPOCHS, PARTITION_METADATA, SEAL)
_ENTRY_BYTES = {INDEX: 8, TIME_INDEX: 12}


class FoundSegment(NamedTuple):
    segment: Segment
    index_problem: str | None
    has_transactions: bool


def load_segments(files: Files, directory: str, config: LogConfig) -> list[FoundSegment]:
    """The segments in a log's directory, in order; none in a new one."""
    entries = _clear_leftovers(files, directory, config)
    found: dict[int, dict[str, Entry]] = {}
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        if match is not None and match[2] in SEGMENT_FILES and not match[3]:
            found.setdefault(int(match[1]), {})[match[2]] = entry
        elif not _is_known(entry.name):
            _log.warning("Ignoring %s/%s: not a file of a log", directory, entry.name)
    segments = []
    for base_offset, kinds in sorted(found.items()):
        if LOG in kinds:
            segment = _segment(files, directory, base_offset, kinds, config)
            segments.append(FoundSegment(segment, _index_problem(kinds), TXN_INDEX in kinds))
        else:
            _remove_orphans(files, directory, kinds.values())
    return segments


def _segment(
    files: Files,
    directory: str,
    base_offset: int,
    kinds: dict[str, Entry],
    config: LogConfig,
    suffix: str = "",
) -> Segment:
    return Segment(
        files,
        directory,
        base_offset,
        index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        sizes={kind: entry.size for kind, entry in kinds.items()},
        modified_ms=kinds[LOG].modified_ms,
        suffix=suffix,
    )


def _clear_leftovers(files: Files, directory: str, config: LogConfig) -> list[Entry]:
    """Undo or finish what was interrupted; returns what the directory holds then."""
    entries = files.scan(directory)
    if not any(_is_leftover(entry.name) for entry in entries):
        return entries
    segment_swap.drop_unfinished(files, directory, entries)
    entries = files.scan(directory)
    for base_offset in segment_swap.swapped_bases(entries):
        kinds = dict(_with_suffix(entries, base_offset, segment_swap.SWAP))
        swapped = _segment(files, directory, base_offset, kinds, config, segment_swap.SWAP)
        logs = [int(e.name[:20]) for e in entries if re.fullmatch(r"\d{20}\.log", e.name)]
        segment_swap.complete(files, directory, swapped, logs)
        entries = files.scan(directory)
    _remove_orphans(files, directory, [entry for entry in entries if _is_leftover(entry.name)])
    return files.scan(directory)


def _is_leftover(name: str) -> bool:
    suffixes = (segment_swap.CLEANED, segment_swap.SWAP, segment_swap.DELETED, TEMPORARY)
    return name.endswith(suffixes)


def _with_suffix(
    entries: Iterable[Entry], base_offset: int, suffix: str
) -> Iterator[tuple[str, Entry]]:
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        if match is not None and int(match[1]) == base_offset and match[3] == suffix:
            yield match[2], entry


def _remove_orphans(files: Files, directory: str, entries: Iterable[Entry]) -> None:
    for entry in entries:
        _log.info("Removing %s/%s, which belongs to no segment", directory, entry.name)
        files.remove(f"{directory}/{entry.name}")


def _is_known(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return name in _OTHER_FILES or (match is not None and match[2] == SNAPSHOT)


def _index_problem(kinds: dict[str, Entry]) -> str | None:
    log_bytes = kinds[LOG].size
    for kind, entry_bytes in _ENTRY_BYTES.items():
        if kind not in kinds:
            return f"there is no {kind} file" if log_bytes else None
        if kinds[kind].size % entry_bytes:
            return f"the {kind} file has a part of an entry"
        if kinds[kind].size // entry_bytes > log_bytes // HEADER_BYTES:
            return f"the {kind} file has more entries than the log has batches"
    return None


def mend_indexes(found: FoundSegment) -> None:
    """Make indexes again whose size alone shows that they cannot be right."""
    if found.index_problem is None:
        return
    try:
        found.segment.rebuild_indexes(found.index_problem)
    except KafkaError as error:
        # Reads of the broken part will say so; everything before it stays readable.
        _log.error("Cannot index all of %s: %s", found.segment, error)
    found.segment.release()
