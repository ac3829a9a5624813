"""One query of a job while it runs: it tells of every batch, and is begun anew after a false start.

    activity-log-events: batch 3 done, 12000 rows in 1.52 s, 7895 a second

Spark keeps the last hundred reports of a query, also when it has ended, so looking now and then
misses none; a listener would lose the last ones when the session stops.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

# Spark gives the Python process of a source ten seconds to start, and this cannot be changed: on a
# busy machine a query may fail for that alone. Its checkpoint has all it did, so it begins again.
FALSE_START: Final = "Python worker failed to connect back"
MOST_FALSE_STARTS: Final = 20

Start = Callable[[], StreamingQuery]
Report = Mapping[str, object]


def line(report: Report) -> str | None:
    """One batch in a line; None for a report that nothing was to be done."""
    rows, took = report["numInputRows"], report["durationMs"]
    assert isinstance(rows, int)
    assert isinstance(took, Mapping)
    # Only a batch that ran has this; one may run without rows, to move a watermark.
    if "addBatch" not in took:
        return None
    seconds = int(took["triggerExecution"]) / 1000
    rate = f", {rows / seconds:.0f} a second" if seconds else ""
    return f"{report['name']}: batch {report['batchId']} done, {rows} rows in {seconds:.2f} s{rate}"


class QueryRun:
    def __init__(self, start: Start) -> None:
        self._start = start
        self.query = start()
        self._false_starts = 0
        self._newest: str | None = None
        self._told = -1

    @property
    def is_starting(self) -> bool:
        message: str = self.query.status["message"]
        return message.startswith("Initializing")

    def has_ended(self, within_s: float) -> bool:
        """Wait for its end. Raises StreamingQueryException when it failed."""
        try:
            ended: bool = self.query.awaitTermination(within_s)
        except StreamingQueryException as failure:
            self.tell()
            if FALSE_START not in str(failure) or self._false_starts == MOST_FALSE_STARTS:
                raise
            self._false_starts += 1
            print(f"{self.query.name}: starting again: {FALSE_START}", file=sys.stderr, flush=True)
            self.query = self._start()
            return False
        self.tell()
        return ended

    def stop(self) -> None:
        self.query.stop()
        self.tell()

    def tell(self) -> None:
        """Write a line for each batch since the last time."""
        newest = self.query.lastProgress
        if newest is None or newest["timestamp"] == self._newest:
            return
        self._newest = newest["timestamp"]
        for report in self.query.recentProgress:
            said = line(report) if report["batchId"] > self._told else None
            if said is not None:
                print(said, file=sys.stderr, flush=True)
                self._told = report["batchId"]
                self._false_starts = 0
