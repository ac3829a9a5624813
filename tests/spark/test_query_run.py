"""What a job does with its queries, on queries that end as they are told to."""

import pytest

from tests.support.parts import require

require("spark")

from odradek.spark_jobs.query_run import FALSE_START, MOST_FALSE_STARTS, QueryRun  # noqa: E402
from pyspark.errors import StreamingQueryException  # noqa: E402


class Query:
    """A query of Spark that has these reports, and then ends or fails."""

    name = "copy"

    def __init__(self, *reports: dict[str, object], failure: str | None = None) -> None:
        self.recentProgress = list(reports)
        self._failure = failure

    @property
    def lastProgress(self) -> dict[str, object] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def awaitTermination(self, timeout: float) -> bool:
        if self._failure is not None:
            raise StreamingQueryException(self._failure)
        return True


def report(batch_id: int, rows: int, **took: int) -> dict[str, object]:
    return {
        "name": "copy",
        "batchId": batch_id,
        "timestamp": f"second {batch_id}",
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 500, **took},
    }


def test_every_batch_is_told_once_and_idle_moments_are_not(capsys):
    query = Query(report(0, 1000, addBatch=400), report(1, 0))
    run = QueryRun(lambda: query)
    run.tell()
    query.recentProgress.append(report(1, 10, addBatch=400) | {"timestamp": "later"})
    assert run.has_ended(0)
    run.tell()
    assert capsys.readouterr().err.splitlines() == [
        "copy: batch 0 done, 1000 rows in 0.50 s, 2000 a second",
        "copy: batch 1 done, 10 rows in 0.50 s, 20 a second",
    ]


def test_a_query_whose_python_was_slow_to_start_begins_again():
    queries = iter([Query(failure=FALSE_START), Query(report(0, 1, addBatch=1))])
    run = QueryRun(lambda: next(queries))
    assert not run.has_ended(0)
    assert run.has_ended(0)


def test_a_query_that_never_comes_to_start_fails_at_last():
    run = QueryRun(lambda: Query(failure=FALSE_START))
    for _ in range(MOST_FALSE_STARTS):
        assert not run.has_ended(0)
    with pytest.raises(StreamingQueryException, match=FALSE_START):
        run.has_ended(0)


def test_a_query_that_fails_otherwise_fails_at_once():
    run = QueryRun(lambda: Query(failure="there is no topic nowhere"))
    with pytest.raises(StreamingQueryException, match="nowhere"):
        run.has_ended(0)
