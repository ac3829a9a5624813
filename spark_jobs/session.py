"""A Spark session that can talk to a cluster, by the official connector or by our own source.

The official connector is a jar and what it needs. It is looked for, in this order, on Spark's own
class path, among the jars that the user names, and in the caches of Maven and Ivy; failing all,
Spark is told to fetch it (`spark.jars.packages`), which needs a way to Maven's repository.
`format("odradek")` needs none of this.
"""

import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark
from odradek.spark_jobs.source import OdradekDataSource
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

JARS_VARIABLE: Final = "ODRADEK_SPARK_JARS"
SCALA: Final = "2.13"
CONNECTOR: Final = f"spark-sql-kafka-0-10_{SCALA}"
# The connector, and what it needs beside Spark itself.
ARTIFACTS: Final = (
    ("org.apache.spark", CONNECTOR),
    ("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}"),
    ("org.apache.kafka", "kafka-clients"),
    ("org.apache.commons", "commons-pool2"),
)
# A small machine's worth; every one of them can be given otherwise.
DEFAULTS: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class ConnectorMissing(RuntimeError):
    """The official connector is not at hand and could not be fetched."""


@dataclass(frozen=True, slots=True)
class OnClassPath:
    """Spark has the connector already."""


@dataclass(frozen=True, slots=True)
class Jars:
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Package:
    """Not here: Spark has to fetch it."""

    coordinates: str


Connector = OnClassPath | Jars | Package


def find_connector(
    given: Iterable[Path] = (),
    *,
    spark_home: Path | None = None,
    home: Path | None = None,
    version: str = pyspark.__version__,
) -> Connector:
    """Where the connector for this version of Spark is. `given`: jars, or folders of jars."""
    spark_jars = (spark_home or Path(pyspark.__file__).parent) / "jars"
    if any(spark_jars.glob(f"{CONNECTOR}-*.jar")):
        return OnClassPath()
    named = tuple(jar for path in given for jar in (sorted(path.glob("*.jar")) or [path]))
    if any(jar.name.startswith(CONNECTOR) for jar in named):
        return Jars(named)
    cached = _cached((home or Path.home()), version)
    if cached is not None:
        return cached
    return Package(f"org.apache.spark:{CONNECTOR}:{version}")


def _cached(home: Path, version: str) -> Jars | None:
    """The connector of exactly this version and the newest of what it needs, if all are there."""
    found: list[Path] = []
    for group, artifact in ARTIFACTS:
        wanted = version if artifact == CONNECTOR else "*"
        in_maven = f".m2/repository/{group.replace('.', '/')}/{artifact}/{wanted}/{artifact}-*.jar"
        in_ivy = f".ivy2*/cache/{group}/{artifact}/jars/{artifact}-{wanted}.jar"
        by_packages = f".ivy2*/jars/{group}_{artifact}-{wanted}.jar"
        jars = [jar for place in (in_maven, in_ivy, by_packages) for jar in home.glob(place)]
        if not jars:
            return None
        found.append(max(jars, key=_numbers))
    return Jars(tuple(found))


def _numbers(jar: Path) -> list[int]:
    version = jar.stem.rpartition("-")[2]
    return [int(part) for part in version.split(".") if part.isdecimal()]


def named_jars(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """What ODRADEK_SPARK_JARS names: jars and folders of jars, with `:` between them."""
    return [Path(name) for name in environment.get(JARS_VARIABLE, "").split(os.pathsep) if name]


def connector_settings(connector: Connector) -> dict[str, str]:
    match connector:
        case OnClassPath():
            return {}
        case Jars(paths):
            return {"spark.jars": ",".join(str(path) for path in paths)}
        case Package(coordinates):
            return {"spark.jars.packages": coordinates}


def open_session(
    name: str,
    *,
    master: str | None = None,
    needs_connector: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session, with `format("odradek")` registered. Raises ConnectorMissing.

    `master` and settings that spark-submit has set are left alone.
    """
    # Workers run the Python that runs the driver: theirs has the same packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    connector = find_connector(named_jars()) if needs_connector else OnClassPath()
    chosen = {**DEFAULTS, **connector_settings(connector), **(settings or {})}
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Started by spark-submit, whose word on memory and masters stands.
        chosen = {key: value for key, value in chosen.items() if "memory" not in key}
        master = None
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = _started(builder.getOrCreate, connector)
    if not registers_by_itself():
        session.dataSource.register(OdradekDataSource)
    return session


def registers_by_itself() -> bool:
    """Whether Spark will find our source: it looks through the Python path as this does, which
    does not show modules of editable installs."""
    return any(module.name == "pyspark_odradek" for module in pkgutil.iter_modules())


def _started(start: Callable[[], SparkSession], connector: Connector) -> SparkSession:
    try:
        return start()
    except PySparkRuntimeError as error:
        if not isinstance(connector, Package) or "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise ConnectorMissing(
            f"Spark could not fetch {connector.coordinates}. Without a way to Maven's repository, "
            f"name its jars in {JARS_VARIABLE} (docs/spark.md says which), or use "
            'format("odradek"), which needs none.'
        ) from error
