"""Run other people's test suites against Odradek, or against Apache Kafka to know what is right.

    python -m tests.conformance --suite kgo                  on Odradek, beside what Kafka does
    python -m tests.conformance --suite kgo --on kafka --keep
                                                             renew what Kafka 3.9 does
    python -m tests.conformance --suite librdkafka --only 0081 --on 127.0.0.1:9092

Each run leaves a table in build/conformance/<suite>.json and .md, and the logs of the suite
beside it. The status is 1 when a test that passes on Kafka does not pass.
"""

import sys
import time
from pathlib import Path

import click

from tests.conformance.clusters import PROFILES, cluster
from tests.conformance.results import (
    EXPECTED,
    Outcome,
    Result,
    Table,
    as_json,
    as_markdown,
    load,
    noted,
    regressions,
    summary,
    unknown,
)
from tests.conformance.suite import Job, Suite
from tests.conformance.suites import SUITES

BUILD = Path(__file__).parent.parent.parent / "build" / "conformance"


def run_suite(suite: Suite, *, on: str, profile: str, only: tuple[str, ...]) -> list[Result]:
    """All results; what alarmed the brokers counts as a test that failed."""
    folder = suite.bring()
    logs = BUILD / f"{suite.name}-{on.replace(':', '-')}-{time.time_ns()}"
    logs.mkdir(parents=True)
    results = []
    with cluster(on, PROFILES[profile], logs / "data", suite.settings) as running:
        for result in suite.run(Job(folder, running, only, logs)):
            results.append(result)
            print(f"{result.seconds:7.1f} s  {result.outcome:7}  {result.test}", flush=True)
        troubles = [*running.alarms(), *(f"{name} has ended" for name in running.ended())]
        for process in running.processes:
            (logs / f"{process.name}.log").write_text("\n".join(process.output))
    results += [Result("the brokers stay calm", Outcome.FAILED, 0.0, text) for text in troubles]
    return results


def write(suite: Suite, profile: str, table: Table, folder: Path) -> None:
    text = as_json(suite.name, suite.version, profile, table)
    (folder / f"{suite.name}.json").write_text(text)


@click.command(help=__doc__)
@click.option("--suite", "names", multiple=True, type=click.Choice(list(SUITES)))
@click.option("--on", default="odradek", help="odradek, kafka, kafka4 or HOST:PORT")
@click.option("--profile", type=click.Choice(list(PROFILES)), help="the suite's own unless given")
@click.option("--only", multiple=True, help="a test, as the suite names it; repeatable")
@click.option("--keep", is_flag=True, help="write what is seen into tests/conformance/expected")
def main(
    names: tuple[str, ...], on: str, profile: str | None, only: tuple[str, ...], keep: bool
) -> None:
    failed = False
    for name in names or SUITES:
        suite = SUITES[name]
        wanted = profile or suite.profile
        results = run_suite(suite, on=on, profile=wanted, only=only)
        known = load(suite.name)
        table = noted(known, results, on_kafka=on == "kafka")
        write(suite, wanted, table, BUILD)
        (BUILD / f"{suite.name}.md").write_text(as_markdown(suite.name, suite.version, table))
        if keep:
            write(suite, wanted, table, EXPECTED)
        print(f"{name} on {on}: {summary(results)}")
        if on == "kafka":
            continue
        worse, new = regressions(known, results), unknown(known, results)
        failed = failed or bool(worse or new)
        for result in worse:
            print(f"\n{result.test}: {result.outcome}\n{result.detail}")
        if new:
            print("\nnever held against Kafka:", ", ".join(result.test for result in new))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
