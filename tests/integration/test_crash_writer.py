"""A writer is killed two hundred times, and its files are damaged in between.

After every kill the log is opened again. What was appended must be there, because a killed process
does not take the page cache along; after damage to the tail what was flushed before the damaged
bytes must be there. Nothing may raise, and no record may be anything but what was written at its
offset.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from odradek.protocol.records import check_crc, iter_headers, iter_records
from odradek.storage.log import Log

from tests.integration.crash_writer import PARTITION, open_logs, value_of

ROUNDS = 200
WRITER = Path(__file__).with_name("crash_writer.py")
LONGEST_START_S = 60


@dataclass
class Promises:
    """What the writer said before it died."""

    log_start: int = 0
    appended: int = 0
    flushed: int = 0
    words: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        word, *numbers = line.split()
        self.words.append(word)
        if word == "appended":
            self.appended = int(numbers[0])
        elif word == "flushed":
            self.flushed = int(numbers[0])
        elif word == "start":
            self.log_start = int(numbers[0])
        assert word != "offline"


class Nursery:
    """The process that forks writers, so that two hundred of them need no two hundred starts."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(WRITER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=WRITER.parents[2],
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders = self._process.stdin
        self._words = self._process.stdout.fileno()
        self._said = b""

    def close(self) -> None:
        self._orders.close()
        self._process.kill()
        self._process.wait()

    def run_and_kill(self, path: Path, seed: int, life_s: float, promises: Promises) -> None:
        """Let a writer live for a moment after it has begun, and hear all that it says."""
        self._orders.write(f"{path} {seed}\n".encode())
        self._orders.flush()
        word, pid = self._line().split()
        assert word == "pid"
        promises.note(self._line())
        deadline = time.monotonic() + life_s
        while (left := deadline - time.monotonic()) > 0:
            self._listen(left)
        os.kill(int(pid), signal.SIGKILL)
        while not (line := self._line()).startswith("gone"):
            promises.note(line)
        assert line == f"gone {signal.SIGKILL:d}", "it died by itself"

    def _listen(self, timeout: float) -> bool:
        ready, _, _ = select.select([self._words], [], [], timeout)
        if ready:
            self._said += os.read(self._words, 1 << 16)
        return bool(ready)

    def _line(self) -> str:
        while b"\n" not in self._said:
            assert self._listen(LONGEST_START_S), "the writer said nothing"
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def check_everything(log: Log) -> int:
    """Read the whole log; returns where it ends. Every record must be the one written there."""
    offset = log.log_start_offset
    while (result := log.read(offset, 100_000)).records is not None:
        data = result.records.read()
        for position, header in iter_headers(data):
            check_crc(data, position, header)
            assert header.base_offset <= offset, "there are no gaps"
            if not header.is_control:
                for record in iter_records(data, position, header):
                    assert record.value == value_of(record.offset)
            offset = header.next_offset
    assert offset == log.log_end_offset
    for segment in log.segments:
        if segment.size:
            found = log.offset_for_timestamp(segment.latest.timestamp)
            assert found is not None
    return offset


# Damage -------------------------------------------------------------------------------------


def log_files(path: Path, suffix: str) -> list[Path]:
    return sorted((path / str(PARTITION)).glob(f"*{suffix}"))


def garble(file: Path, random: Random) -> None:
    size = file.stat().st_size
    how = random.choice(["delete", "cut", "garbage", "empty", "grow"])
    if how == "delete":
        file.unlink()
    elif how == "cut":
        os.truncate(file, random.randint(0, size))
    elif how == "empty":
        os.truncate(file, 0)
    elif how == "grow":
        with file.open("ab") as out:
            out.write(random.randbytes(random.randint(1, 300)))
    elif size:
        with file.open("r+b") as out:
            out.seek(random.randrange(size))
            out.write(random.randbytes(random.randint(1, min(size, 2000))))


def damage_tail(path: Path, random: Random) -> int:
    """Harm the end of the newest segment; returns from which byte of it on."""
    newest = log_files(path, ".log")[-1]
    size = newest.stat().st_size
    at = max(0, size - random.randint(1, 200))
    how = random.choice(["cut", "zero", "flip", "garbage behind"])
    if how == "cut":
        os.truncate(newest, at)
        return at
    with newest.open("r+b") as out:
        if how == "zero":
            out.seek(at)
            out.write(bytes(size - at))
        elif how == "flip" and size:
            out.seek(at)
            byte = out.read(1)
            out.seek(at)
            out.write(bytes([byte[0] ^ (1 << random.randrange(8))]))
        else:
            out.seek(size)
            out.write(random.randbytes(random.randint(1, 200)))
            return size
    return at


def intact_end(path: Path, at: int) -> int:
    """The offset below which batches lie wholly before byte `at` of the newest segment."""
    newest = log_files(path, ".log")[-1]
    end = int(newest.stem)
    for _, header in iter_headers(newest.read_bytes()[:at]):
        end = header.next_offset
    return end


def leave_rubbish(path: Path, random: Random) -> None:
    for suffix in (".log.cleaned", ".index.swap", ".log.deleted", ".snapshot.tmp"):
        (path / str(PARTITION) / f"{random.randrange(5000):020d}{suffix}").write_bytes(b"rubbish")


SIDE_FILES = (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint")
CHECKPOINTS = ("recovery-point", "replication", "log-start")


def damage(path: Path, random: Random, promises: Promises) -> None:
    """Do one of the things that happen to disks; lowers `promises` where bytes were taken."""
    what = random.choice(["nothing", "tail", "side files", "checkpoints", "rubbish", "all"])
    if what in ("rubbish", "all"):
        leave_rubbish(path, random)
    if what in ("side files", "all"):
        for suffix in SIDE_FILES:
            for file in log_files(path, suffix):
                if random.random() < 0.5:
                    garble(file, random)
    if what in ("checkpoints", "all"):
        for name in CHECKPOINTS:
            file = path / f"{name}-offset-checkpoint"
            if file.exists() and random.random() < 0.5:
                file.write_bytes(random.randbytes(random.randint(0, 100)))
    if what in ("tail", "all"):
        at = damage_tail(path, random)
        end = intact_end(path, at)
        promises.appended = min(promises.appended, end)
        promises.flushed = min(promises.flushed, end)


@pytest.mark.timeout(600)
def test_two_hundred_kills_and_damages_lose_nothing_that_was_promised(
    tmp_path: Path, nursery: Nursery
) -> None:
    seed = int(os.environ.get("CRASH_SEED", "1"))
    random = Random(seed)
    promises = Promises()
    for number in range(ROUNDS):
        life_s = random.choice([0.0, 0.002, 0.02, 0.1, 0.2])
        nursery.run_and_kill(tmp_path, number, life_s, promises)
        damage(tmp_path, random, promises)
        logs = open_logs(tmp_path.as_posix(), number)
        log = logs.get(PARTITION)
        if log is None:
            assert promises.appended == 0
            logs.unlock()
            continue
        where = f"round {number} of seed {seed}"
        assert not log.damage, where
        end = check_everything(log)
        assert end >= promises.appended, where
        assert end >= promises.flushed, where
        assert log.log_start_offset <= max(promises.log_start, promises.appended), where
        promises.appended = promises.flushed = end
        log.flush()
        log.segments.release()
        logs.unlock()
    assert promises.words.count("flushed") > 20
    assert promises.words.count("start") > 0
    assert promises.appended > 1000
