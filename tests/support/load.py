"""A steady load: numbers written all the time, each with its fate, and what must hold of them."""

import time
from collections.abc import Collection
from itertools import count, pairwise
from threading import Event, Thread

from confluent_kafka import Consumer

from tests.support.records import Writer, Written, read_partitions


class Load:
    """Writes numbers, about a thousand a second, until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self._writer = Writer(bootstrap, topic, **settings)
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        numbers = count()
        while not self._stop.wait(0.01):
            self._writer.write(next(numbers) for _ in range(10))

    @property
    def written(self) -> Written:
        return self._writer.written

    def wait_for_progress(self, partitions: Collection[int], seconds: float = 30.0) -> float:
        """Until something more is acknowledged in each of these; how long that took."""
        begun, before = time.monotonic(), dict(self.written.acked_in)
        while not all(
            self.written.acked_in.get(index, 0) > before.get(index, 0) for index in partitions
        ):
            assert time.monotonic() < begun + seconds, f"{self.written.acked_in} after {before}"
            time.sleep(0.01)
        return time.monotonic() - begun

    def finish(self) -> Written:
        self._stop.set()
        self._thread.join()
        return self._writer.finish()


class GroupReader:
    """A member of a group that reads all the time, and remembers what was done to it."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.read: set[int] = set()
        self.assignments = 0
        self.errors: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._note_assignment)
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _note_assignment(self, *_: object) -> None:
        self.assignments += 1

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            if (error := message.error()) is not None:
                self.errors.append(error.name())
            else:
                self.read.add(int(message.value() or b""))

    def wait_for(self, numbers: Collection[int], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not self.read.issuperset(numbers):
            assert time.monotonic() < deadline, f"{len(set(numbers) - self.read)} are missing"
            time.sleep(0.05)

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()


def check_nothing_lost(bootstrap: str, topic: str, partitions: int, written: Written) -> None:
    """All that was acknowledged is there once and in order, and nothing else is."""
    assert not written.failed
    by_partition = read_partitions(bootstrap, topic, partitions)
    places: dict[int, list[tuple[int, int]]] = {}
    for index, numbers in by_partition.items():
        for position, number in enumerate(numbers):
            places.setdefault(number, []).append((index, position))
    twice = {number: where for number, where in places.items() if len(where) > 1}
    assert not twice, f"{len(twice)} records are there twice: {list(twice.items())[:10]}"
    lost = sorted(set(written.acked) - set(places))
    assert not lost, f"{len(lost)} acknowledged records are lost: {lost[:10]}"
    assert set(places) == set(written.acked)
    for index, numbers in by_partition.items():
        assert all(one < two for one, two in pairwise(numbers)), (
            f"partition {index} is not in order"
        )
