"""What does a small produce cost among many partitions, without sockets, and what of it grows?

The partitions take their turns, as in the scenario `growth` of the grid. All that a partition
consists of, here and in the kernel, is touched once in a turn; when all turns together touch more
than a core's caches hold, every touch waits for memory. So the whole is measured, and beside it the
system's write alone: what hardly grows alone may grow in company.

Microseconds of CPU; the median of many rounds in which the numbers of partitions take turns. With
`--lines` it tells, by a simulated cache of 1 MB (valgrind's cachegrind), how many lines of memory
outside that cache one produce among a thousand partitions touches in this process: a figure that
does not depend on what else the machine does.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from statistics import median
from struct import Struct

from odradek.broker.handlers.produce_again import ProduceAgain
from odradek.broker.network.peer import Address, Peer
from odradek.protocol.clock import SystemClock
from odradek.protocol.frames import decode_request, read_request_header
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.types import TopicPartition, random_id
from odradek.replication.partition import Partition
from odradek.storage.log_config import LogConfig

from benchmarks._lines import wants_quick
from benchmarks._logs import new_log
from benchmarks._raw_load import PRODUCE_VERSION, frame_of, produce_request

NUMBERS = (1, 100, 1000, 2000)
RECORD_BYTES = 100
CLOCK = SystemClock()
TOPIC = "among"
HERE = Address("127.0.0.1", 1)
_LENGTH_BYTES = 4
_UNLIKELY = 0x5EED5EED
_INDEX = Struct(">i")


class Host:
    """So many led partitions, and the short way of produce to them."""

    def __init__(self, directory: str, number: int) -> None:
        config = LogConfig(LogConfig.table.defaults())
        self._partitions = {
            where: self._partition(directory, where, config)
            for where in (TopicPartition(TOPIC, index) for index in range(number))
        }
        self._again = ProduceAgain(self._partitions.get, asyncio.new_event_loop())
        self._turns = cycle(range(number))
        self._peer = Peer("bench", HERE, HERE)
        request = produce_request(TOPIC, RECORD_BYTES, acks=1, partitions=(_UNLIKELY,))
        self._frame = frame_of(request, PRODUCE_VERSION)[_LENGTH_BYTES:]
        self._index_at = self._frame.index(_INDEX.pack(_UNLIKELY))
        for index in range(number):
            self._teach(index)

    @staticmethod
    def _partition(directory: str, where: TopicPartition, config: LogConfig) -> Partition:
        log = new_log(f"{directory}/{where}", where, config)
        partition = Partition(where, random_id(), log=log, local_id=1, clock=CLOCK)
        partition.become_leader(epoch=0, partition_epoch=0, replicas=(1,), isr=(1,))
        return partition

    def _frame_for(self, index: int) -> bytearray:
        """Made from the same bytes each time, as a socket's buffer is the same for all."""
        frame = bytearray(self._frame)
        _INDEX.pack_into(frame, self._index_at, index)
        return frame

    def _teach(self, index: int) -> None:
        frame = self._frame_for(index)
        header = read_request_header(frame)
        request = decode_request(frame, header)
        assert isinstance(request, ProduceRequest)
        self._again.learn(frame, header, request)
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        # The first of an epoch takes the long way.
        self._partitions[TopicPartition(TOPIC, index)].append(
            bytearray(records), acks=1, produce_version=PRODUCE_VERSION
        )

    def produce(self, times: int) -> None:
        answer, frame_for, peer = self._again.answer, self._frame_for, self._peer
        for index in (next(self._turns) for _ in range(times)):
            assert answer(frame_for(index), peer) is not None, "it takes the short way"

    def write(self, times: int) -> None:
        """The system's part of it, in the same turns: as many bytes to the end of each file."""
        files = [each.log.segments.active.batches for each in self._partitions.values()]
        data = bytes(170)
        for index in (next(self._turns) for _ in range(times)):
            files[index].append(data)

    def frame(self, times: int) -> None:
        """What the measurement itself takes."""
        for index in (next(self._turns) for _ in range(times)):
            self._frame_for(index)


PARTS: dict[str, Callable[[Host, int], None]] = {
    "produce": Host.produce,
    "write": Host.write,
    "frame": Host.frame,
}


def measure(part: Callable[[Host, int], None], rounds: int, times: int) -> dict[int, float]:
    taken: dict[int, list[float]] = {number: [] for number in NUMBERS}
    with ExitStack() as stack:
        hosts = {
            number: Host(stack.enter_context(tempfile.TemporaryDirectory()), number)
            for number in NUMBERS
        }
        for _ in range(rounds):
            for number, host in hosts.items():
                part(host, max(number, times // 4))
                began = time.process_time()
                part(host, times)
                taken[number].append((time.process_time() - began) / times * 1e6)
    return {number: round(median(each), 2) for number, each in taken.items()}


def _run(number: int, times: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        host = Host(directory, number)
        host.produce(number)
        host.produce(times)


def main() -> None:
    is_quick = wants_quick("benchmarks.among_partitions", __doc__, _run)
    result = {}
    for name, part in PARTS.items():
        result[name] = measure(part, 3 if is_quick else 40, 4000)
        print(f"{name}: {result[name]}", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
