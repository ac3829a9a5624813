"""Load from Kafka's own performance tools, of Kafka 3.9, against every peer alike.

Each run is a virtual machine that starts cold, with the options of Kafka's scripts for tools; the
times are those that the tools tell.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks._brokers import scratch
from benchmarks.grid.load import ALONE, Consume, Done, Shape
from scripts.parts import KAFKA_ON_ZOOKEEPER
from tests.support.java import java_command

_JVM = ("-Xmx512m", "-server", "-XX:+UseG1GC")
_RECORD_BYTES = 1000
# So many for each second of a round: about what a cold client of this kind sends.
_SENT_PER_SECOND, _READ_PER_SECOND, _AWAITED_PER_SECOND = 100_000, 66_000, 1000
_TIMEOUT_SECONDS = 300.0
_MEBIBYTE = 1 << 20
_SENT = re.compile(
    r"(\d+) records sent, ([\d.,]+) records/sec .* ([\d.,]+) ms avg latency, "
    r".* (\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th"
)
_ENDED = re.compile(r"Avg latency: ([\d.,]+) ms.*Percentiles: 50th = (\d+), 99th = (\d+)", re.S)


def run_tool(name: str, *arguments: str) -> str:
    main_class = f"org.apache.kafka.tools.{name}"
    command = java_command(KAFKA_ON_ZOOKEEPER, main_class, *arguments, log_level="error", jvm=_JVM)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    return done.stdout


def told_by_producer(output: str) -> Done:
    """From its last line: `N records sent, R records/sec (M MB/sec), … ms avg latency, …`."""
    records, rate, _, p50_ms, p99_ms = _SENT.findall(output)[-1]
    count, seconds = int(records), int(records) / _number(rate)
    return Done(count, count * _RECORD_BYTES, seconds, int(p50_ms) * 1e3, int(p99_ms) * 1e3)


def told_by_consumer(output: str) -> Done:
    """From the line of figures after the header, whose columns have stable names."""
    header, figures = [
        [word.strip() for word in line.split(",")]
        for line in output.splitlines()
        if line.count(",") >= 9
    ][-2:]
    told = dict(zip(header, figures, strict=True))
    records = int(told["data.consumed.in.nMsg"])
    size = float(told["data.consumed.in.MB"]) * _MEBIBYTE
    return Done(records, round(size), float(told["fetch.time.ms"]) / 1000)


def told_by_end_to_end(output: str, records: int) -> Done:
    """It tells whole milliseconds for percentiles, and the average in fractions."""
    found = _ENDED.search(output)
    if found is None:
        raise ValueError(f"no latency in {output[-300:]!r}")
    average, p50, p99 = found.groups()
    average_us = _number(average) * 1000
    p50_us = average_us if p50 == "0" else int(p50) * 1000.0
    return Done(
        records, records * _RECORD_BYTES, records * average_us / 1e6, p50_us, int(p99) * 1000.0
    )


def _number(text: str) -> float:
    return float(text.replace(",", ""))


@dataclass(frozen=True, slots=True)
class JavaProduce:
    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        pass

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        output = run_tool(
            "ProducerPerformance",
            *("--topic", topic, "--num-records", str(int(seconds * _SENT_PER_SECOND))),
            *("--record-size", str(_RECORD_BYTES), "--throughput", "-1"),
            *("--producer-props", f"bootstrap.servers={bootstrap}"),
        )
        return told_by_producer(output)


@dataclass(frozen=True, slots=True)
class JavaConsume:
    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        Consume(_RECORD_BYTES).prepare(bootstrap, topic)

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        output = run_tool(
            "ConsumerPerformance",
            *("--bootstrap-server", bootstrap, "--topic", topic),
            *("--messages", str(int(seconds * _READ_PER_SECOND)), "--timeout", "60000"),
        )
        return told_by_consumer(output)


@dataclass(frozen=True, slots=True)
class JavaEndToEnd:
    shape: Shape = ALONE

    def prepare(self, bootstrap: str, topic: str) -> None:
        pass

    def run(self, bootstrap: str, topic: str, seconds: float) -> Done:
        records = int(seconds * _AWAITED_PER_SECOND)
        with scratch() as directory:
            config: Path = directory / "client.properties"
            config.write_text("")
            output = run_tool(
                "EndToEndLatency",
                *(bootstrap, topic, str(records), "all", str(_RECORD_BYTES), str(config)),
            )
        return told_by_end_to_end(output, records)
