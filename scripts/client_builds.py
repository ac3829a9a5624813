"""Build programs of tests and benchmarks into the cache; a stamp says from which sources.

Each program is built in a folder beside its place and renamed when complete, so that tests never
meet half a build. Called by scripts.setup alone, under its lock.
"""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from scripts.parts import (
    BUILDS,
    KAFKA_ON_KRAFT,
    KAFKA_ON_ZOOKEEPER,
    KAFKA_VERSIONS,
    OLD_JAVA_CLIENTS,
    OLD_KAFKA_PYTHON,
    ROOT,
    Build,
    build_dir,
    digest_of,
    is_built,
    java_client_libs,
    whats_missing,
)
from scripts.steps import run_or_explain, say

# The programs of one Java client, from the newest interface to the oldest.
PRESENT = ("Driver", "AdminVerbs", "RecordVerbs", "TransactionVerbs", "Jobs", "GroupMember")
JAVA_SOURCES = {
    KAFKA_ON_KRAFT: (*PRESENT, "PatternMember"),
    KAFKA_ON_ZOOKEEPER: PRESENT,
    "2.3.1": ("RecordsDriver", "RecordVerbs", "TransactionVerbs", "Jobs"),
    "0.10.2.2": ("OldDriver", "Jobs"),
    "0.9.0.1": ("OldDriver", "Jobs"),
}


def build_go(sources: Path, target: Path) -> bool:
    return run_or_explain(["go", "build", "-C", str(sources), "-o", f"{target}/", "./..."])


def build_node(sources: Path, target: Path) -> bool:
    shutil.copytree(sources, target, dirs_exist_ok=True)
    quietly = ["--no-audit", "--no-fund", "--ignore-scripts"]
    return run_or_explain(["npm", "ci", "--prefix", str(target), *quietly])


def build_java(sources: Path, target: Path) -> bool:
    return all(
        run_or_explain(
            [
                *("javac", "-nowarn", "-d", str(target / version)),
                *("-cp", f"{java_client_libs(version)}/*"),
                *(str(sources / f"{name}.java") for name in JAVA_SOURCES[version]),
            ]
        )
        for version in (*KAFKA_VERSIONS, *OLD_JAVA_CLIENTS)
    )


def install_old_kafka_python(_: Path, target: Path) -> bool:
    """Into a folder of its own: it would collide with the present release in the environment."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    packages = [f"kafka-python=={OLD_KAFKA_PYTHON}", "six"]
    return run_or_explain([*pip, "--no-deps", "--target", str(target), *packages])


STEPS: dict[str, Callable[[Path, Path], bool]] = {
    "go-clients": build_go,
    "kfake": build_go,
    "node-clients": build_node,
    "java-clients": build_java,
    f"kafka-python-{OLD_KAFKA_PYTHON}": install_old_kafka_python,
}
assert set(STEPS) == {build.name for build in BUILDS}


def build(what: Build) -> None:
    if is_built(what):
        return
    for part in what.needs:
        if reason := whats_missing(part):
            say(f"no {what.name}: {reason}")
            return
    say(f"building {what.name}")
    started = time.monotonic()
    place = build_dir(what.name)
    partial = place.with_name(f"{what.name}.partial")
    for stale in (place, partial):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    if STEPS[what.name](ROOT / what.sources, partial):
        (partial / ".built-from").write_text(digest_of(what))
        partial.rename(place)
        say(f"{what.name}: built in {time.monotonic() - started:.0f} s")
