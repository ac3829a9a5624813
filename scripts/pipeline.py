"""`make pipeline`: the whole data pipeline on this machine, until Ctrl-C.

Starts a broker of its own, writes a made-up activity log to it, lets the Spark job turn that into
events and counts, and shows the counts of every minute of the log as they come. What the parts say
and leave lies in one folder, build/pipeline unless told otherwise, which the next run empties.
"""

import argparse
import asyncio
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from scripts.parts import ROOT, whats_missing

ODRADEK = Path(sys.executable).with_name("odradek")
FOLDER = ROOT / "build" / "pipeline"
READY = "Odradek ready on "
# A hundred lines are a second of the log: a minute of it goes by in six seconds.
LINES_PER_SECOND = 1_000
STOP_S = 30.0

Part = asyncio.subprocess.Process


class PartEnded(Exception):
    """A part ended that should have gone on."""


@asynccontextmanager
async def part(folder: Path, name: str, *words: str, is_heard: bool = False) -> AsyncIterator[Part]:
    """A command of ours that runs until the block ends. What we do not hear goes to a file.

    In a session of its own, so that Ctrl-C reaches only us and parts stop in their order.
    """
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            ODRADEK,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if is_heard else log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def run(folder: Path) -> None:
    """Raises PartEnded, or asyncio.CancelledError when somebody says stop."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with AsyncExitStack() as stack:

        async def start(name: str, *words: str, is_heard: bool = False) -> Part:
            begun = part(folder, name, *words, is_heard=is_heard)
            return await stack.enter_async_context(begun)

        own = ("--host", "127.0.0.1", "--port", "0", "--ephemeral")
        broker = await start("broker", "serve", *own, is_heard=True)
        assert broker.stdout is not None
        line = (await broker.stdout.readline()).decode()
        if not line.startswith(READY):
            raise PartEnded(tail(folder, "broker"))
        servers = line.removeprefix(READY).strip()
        there = ("-b", servers)
        print(f"A broker on {servers}, everything else in {folder}; Ctrl-C stops all.")
        print("Spark starts; its first counts come in a minute or so.", flush=True)
        for topic in ("activity.raw", "activity.counts"):
            made = await start("topics", "topic", "create", topic, "-p", "2", *there)
            await made.wait()
        kept = ("--checkpoint", str(folder / "checkpoint"), "--parquet", str(folder / "counts"))
        often = ("--master", "local[2]", "--interval", "2 seconds")
        rate = ("--count", str(10**12), "--rate", str(LINES_PER_SECOND))
        follow = ("activity.counts", "--follow", "--committed")
        parts = {
            "activity": await start("activity", "spark", "activity", *kept, *often, *there),
            "generate": await start("generate", "spark", "generate", *rate, *there),
            "consume": await start("consume", "consume", *follow, *there, is_heard=True),
        }
        ends = [asyncio.create_task(watch(folder, name, parts[name])) for name in parts]
        ends.append(asyncio.create_task(show(parts["consume"])))
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in done:
                end.result()
        finally:
            for end in ends:
                end.cancel()


async def watch(folder: Path, name: str, process: Part) -> None:
    await process.wait()
    raise PartEnded(tail(folder, name))


async def show(consumer: Part) -> None:
    """One line for every window of every action."""
    assert consumer.stdout is not None
    async for document in consumer.stdout:
        row = json.loads(document)
        latencies = " ".join(f"{row[f'latency_p{share}_ms']:>4}" for share in (50, 95, 99))
        print(
            f"{row['start'][:16]} {row['action']:<8} {row['events']:>6} events "
            f"{row['errors']:>5} errors, latency p50 p95 p99 {latencies} ms",
            flush=True,
        )
    await asyncio.Future()


def tail(folder: Path, name: str) -> str:
    said = (folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
    return f"{name} ended: {said[-1] if said else 'without a word'}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="emptied first")
    folder: Path = parser.parse_args(words).folder
    if reason := whats_missing("spark"):
        print(f"pipeline: {reason}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        asyncio.run(run(folder))
    except asyncio.CancelledError:
        print("pipeline: stopped", flush=True)
    except PartEnded as end:
        print(f"pipeline: {end}; see {folder}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
