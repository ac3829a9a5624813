"""Find or install all that tests need beside Python: `python -m scripts.setup`.

What is there is left alone, so a second run ends in well under a second. With root rights on a
Debian-like system missing tools are installed by apt; elsewhere one sentence says what to
install. The script never fails for a missing tool: tests that need it are skipped with the
reason, or fail where CI=true.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from scripts.parts import (
    KAFKA_VERSIONS,
    TOOLS,
    Tool,
    cache_dir,
    kafka_libs,
    whats_missing,
    whats_wrong_with,
)

ARTIFACTS = ("kafka_2.13", "kafka-tools", "kafka-streams")
SLF4J_VERSION = "1.7.36"


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def run_or_explain(command: list[str], *, environment: dict[str, str] | None = None) -> bool:
    """Run a command quietly; its last lines are shown only when it fails."""
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        say(f"`{' '.join(command)}` failed with status {done.returncode}:")
        print("\n".join(done.stdout.splitlines()[-15:]), flush=True)
    return done.returncode == 0


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


def pom(version: str) -> str:
    """A Maven project that depends on one version of Kafka and on a logger that just prints."""
    wanted = [("org.apache.kafka", artifact, version) for artifact in ARTIFACTS]
    wanted.append(("org.slf4j", "slf4j-simple", SLF4J_VERSION))
    dependencies = "\n".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{wanted_version}</version></dependency>"
        for group, artifact, wanted_version in wanted
    )
    return f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>odradek</groupId><artifactId>kafka-jars</artifactId><version>{version}</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def fetch_kafka(version: str) -> None:
    libs = kafka_libs(version)
    project = libs.parent / "pom.xml"
    if libs.is_dir() and project.exists() and project.read_text() == pom(version):
        return
    if reason := whats_missing("maven"):
        say(f"no jars of Apache Kafka {version}: {reason}")
        return
    say(f"fetching the jars of Apache Kafka {version} with Maven")
    started = time.monotonic()
    partial = libs.with_name("libs.partial")
    for stale in (libs, partial):
        shutil.rmtree(stale, ignore_errors=True)
    libs.parent.mkdir(parents=True, exist_ok=True)
    project.write_text(pom(version))
    command = ["mvn", "-q", "-B", "-f", str(project), "dependency:copy-dependencies"]
    places = [f"-DoutputDirectory={partial}", f"-Dmaven.repo.local={cache_dir() / 'm2'}"]
    # Kafka 3.9 brings a second slf4j binding, which would log to nowhere without a properties file.
    one_logger = "-DexcludeArtifactIds=slf4j-reload4j"
    if run_or_explain([*command, *places, one_logger]):
        partial.rename(libs)
        jars = len(list(libs.glob("*.jar")))
        say(f"Apache Kafka {version}: {jars} jars in {time.monotonic() - started:.0f} s")


def main() -> int:
    folder: Path = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as held:
        # Several `make` commands may share one cache: the second waits, then finds all in place.
        fcntl.flock(held, fcntl.LOCK_EX)
        set_up_tools()
        whats_missing.cache_clear()
        for version in KAFKA_VERSIONS:
            fetch_kafka(version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
