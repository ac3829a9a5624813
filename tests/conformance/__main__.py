"""Run other people's test suites against Odradek, or against Apache Kafka to know what is right.

    python -m tests.conformance --suite kgo                  on Odradek, beside what Kafka does
    python -m tests.conformance --suite kgo --on kafka --keep
                                                             renew what Kafka 3.9 does
    python -m tests.conformance --suite librdkafka --only 0081 --on 127.0.0.1:9092

Each run leaves a table in build/conformance/<suite>.json and .md, and the logs of the suite
beside it. The status is 1 when a test that passes on Kafka does not pass.
"""

import sys
from collections.abc import Callable

import click

from tests.conformance.clusters import PROFILES
from tests.conformance.results import (
    EXPECTED,
    Result,
    as_json,
    as_markdown,
    load,
    noted,
    summary,
    troubles,
)
from tests.conformance.runner import BUILD, run_suite
from tests.conformance.suite import Suite
from tests.conformance.suites import SUITES


def teller(suite: Suite, *, profile: str, on: str, keep: bool) -> Callable[[Result], None]:
    """Says each result and writes it down: a run that is cut short has still said something."""
    seen: list[Result] = []

    def tell(result: Result) -> None:
        print(f"{result.seconds:7.1f} s  {result.outcome:7}  {result.test}", flush=True)
        seen.append(result)
        table = noted(load(suite.name), seen, on_kafka=on == "kafka")
        text = as_json(suite.name, suite.version, profile, table)
        for folder in (BUILD, EXPECTED) if keep else (BUILD,):
            (folder / f"{suite.name}.json").write_text(text)
        (BUILD / f"{suite.name}.md").write_text(as_markdown(suite.name, suite.version, table))

    return tell


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
        known = load(suite.name)
        tell = teller(suite, profile=wanted, on=on, keep=keep)
        results = run_suite(suite, on=on, profile=wanted, only=only, tell=tell)
        print(f"{name} on {on}: {summary(results)}")
        if on == "kafka":
            continue
        wrong = troubles(known, results, whole=not only)
        failed = failed or bool(wrong)
        print("\n\n".join(wrong))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
