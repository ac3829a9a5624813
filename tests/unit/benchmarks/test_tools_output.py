"""What Kafka's performance tools print, and what happened to a load, is read right."""

from benchmarks.grid.failures import TIMELINE, phase_readings
from benchmarks.grid.java_clients import told_by_consumer, told_by_end_to_end, told_by_producer

PRODUCED = (
    "1000 records sent, 500.0 records/sec (0.5 MB/sec), 9.0 ms avg latency, 10.0 ms max latency.\n"
    "40000 records sent, 20000.0 records/sec (19.07 MB/sec), 12.5 ms avg latency, "
    "300.00 ms max latency, 7 ms 50th, 40 ms 95th, 90 ms 99th, 299 ms 99.9th.\n"
)
CONSUMED = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
    "2026-01-01 00:00:00:000, 2026-01-01 00:00:02:500, 95.3674, 38.1, 100000, 40000.0, "
    "500, 2000, 47.7, 50000.0\n"
)
ENDED = "0\t1.5\nAvg latency: 0.7342 ms\n\nPercentiles: 50th = 0, 99th = 2, 99.9th = 9\n"


def test_the_last_line_of_the_producer_counts() -> None:
    done = told_by_producer(PRODUCED)

    assert (done.records, done.seconds) == (40_000, 2.0)
    assert (done.p50_us, done.p99_us) == (7_000, 90_000)


def test_a_consumers_time_is_that_of_its_fetches() -> None:
    done = told_by_consumer(CONSUMED)

    assert (done.records, done.seconds) == (100_000, 2.0)
    assert round(done.bytes / 1e6) == 100


def test_a_median_of_no_milliseconds_is_told_by_the_average() -> None:
    done = told_by_end_to_end(ENDED, records=1000)

    assert (round(done.p50_us), done.p99_us) == (734, 2000)


def test_phases_tell_rate_and_longest_silence_even_at_their_edges() -> None:
    acked = [0.5, 1.0, 1.5, 5.5]
    found = {
        (reading.cell, reading.metric): reading.rounds
        for reading in phase_readings("ours", acked, {"up": 0.0, "down": 2.0}, ended=6.0)
    }

    assert found["up", "records/s"] == (1.5,)
    assert found["up", "longest silence s"] == (0.5,)
    assert found["down", "records/s"] == (0.25,)
    assert found["down", "longest silence s"] == (3.5,)
    assert found[TIMELINE, "records/s"] == (1, 2, 0, 0, 0, 1, 0)
