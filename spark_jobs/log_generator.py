"""An activity log to try the pipeline on: lines of a made-up web site, the same for the same seed.

    2026-01-01T00:00:00.123Z <event id> <user> <action> <path> <status> <latency in ms>

Some events come twice, some late, and some lines are broken, as in every log worth a pipeline.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final
from uuid import UUID

import click
from odradek.client.producer import Producer

ACTIONS: Final = ("view", "search", "cart", "buy", "login")
STATUSES: Final = (200, 200, 200, 200, 304, 404, 500)
BROKEN: Final = ("", "not a line", "2026-13-45T99:99:99Z x y z", '{"event": "json"}')
BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Mixture:
    """How lines come out."""

    seed: int = 1
    users: int = 1_000
    events_per_second: int = 100
    broken: float = 0.01
    twice: float = 0.02
    most_late_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Line:
    key: str
    text: str


def log_lines(mixture: Mixture, count: int) -> Iterator[Line]:
    """`count` lines. Times go on by themselves, not by any clock, so that a run can be repeated."""
    random = Random(mixture.seed)
    last: Line | None = None
    for number in range(count):
        chance = random.random()
        if chance < mixture.broken:
            yield Line("", random.choice(BROKEN))
        elif last is not None and chance < mixture.broken + mixture.twice:
            yield last
        else:
            last = _event(random, mixture, number)
            yield last


def _event(random: Random, mixture: Mixture, number: int) -> Line:
    late = timedelta(seconds=random.uniform(0, mixture.most_late_s))
    time = BEGINNING + timedelta(seconds=number / mixture.events_per_second) - late
    event_id = UUID(int=random.getrandbits(128), version=4)
    user = f"user-{random.randrange(mixture.users)}"
    latency_ms = int(random.lognormvariate(3.5, 0.8))
    stamp = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    path = f"/{random.choice(('home', 'books', 'music', 'garden'))}/{random.randrange(100)}"
    action, status = random.choice(ACTIONS), random.choice(STATUSES)
    return Line(user, f"{stamp} {event_id} {user} {action} {path} {status} {latency_ms}")


async def produce(servers: str, topic: str, lines: Iterator[Line], rate: int | None) -> int:
    """Send the lines, at `rate` a second or as fast as they are taken; how many there were."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    sent = 0
    async with Producer(bootstrap_servers=servers, linger_ms=20) as producer:
        for sent, line in enumerate(lines, 1):
            await producer.send(topic, line.text, key=line.key or None)
            if rate is not None:
                await asyncio.sleep(max(0.0, began + sent / rate - loop.time()))
        await producer.flush()
    return sent


@click.command()
@click.option("-b", "--bootstrap-server", "servers", default="localhost:9092", show_default=True)
@click.option("--topic", default="activity.raw", show_default=True)
@click.option("--count", default=10_000, show_default=True, help="How many lines.")
@click.option(
    "--rate", type=click.IntRange(1), help="Lines a second; as fast as it goes unless given."
)
@click.option("--seed", default=1, show_default=True, help="The same seed, the same lines.")
def generate(servers: str, topic: str, count: int, rate: int | None, seed: int) -> None:
    """Write an activity log of a made-up web site to a topic."""
    from odradek.client.cli import run

    lines = log_lines(Mixture(seed=seed), count)
    click.echo(f"{run(produce(servers, topic, lines, rate))} lines to {topic}")


if __name__ == "__main__":
    generate()
