"""How long a broker takes to be ready, and what memory it takes idle and after load.

Every start is one of a process whose directories are made already; ZooKeeper runs before. Loaded
means: eight seconds of records in 16 KB batches, then four of reading them.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks._brokers import rss_mb
from benchmarks.grid.contest import Effort
from benchmarks.grid.load import Consume, Produce, Shape, make_topic
from benchmarks.grid.peers import KAFKA_3, KAFKA_4, KFAKE, SMALL_KAFKA, Startable, new_broker
from benchmarks.grid.readings import OURS, Reading
from benchmarks.grid.stage import present

_LOAD_SECONDS, _QUICK_LOAD_SECONDS = 8.0, 1.0
_SETTLE_SECONDS = 1.0
_ALIVE = (OURS, KAFKA_3, KAFKA_4, KFAKE, SMALL_KAFKA)
TOPIC = "loaded"


def measure(effort: Effort) -> Iterator[Reading]:
    with ExitStack() as stack:
        names = present(_ALIVE, effort)
        brokers = {name: stack.enter_context(new_broker(name)) for name in names}
        seconds: dict[str, list[float]] = {name: [] for name in names}
        idle: dict[str, list[float]] = {name: [] for name in names}
        for broker in brokers.values():
            broker.start()
            broker.stop()
        for _ in range(effort.rounds):
            for name, broker in brokers.items():
                began = time.perf_counter()
                broker.start()
                seconds[name].append(time.perf_counter() - began)
                time.sleep(_SETTLE_SECONDS)  # what is idle has finished starting
                idle[name].append(rss_mb(broker))
                broker.stop()
        for name in names:
            yield Reading("start to ready", name, "s", tuple(seconds[name]))
        for name in names:
            yield Reading("idle", name, "RSS MB", tuple(idle[name]))
        for name, broker in brokers.items():
            yield Reading("loaded", name, "RSS MB", (_loaded_mb(broker, effort),))


def _loaded_mb(broker: Startable, effort: Effort) -> float:
    seconds = _QUICK_LOAD_SECONDS if effort.is_quick else _LOAD_SECONDS
    broker.start()
    make_topic(broker.bootstrap, TOPIC, Shape())
    Produce().run(broker.bootstrap, TOPIC, seconds)
    Consume().run(broker.bootstrap, TOPIC, seconds / 2)
    taken = rss_mb(broker)
    broker.stop()
    return taken
