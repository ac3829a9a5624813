"""How much does the log add to the disk, how fast is an index, how long does opening take?

- append: megabytes a second of 1 KB records in 16 KB and 1 MB batches, each time beside the same
  bytes checksummed and written with plain os.writev to a file that is begun anew at the same size;
- read: microseconds to find the slice that answers a fetch;
- index_lookup: microseconds in the offset and in the time index at 1, 1,000 and 100,000 entries;
- open: seconds and megabytes for 1,000 partitions of 3 segments after a clean stop.

Appends are measured in CPU time, in short runs that alternate, and the best of each side counts:
the machine has other work to do, and that can only make a run longer.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crc32c import crc32c
from odradek.protocol.clock import SystemClock
from odradek.protocol.records import Record, build_batch
from odradek.protocol.types import TopicPartition
from odradek.storage.files import OsFiles
from odradek.storage.index import OffsetIndex, TimeIndex
from odradek.storage.log_config import LogConfig
from odradek.storage.log_reading import Isolation
from odradek.storage.logs import Logs, LogsSettings

from benchmarks._logs import new_log

MEGABYTE = 1_000_000
SEGMENT_BYTES = 128 << 20
WHERE = TopicPartition("bench", 0)
NOW_MS = SystemClock().now_ms()


def config(**overrides: str) -> LogConfig:
    names = {name.replace("_", "."): value for name, value in overrides.items()}
    return LogConfig(LogConfig.table.defaults()).with_overrides(names)


def batch_of(size_bytes: int) -> bytearray:
    """Records of 1,000 bytes that fill about `size_bytes`."""
    value = random.Random(1).randbytes(1000)
    count = max(1, size_bytes // 1010)
    return bytearray(build_batch([Record(i, NOW_MS, None, value) for i in range(count)]))


@contextmanager
def scratch() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as directory:
        yield directory


def seconds_of_log(batch: bytearray, count: int) -> float:
    with scratch() as directory:
        settings = config(max_message_bytes="10000000", segment_bytes=str(SEGMENT_BYTES))
        log = new_log(f"{directory}/bench-0", WHERE, settings)
        pristine = bytes(batch)
        request = bytearray(batch)
        append = log.append_as_leader
        for _ in range(3):  # the first ones create index files and note the epoch
            request[:8] = pristine[:8]
            append(request, leader_epoch=3)

        def run() -> None:
            for _ in range(count):
                # A new request has base offset 0; writing eight bytes is the cheapest way.
                request[:8] = pristine[:8]
                append(request, leader_epoch=3)

        return timeit.timeit(run, timer=time.process_time, number=1)


def seconds_of_writev(batch: bytearray, count: int) -> float:
    with scratch() as directory:
        payload = memoryview(batch)

        def run() -> None:
            written = SEGMENT_BYTES
            fd = -1
            for number in range(count):
                if written + len(batch) > SEGMENT_BYTES:
                    if fd >= 0:
                        os.close(fd)
                    fd = os.open(f"{directory}/{number}", os.O_RDWR | os.O_CREAT)
                    written = 0
                crc32c(payload[21:])
                written += os.writev(fd, [payload])
            os.close(fd)

        return timeit.timeit(run, timer=time.process_time, number=1)


def measure_append(batch_bytes: int, total_bytes: int, rounds: int) -> dict[str, float]:
    batch = batch_of(batch_bytes)
    count = max(1, total_bytes // len(batch))
    ours, plain = [], []
    for _ in range(rounds):
        plain.append(seconds_of_writev(batch, count))
        ours.append(seconds_of_log(batch, count))
    written = count * len(batch) / MEGABYTE
    return {
        "batch_bytes": len(batch),
        "log_mb_per_s": round(written / min(ours), 1),
        "writev_and_crc_mb_per_s": round(written / min(plain), 1),
        "log_us_per_batch": round(min(ours) / count * 1e6, 2),
        "writev_and_crc_us_per_batch": round(min(plain) / count * 1e6, 2),
        "ratio": round(min(plain) / min(ours), 3),
    }


def measure_read(rounds: int) -> dict[str, float]:
    """Microseconds to find what a fetch of 1 MB gets, in a log of 16 KB batches."""
    with scratch() as directory:
        log = new_log(f"{directory}/bench-0", WHERE, config())
        pristine = bytes(batch_of(16_000))
        for _ in range(4_000):
            log.append_as_leader(bytearray(pristine), leader_epoch=3)
        end = log.log_end_offset
        step = end // 1000
        log.update_high_watermark(end - step)
        committed = Isolation.HIGH_WATERMARK
        last = end - 15  # where the last batch begins
        return {
            "tail_us": _us_each(lambda: [log.read(last, 1 << 20) for _ in range(1000)], rounds),
            "anywhere_us": _us_each(
                lambda: [log.read(number * step, 1 << 20) for number in range(1000)], rounds
            ),
            "anywhere_below_high_watermark_us": _us_each(
                lambda: [
                    log.read(number * step, 1 << 20, isolation=committed) for number in range(1000)
                ],
                rounds,
            ),
        }


def measure_lookup(entries: int, rounds: int) -> dict[str, float]:
    with scratch() as directory:
        files = OsFiles()
        offsets = OffsetIndex(files, f"{directory}/o", base_offset=0, max_bytes=10 << 20)
        times = TimeIndex(files, f"{directory}/t", base_offset=0, max_bytes=10 << 20)
        for number in range(entries):
            offsets.append(number * 16 + 15, number * 16_000)
            times.append_if_later(NOW_MS + number * 10, number * 16 + 15)
        wanted = [random.randrange(15, entries * 16 + 16) for _ in range(1000)]
        moments = [NOW_MS + offset * 10 // 16 for offset in wanted]
        return {
            "offset_us": _us_each(lambda: [offsets.lookup(each) for each in wanted], rounds),
            "time_us": _us_each(lambda: [times.lookup(each) for each in moments], rounds),
        }


def _us_each(thousand: Callable[[], object], rounds: int) -> float:
    best = min(timeit.repeat(thousand, timer=time.process_time, number=1, repeat=rounds))
    return round(best * 1000, 2)


def open_logs(directory: str) -> Logs:
    settings = config(segment_bytes="20000")
    logs = Logs(
        [directory],
        files=OsFiles(),
        clock=SystemClock(),
        random=random.Random(1),
        settings=LogsSettings(config_of=lambda topic: settings),
        on_offline=lambda offline: sys.exit(f"{offline} is offline"),
    )
    logs.open(1, "bench")
    logs.load()
    return logs


def make_partitions(directory: str, partitions: int) -> None:
    """Three segments each, and a clean stop."""
    logs = open_logs(directory)
    pristine = bytes(batch_of(8_000))
    for number in range(partitions):
        log = logs.create(TopicPartition(f"topic-{number % 10}", number))
        while len(log.segments) < 3:
            log.append_as_leader(bytearray(pristine), leader_epoch=0)
    logs.close()


def open_and_tell(directory: str) -> None:
    """Open all logs in a fresh process and print what it took; the interpreter is not counted."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = timeit.default_timer()
    logs = open_logs(directory)
    seconds = timeit.default_timer() - began
    after_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = {
        "logs": len(logs),
        "segments": sum(len(log.segments) for log in logs),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(time.process_time(), 2),
        "rss_mb": round(after_kb / 1024, 1),
        "rss_mb_added": round((after_kb - before_kb) / 1024, 1),
        "open_files": len(os.listdir("/proc/self/fd")),
    }
    print(json.dumps(told))


def measure_open(partitions: int) -> dict[str, float]:
    with scratch() as directory:
        make_partitions(directory, partitions)
        command = [sys.executable, "-m", "benchmarks.storage", "--open", directory]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        told: dict[str, float] = json.loads(done.stdout)
        return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--open", metavar="DIRECTORY", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open:
        open_and_tell(arguments.open)
        return
    total, rounds = (8 << 20, 5) if arguments.quick else (16 << 20, 100)
    result = {
        "append": {
            "16KB": measure_append(16_000, total, rounds),
            "1MB": measure_append(1_000_000, total, rounds),
        },
        "index_lookup": {str(n): measure_lookup(n, 100) for n in (1, 1_000, 100_000)},
        "read": measure_read(30),
        "open": measure_open(100 if arguments.quick else 1000),
    }
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
