"""Apache Kafka's own Java programs: as a running server or as a tool that runs to its end."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.parts import kafka_jars
from tests.support.processes import Process

# Test servers are many and short-lived: start quickly and stay small rather than run fast.
SMALL_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel"


def java_command(
    version: str,
    main_class: str,
    *args: str,
    log_level: str,
    jvm: Sequence[str] = SMALL_JVM,
) -> list[str]:
    logger = f"{LOG_LEVEL}={log_level}"
    return ["java", *jvm, logger, "-cp", kafka_jars(version), main_class, *args]


def java_server(
    name: str, version: str, main_class: str, *args: str, jvm: Sequence[str] = SMALL_JVM
) -> Process:
    return Process(java_command(version, main_class, *args, log_level="info", jvm=jvm), name=name)


def java_tool(
    version: str,
    main_class: str,
    *args: str | Path,
    stdin: str | None = None,
    timeout: float = 120.0,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end, whatever its status, and give its output as text.

    java_tool("3.9.1", "kafka.tools.DumpLogSegments", "--files", path).stdout
    """
    command = java_command(version, main_class, *map(str, args), log_level="warn")
    return subprocess.run(
        command, input=stdin or "", capture_output=True, text=True, timeout=timeout
    )


def write_properties(path: Path, properties: Mapping[str, object]) -> Path:
    """Write a .properties file, the one form in which all of these programs are configured."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path
