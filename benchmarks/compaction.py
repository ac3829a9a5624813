"""How fast is a log compacted, and with how much memory?

A log of keyed records, each key several times, is cleaned in a process of its own, as the broker
does it: MB/s of log read (each byte is read twice: for the keys, then to copy) and the growth of
that process's peak memory.
"""

import argparse
import concurrent.futures
import json
import resource
import tempfile
import time
from pathlib import Path
from random import Random

from odradek.protocol.compression import Codec
from odradek.protocol.records import Record, build_batch, read_header
from odradek.storage.compaction import CleaningJob, clean_segments
from odradek.storage.compaction_plan import SegmentSpan
from odradek.storage.files import OsFiles
from odradek.storage.segment import Segment

NOW = 1_700_000_000_000
BATCH_BYTES = 16_000
SEGMENT_BYTES = 32 << 20
MAP_BYTES = 128 << 20
SHAPES = {
    "1 KB records": (1000, Codec.NONE),
    "100 B records": (100, Codec.NONE),
    "1 KB records, lz4": (1000, Codec.LZ4),
}


def write_log(directory: str, total_bytes: int, value_bytes: int, codec: Codec) -> CleaningJob:
    """Segments in which every key occurs about four times, anywhere in the log."""
    keys = max(1, total_bytes // value_bytes // 4)
    per_batch = BATCH_BYTES // value_bytes
    random = Random(1)
    pool = random.randbytes(1 << 16) + bytes(1 << 16)
    spans: list[SegmentSpan] = []
    offset = written = 0
    segment = None
    while written < total_bytes:
        if segment is None or segment.size + BATCH_BYTES * 2 > SEGMENT_BYTES:
            spans += _span(segment, offset)
            segment = Segment(
                OsFiles(), directory, offset, index_bytes=10 << 20, index_interval_bytes=4096
            )
            segment.create()
        records = [
            Record(n, NOW, b"key-%08d" % random.randrange(keys), _value(pool, random, value_bytes))
            for n in range(offset, offset + per_batch)
        ]
        data = build_batch(records, codec)
        segment.append(data, [read_header(data)])
        offset += per_batch
        written += len(data) if codec is Codec.NONE else per_batch * value_bytes
    spans += _span(segment, offset)
    return CleaningJob(
        directory=directory,
        segments=tuple(spans),
        first_dirty=0,
        aborted=(),
        last_records={},
        now_ms=NOW,
        delete_retention_ms=1000,
        segment_bytes=SEGMENT_BYTES,
        index_bytes=10 << 20,
        index_interval_bytes=4096,
        map_bytes=MAP_BYTES,
    )


def _value(pool: bytes, random: Random, value_bytes: int) -> bytes:
    start = random.randrange(len(pool) - value_bytes)
    return pool[start : start + value_bytes]


def _span(segment: Segment | None, next_offset: int) -> list[SegmentSpan]:
    if segment is None:
        return []
    segment.become_inactive()
    segment.release()
    return [SegmentSpan(segment.base_offset, next_offset, segment.size, NOW, NOW)]


def clean(job: CleaningJob) -> dict[str, float]:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, cpu = time.perf_counter(), time.process_time()
    cleaned = clean_segments(job)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    records = job.segments[-1].next_offset
    return {
        "log_mb": round(cleaned.bytes_read / 1e6, 1),
        "cleaned_mb": round(cleaned.bytes_written / 1e6, 1),
        "mb_per_s": round(cleaned.bytes_read / seconds / 1e6, 1),
        "mb_per_cpu_s": round(cleaned.bytes_read / cpu_seconds / 1e6, 1),
        "records_per_cpu_s": round(records / cpu_seconds),
        "peak_memory_growth_mb": round((peak_kb - before_kb) / 1e3, 1),
        "peak_memory_mb": round(peak_kb / 1e3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    total_bytes = (4 if parser.parse_args().quick else 128) << 20
    rows = {}
    for name, (value_bytes, codec) in SHAPES.items():
        with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder:
            directory = str(Path(folder) / "t-0")
            OsFiles().make_dir(directory)
            job = write_log(directory, total_bytes, value_bytes, codec)
            with concurrent.futures.ProcessPoolExecutor(1) as pool:
                rows[name] = pool.submit(clean, job).result()
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
