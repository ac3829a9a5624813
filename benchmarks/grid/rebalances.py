"""How long a group of 100 members takes to rebalance: the load of `groups`, in turns."""

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks._group_load import Member, gather, rebalance
from benchmarks.grid.contest import Effort
from benchmarks.grid.growth import allow_open_files
from benchmarks.grid.peers import KAFKA_3, KAFKA_4, PEERS, Startable, running
from benchmarks.grid.readings import OURS, Reading
from benchmarks.grid.stage import present
from benchmarks.groups import BIG_GROUP, prepare

_QUICK_GROUP = 10
_WARM_REBALANCES = 20


def measure(effort: Effort) -> Iterator[Reading]:
    allow_open_files()
    names = present((OURS, KAFKA_3, KAFKA_4), effort)
    first: dict[str, list[float]] = {name: [] for name in names}
    again: dict[str, list[float]] = {name: [] for name in names}
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(running(name)) for name in names}
        for name, broker in brokers.items():
            prepare(broker)
            if PEERS[name].warms_up and not effort.is_quick:
                _group(broker, "warm", effort, _WARM_REBALANCES)
        for number in range(effort.rounds):
            for name, broker in brokers.items():
                came, joined = _group(broker, f"group-{number}", effort, 1)
                first[name].append(came)
                again[name].append(joined)
    for name in names:
        yield Reading("the others join the first", name, "s", tuple(first[name]))
    for name in names:
        yield Reading("all join again", name, "s", tuple(again[name]))


def _group(broker: Startable, group: str, effort: Effort, times: int) -> tuple[float, float]:
    count = _QUICK_GROUP if effort.is_quick else BIG_GROUP
    members = [Member(broker.port, group) for _ in range(count)]
    came = gather(members)
    joined = [rebalance(members) for _ in range(times)]
    for member in members:
        member.client.close()
    return came, joined[-1]
