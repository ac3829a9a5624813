"""What a test needs beside Python: `require("java")`, or the mark `needs("kcat", "go")`.

A missing part skips the test with its reason on a laptop. Where CI=true it fails the test: an
environment that promises everything must not go green by leaving things out.
"""

import os

import pytest

from scripts.parts import kafka_libs, whats_missing

ON_CI = os.environ.get("CI", "").lower() in ("1", "true")


def require(*names: str) -> None:
    """Skip (or, on CI, fail) the calling test or module unless every named part is there."""
    for name in names:
        reason = whats_missing(name)
        if reason is None:
            continue
        if ON_CI:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason, allow_module_level=True)


def kafka_jars(version: str) -> str:
    """The class path of one version of Apache Kafka, with its tools and Kafka Streams."""
    require(f"kafka-{version}")
    return f"{kafka_libs(version)}/*"
