"""Run other people's test suites against Odradek, or against Apache Kafka to know what is right.

    python -m tests.conformance --suite kgo                  on Odradek, beside what Kafka does
    python -m tests.conformance --suite kgo --on kafka --keep
                                                             renew what Kafka 3.9 does
    python -m tests.conformance --suite librdkafka --only 0081 --on 127.0.0.1:9092
    python -m tests.conformance --suite librdkafka --profile P1 --side-by-side 3

Each run leaves tables in build/conformance, <suite>.json and one <suite>-<profile>.md for each
profile, and the logs of the suite beside them. The status is 1 when a test that passes on Kafka
does not pass. With --keep, what is seen on Odradek or Kafka becomes what is written down.
"""

import sys
from collections.abc import Sequence

import click

from tests.conformance.clusters import PROFILES
from tests.conformance.results import (
    EXPECTED,
    Expected,
    Result,
    as_json,
    as_markdown,
    load,
    summary,
    troubles,
)
from tests.conformance.runner import BUILD, run_suite
from tests.conformance.suite import Suite
from tests.conformance.suites import SUITES


class Notes:
    """Says each result and writes it down: a run that is cut short has still said something."""

    def __init__(self, suite: Suite, profile: str, *, on: str, keep: bool) -> None:
        self._suite = suite
        self._profile = profile
        self._on_kafka = on == "kafka"
        self._folders = (BUILD, EXPECTED) if keep else (BUILD,)
        self._expected: Expected = load(suite.name)

    def take(self, result: Result) -> None:
        print(f"{result.seconds:7.1f} s  {result.outcome:7}  {result.test}", flush=True)
        suite, profile = self._suite, self._profile
        self._expected = self._expected.noted(profile, result, on_kafka=self._on_kafka)
        for folder in self._folders:
            text = as_json(suite.name, suite.version, self._expected)
            (folder / f"{suite.name}.json").write_text(text)
        table = as_markdown(suite.name, suite.version, profile, self._expected)
        (BUILD / f"{suite.name}-{profile}.md").write_text(table)


@click.command(help=__doc__)
@click.option("--suite", "names", multiple=True, type=click.Choice(list(SUITES)))
@click.option("--on", default="odradek", help="odradek, kafka, kafka4 or HOST:PORT")
@click.option("--profile", "profiles", multiple=True, type=click.Choice(list(PROFILES)))
@click.option("--only", multiple=True, help="a test, as the suite names it; repeatable")
@click.option("--side-by-side", default=1, help="on so many clusters at once, where tests allow it")
@click.option("--keep", is_flag=True, help="write what is seen into tests/conformance/expected")
def main(
    names: Sequence[str],
    on: str,
    profiles: Sequence[str],
    only: Sequence[str],
    side_by_side: int,
    keep: bool,
) -> None:
    if keep and on not in ("odradek", "kafka"):
        raise click.UsageError("only what is seen on odradek or kafka can be kept")
    wrong: list[str] = []
    for name in names or SUITES:
        for profile in profiles or PROFILES:
            suite, known = SUITES[name], load(name)
            results = run_suite(
                suite,
                on=on,
                profile=profile,
                only=only,
                side_by_side=side_by_side,
                known=known.table(profile),
                tell=Notes(suite, profile, on=on, keep=keep).take,
            )
            print(f"{name} on {on}, {profile}: {summary(results)}", flush=True)
            if on != "kafka":
                wrong += troubles(known, profile, results, asked=only)
    print("\n\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
