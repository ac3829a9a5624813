"""The parts that tests need and Python cannot bring: one table of tools, one of Kafka's jars.

`scripts.setup` installs what this table names, and the tests ask it what is missing, so both
always speak of the same things. Everything that is downloaded lies in one cache folder:
`.cache/` in the repository, or where ODRADEK_CACHE points.

    <cache>/kafka/<version>/pom.xml     what was asked for
    <cache>/kafka/<version>/libs/*.jar  the class path, complete as soon as the folder exists
    <cache>/kafka-clients/<version>/    the same for old releases of the Java client alone
    <cache>/spark-connector/libs/*.jar  Spark's Kafka connector and what it needs
    <cache>/clients/<name>/             a program of tests or benchmarks, built from its sources
    <cache>/conformance/<suite>/        a suite of other people's tests, built where it must be
    <cache>/m2/                         Maven's own repository
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

KAFKA_ON_ZOOKEEPER = "3.9.1"
KAFKA_ON_KRAFT = "4.2.0"
KAFKA_VERSIONS = (KAFKA_ON_ZOOKEEPER, KAFKA_ON_KRAFT)
# Java clients of their time: message formats 0, 1 and 2, before and after ApiVersions.
OLD_JAVA_CLIENTS = ("0.9.0.1", "0.10.2.2", "2.3.1")
OLD_KAFKA_PYTHON = "2.0.2"
SPARK_LOCK = ROOT / "requirements" / "spark.lock"


@dataclass(frozen=True, slots=True)
class Tool:
    """A command that must be on the PATH, with the oldest version that will do."""

    name: str
    commands: tuple[str, ...]
    version_flag: str | None
    minimum: tuple[int, ...]
    packages: tuple[str, ...]
    purpose: str
    headers: tuple[str, ...] = ()  # of C++ libraries, which are no commands


TOOLS = (
    Tool("java", ("java", "javac"), "-version", (17,), ("default-jdk-headless",), "Kafka, Spark"),
    Tool("maven", ("mvn",), None, (), ("maven",), "fetching Kafka's jars"),
    Tool("go", ("go",), "version", (1, 21), ("golang-go",), "Go clients"),
    Tool("node", ("node", "npm"), "--version", (18,), ("nodejs", "npm"), "JavaScript clients"),
    Tool("kcat", ("kcat",), None, (), ("kcat",), "the command-line client"),
    Tool(
        "c++",
        ("g++", "make"),
        None,
        (),
        ("g++", "make", "rapidjson-dev", "libssl-dev", "libzstd-dev", "zlib1g-dev"),
        "librdkafka's tests",
        headers=("rapidjson/document.h", "openssl/ssl.h", "zstd.h", "zlib.h"),
    ),
)


@dataclass(frozen=True, slots=True)
class Build:
    """Programs of tests and benchmarks that must be compiled or installed before they run."""

    name: str
    sources: str  # a folder in the repository; "" for what has none
    needs: tuple[str, ...]


BUILDS = (
    Build("go-clients", "tests/clients/go", ("go",)),
    Build("kfake", "benchmarks/kfake", ("go",)),
    Build("node-clients", "tests/clients/node", ("node",)),
    Build(
        "java-clients",
        "tests/clients/java",
        (
            *(f"kafka-{version}" for version in KAFKA_VERSIONS),
            *(f"kafka-clients-{version}" for version in OLD_JAVA_CLIENTS),
        ),
    ),
    Build(f"kafka-python-{OLD_KAFKA_PYTHON}", "", ()),
)


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    return Path(environment.get("ODRADEK_CACHE") or ROOT / ".cache").resolve()


def kafka_libs(version: str) -> Path:
    """The folder of all jars of one Kafka version; it is renamed into place when complete."""
    return cache_dir() / "kafka" / version / "libs"


def java_client_libs(version: str) -> Path:
    """The folder of all jars that the Java client of one version needs."""
    if version in KAFKA_VERSIONS:
        return kafka_libs(version)
    return cache_dir() / "kafka-clients" / version / "libs"


def jar_folders() -> dict[str, Path]:
    """Every folder of jars, by the name of its part."""
    servers = {f"kafka-{version}": kafka_libs(version) for version in KAFKA_VERSIONS}
    clients = {
        f"kafka-clients-{version}": java_client_libs(version) for version in OLD_JAVA_CLIENTS
    }
    return servers | clients | {"spark-connector": cache_dir() / "spark-connector" / "libs"}


def locked_for_spark() -> dict[str, str]:
    """The packages of the extra `spark`, with the versions that tests run on."""
    lines = SPARK_LOCK.read_text().splitlines()
    return dict(line.split("==", 1) for line in lines if "==" in line)


def whats_wrong_with_spark() -> str | None:
    for name, version in locked_for_spark().items():
        try:
            there = metadata.version(name)
        except metadata.PackageNotFoundError:
            there = "nothing"
        if there != version:
            return f"{name} {version} is needed and {there} is installed: run `make setup`."
    return whats_missing("java")


def build_dir(name: str) -> Path:
    return cache_dir() / "clients" / name


def digest_of(build: Build) -> str:
    """What a build depends on: its sources and the parts it needs."""
    digest = hashlib.sha256(repr(build).encode())
    for path in sorted((ROOT / build.sources).rglob("*")) if build.sources else ():
        if path.is_file() and "node_modules" not in path.parts:
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def stamp_of(build: Build) -> Path:
    return build_dir(build.name) / ".built-from"


def is_built(build: Build) -> bool:
    return stamp_of(build).exists() and stamp_of(build).read_text() == digest_of(build)


def part_names() -> tuple[str, ...]:
    builds = (build.name for build in BUILDS)
    return (*(tool.name for tool in TOOLS), *jar_folders(), *builds, "spark")


def version_in(text: str) -> tuple[int, ...]:
    """The first dotted number of a version message: 'go version go1.26.8 linux' -> (1, 26, 8)."""
    found = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(number) for number in found.group().split(".")) if found else ()


def has_header(header: str) -> bool:
    """Whether the C++ compiler finds it."""
    question = f"#if !__has_include(<{header}>)\n#error\n#endif\n"
    asked = subprocess.run(
        ["g++", "-E", "-x", "c++", "-"], input=question, capture_output=True, text=True, timeout=60
    )
    return asked.returncode == 0


def whats_wrong_with(tool: Tool) -> str | None:
    """None when the tool is there and new enough, else one sentence."""
    for command in tool.commands:
        if shutil.which(command) is None:
            return f"{tool.name} ({tool.purpose}) is missing: there is no command {command}."
    for header in tool.headers:
        if not has_header(header):
            return f"{tool.name} ({tool.purpose}) is incomplete: there is no {header}."
    if tool.version_flag is None:
        return None
    asked = subprocess.run(
        [tool.commands[0], tool.version_flag], capture_output=True, text=True, timeout=60
    )
    found = version_in(asked.stdout + asked.stderr)
    if found >= tool.minimum:
        return None
    wanted, there = (".".join(map(str, version)) for version in (tool.minimum, found))
    return f"{tool.name} ({tool.purpose}) is too old: {there or 'unknown'}, needs {wanted}."


@cache
def whats_missing(name: str) -> str | None:
    """None when the part can be used, else one sentence that says why not."""
    for tool in TOOLS:
        if tool.name == name:
            return whats_wrong_with(tool)
    for build in BUILDS:
        if build.name == name:
            return whats_wrong_with_build(build)
    if name == "spark":
        return whats_wrong_with_spark()
    libs = jar_folders().get(name)
    if libs is None:
        raise ValueError(f"no such part: {name}; known are {', '.join(part_names())}")
    if not libs.is_dir():
        return f"the jars of {name} are missing: run `make setup`."
    return whats_missing("java")


def whats_wrong_with_build(build: Build) -> str | None:
    for part in build.needs:
        if reason := whats_missing(part):
            return reason
    return None if is_built(build) else f"{build.name} must be built: run `make setup`."
