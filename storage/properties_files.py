"""The two small key-value files of Kafka's data directories.

    meta.properties in a log directory        partition.metadata in a partition's directory
        version=0                                 version: 0
        broker.id=1                               topic_id: 22 characters of base64
        cluster.id=text
        directory.id=22 characters of base64

Both are replaced atomically. A damaged partition.metadata counts as missing: the topic id comes
from the cluster's metadata again. A damaged meta.properties is an error for people to look at,
because guessing would let a broker take the wrong disk for its own.
"""

import logging
from dataclasses import dataclass

from odradek.protocol.types import id_from_text, id_to_text
from odradek.storage.checkpoints import replace_file
from odradek.storage.files import Files, read_file

_log = logging.getLogger(__name__)

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"


class LogDirectoryError(Exception):
    """A log directory that must not be used as it is; the text is for the operator."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose directory this is. The broker and cluster id may be missing in a prepared one."""

    broker_id: int | None
    cluster_id: str | None
    directory_id: bytes | None


def read_meta(files: Files, directory: str) -> MetaProperties | None:
    """None for a directory that has not been used yet."""
    path = f"{directory}/{META_PROPERTIES}"
    try:
        text = read_file(files, path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    values = _parse(text, "=")
    if values.get("version") != "0":
        version = values.get("version")
        raise LogDirectoryError(f"{path} has version {version}; only version 0 is understood")
    broker_id = values.get("broker.id")
    directory_id = values.get("directory.id")
    try:
        return MetaProperties(
            int(broker_id) if broker_id is not None else None,
            values.get("cluster.id"),
            id_from_text(directory_id) if directory_id is not None else None,
        )
    except ValueError as error:
        raise LogDirectoryError(f"{path} makes no sense: {error}") from error


def write_meta(files: Files, directory: str, meta: MetaProperties) -> None:
    lines = ["#", "version=0"]
    if meta.broker_id is not None:
        lines.append(f"broker.id={meta.broker_id}")
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    if meta.directory_id is not None:
        lines.append(f"directory.id={id_to_text(meta.directory_id)}")
    replace_file(files, f"{directory}/{META_PROPERTIES}", ("\n".join(lines) + "\n").encode())


def read_topic_id(files: Files, directory: str) -> bytes | None:
    """The id of the topic that a partition's directory belongs to, if it says."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        values = _parse(read_file(files, path).decode("utf-8", "replace"), ":")
    except FileNotFoundError:
        return None
    try:
        if values.get("version") != "0":
            raise ValueError(f"version {values.get('version')}")
        return id_from_text(values.get("topic_id", ""))
    except ValueError as error:
        _log.warning("Ignoring %s: %s", path, error)
        return None


def write_topic_id(files: Files, directory: str, topic_id: bytes) -> None:
    """Not synced: the log's first flush does that."""
    text = f"version: 0\ntopic_id: {id_to_text(topic_id)}"
    replace_file(files, f"{directory}/{PARTITION_METADATA}", text.encode(), sync=False)


def _parse(text: str, separator: str) -> dict[str, str]:
    """Key-value lines; in the Java properties format a backslash keeps the next character."""
    values = {}
    for line in text.splitlines():
        key, found, value = line.partition(separator)
        if found and not line.lstrip().startswith(("#", "!")):
            values[key.strip()] = value.strip().replace("\\", "")
    return values
