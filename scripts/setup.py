"""Find or install all that tests need beside Python: `python -m scripts.setup`.

What is there is left alone, so a second run ends in well under a second. With root rights on a
Debian-like system missing tools are installed by apt; elsewhere one sentence says what to
install. The script never fails for a missing tool: tests that need it are skipped with the
reason, or fail where CI=true.
"""

import fcntl
import os
import shutil
import sys
import time
from pathlib import Path

from scripts import client_builds, spark_parts
from scripts.parts import (
    BUILDS,
    KAFKA_VERSIONS,
    OLD_JAVA_CLIENTS,
    TOOLS,
    Tool,
    cache_dir,
    jar_folders,
    whats_missing,
    whats_wrong_with,
)
from scripts.steps import run_or_explain, say
from tests.conformance.downloads import Unavailable
from tests.conformance.suites import SUITES

Coordinates = tuple[str, str, str]  # group, artifact, version

KAFKA = "org.apache.kafka"
LOGGER: Coordinates = ("org.slf4j", "slf4j-simple", "1.7.36")
JSON: Coordinates = ("com.fasterxml.jackson.core", "jackson-databind", "2.16.2")


def install_with_apt(packages: list[str]) -> None:
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    say(f"installing {' '.join(packages)} with apt")
    if run_or_explain(["apt-get", "update", "-qq"], environment=environment):
        run_or_explain(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
            environment=environment,
        )


def packages_for(tools: list[Tool]) -> list[str]:
    """The packages of the commands that are absent; a newer npm beside node is not replaced."""
    return [
        package
        for tool in tools
        for package in tool.packages
        if not (package in tool.commands and shutil.which(package))
    ]


def set_up_tools() -> None:
    broken = [tool for tool in TOOLS if whats_wrong_with(tool)]
    if not broken:
        return
    packages = packages_for(broken)
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install_with_apt(packages)
    else:
        say(f"some tests need more: install it first (Debian: apt install {' '.join(packages)}).")
    for tool in broken:
        if reason := whats_wrong_with(tool):
            say(reason)


def wanted_jars() -> dict[str, list[Coordinates]]:
    """What each folder of jars is asked for: Kafka whole, or an old client and what drives it."""
    servers = {
        f"kafka-{version}": [
            *((KAFKA, artifact, version) for artifact in ("kafka_2.13", "kafka-tools")),
            (KAFKA, "kafka-streams", version),
            LOGGER,
        ]
        for version in KAFKA_VERSIONS
    }
    # The logger comes first: of two versions of slf4j's interface Maven takes the first it meets.
    clients = {
        f"kafka-clients-{version}": [LOGGER, (KAFKA, "kafka-clients", version), JSON]
        for version in OLD_JAVA_CLIENTS
    }
    return servers | clients


def pom(name: str, wanted: list[Coordinates]) -> str:
    """A Maven project that does nothing but depend on what is wanted."""
    dependencies = "\n".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in wanted
    )
    return f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>odradek</groupId><artifactId>{name}</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def fetch_jars(name: str, libs: Path, wanted: list[Coordinates]) -> None:
    project = libs.parent / "pom.xml"
    if libs.is_dir() and project.exists() and project.read_text() == pom(name, wanted):
        return
    if reason := whats_missing("maven"):
        say(f"no jars of {name}: {reason}")
        return
    say(f"fetching the jars of {name} with Maven")
    started = time.monotonic()
    partial = libs.with_name("libs.partial")
    for stale in (libs, partial):
        shutil.rmtree(stale, ignore_errors=True)
    libs.parent.mkdir(parents=True, exist_ok=True)
    project.write_text(pom(name, wanted))
    command = ["mvn", "-q", "-B", "-f", str(project), "dependency:copy-dependencies"]
    places = [f"-DoutputDirectory={partial}", f"-Dmaven.repo.local={cache_dir() / 'm2'}"]
    # Kafka 3.9 brings a second slf4j binding, which would log to nowhere without a properties file.
    one_logger = "-DexcludeArtifactIds=slf4j-reload4j"
    if run_or_explain([*command, *places, one_logger]):
        partial.rename(libs)
        jars = len(list(libs.glob("*.jar")))
        say(f"{name}: {jars} jars in {time.monotonic() - started:.0f} s")


def bring_suites() -> None:
    """Other people's test suites; librdkafka's is compiled, which takes minutes."""
    for suite in SUITES.values():
        if reasons := [reason for part in suite.needs if (reason := whats_missing(part))]:
            say(f"no {suite.name}: {reasons[0]}")
            continue
        try:
            suite.bring()
        except Unavailable as reason:
            say(f"no {suite.name}: {reason}")


def main() -> int:
    folder: Path = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as held:
        # Several `make` commands may share one cache: the second waits, then finds all in place.
        fcntl.flock(held, fcntl.LOCK_EX)
        set_up_tools()
        whats_missing.cache_clear()
        for name, wanted in wanted_jars().items():
            fetch_jars(name, jar_folders()[name], wanted)
        spark_parts.install_packages()
        spark_parts.fetch_connector()
        whats_missing.cache_clear()
        for build in BUILDS:
            client_builds.build(build)
        bring_suites()
    return 0


if __name__ == "__main__":
    sys.exit(main())
