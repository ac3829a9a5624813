"""A client under test, driven by jobs: one long-lived program for each client library.

The programs (programs/, java/, go/, node/) read one JSON job a line from standard input and print
one JSON answer a line: {"ok": …} or {"error": {"code", "text"}}, where the code is Kafka's own when
the client knows it. Each job makes its client objects anew and closes them, so a program holds
no state between jobs and no connection outlives the test that made it.

    produce           topic partition records acks codec idempotent  -> offsets
    consume           topic partition offset count committed         -> records
    consume_in_group  topic group count (commits what it read)       -> records
    transact          topic partition transactional_id transactions
    be_fenced         topic partition transactional_id (a second producer comes; the error counts)
    offset_at         topic partition at                             -> offset [timestamp]
    create_topic      topic partitions configs validate_only
    list_topics                                                      -> topics
    describe_topic    topic                                          -> partitions
    create_partitions topic total
    delete_topic      topic
    describe_configs  resource name                                  -> configs
    set_configs       topic configs (incremental; null deletes)
    replace_configs   topic configs (the old way: all others go back to their defaults)
    delete_records    topic partition before                         -> low_watermark
    describe_cluster                                                 -> controller brokers …
    describe_log_dirs topic                                          -> sizes by partition

A transaction has values, whether it commits, and perhaps a group and its offset in the partition.
`offset` and `at` use Kafka's numbers: -1 latest, -2 earliest, -3 the largest timestamp.
"""

import base64
import json
import queue
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import IO, Any

from odradek.protocol.errors import Errors

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

JOB_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    """A record as sent (offset unknown) or as received."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    timestamp_type: str | None = None
    offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        headers = [{"name": name, "value": _pack(value)} for name, value in self.headers]
        return {
            "key": _pack(self.key),
            "value": _pack(self.value),
            "headers": headers,
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Record":
        headers = fields.get("headers") or ()
        return cls(
            value=_unpack(fields.get("value")),
            key=_unpack(fields.get("key")),
            headers=tuple((header["name"], _unpack(header["value"])) for header in headers),
            timestamp=fields.get("timestamp"),
            timestamp_type=fields.get("timestamp_type"),
            offset=fields["offset"],
        )


def _pack(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _unpack(data: str | None) -> bytes | None:
    return None if data is None else base64.b64decode(data)


@dataclass(frozen=True, slots=True)
class Transaction:
    values: tuple[bytes, ...]
    commit: bool = True
    group: str | None = None
    offset: int = -1

    def to_json(self) -> dict[str, Any]:
        return {
            "values": [_pack(value) for value in self.values],
            "commit": self.commit,
            "group": self.group,
            "offset": self.offset,
        }


class ClientError(AssertionError):
    """What the client says went wrong; `error` is None for a failure without a Kafka code."""

    def __init__(self, error: Errors | None, text: str) -> None:
        super().__init__(text)
        self.error = error


class Program:
    """A running driver program: a job in, an answer out."""

    def __init__(self, command: Sequence[str], *, name: str) -> None:
        self._name = name
        self._answers: queue.Queue[str] = queue.Queue()
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed in close()
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        assert self._popen.stdout is not None
        Thread(target=self._read, args=(self._popen.stdout,), daemon=True).start()

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._answers.put(line)
        self._answers.put("")

    def run(self, job: Mapping[str, Any]) -> Any:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(job) + "\n")
        self._popen.stdin.flush()
        try:
            line = self._answers.get(timeout=JOB_SECONDS)
        except queue.Empty:
            self._popen.kill()
            raise TimeoutError(f"{self._name}: no answer to {job['verb']}\n{self.tail()}") from None
        if not line:
            raise AssertionError(f"{self._name} ended during {job['verb']}\n{self.tail()}")
        answer = json.loads(line)
        if failure := answer.get("error"):
            code = failure["code"]
            raise ClientError(None if code is None else Errors(code), failure["text"])
        return answer.get("ok")

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def tail(self, characters: int = 3000) -> str:
        self._complaints.seek(0)
        return self._complaints.read()[-characters:]

    def close(self) -> None:
        """The end of its input is the end of the program."""
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        try:
            self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._complaints.close()


class Client:
    """The verbs of a job as methods, for one client against one broker."""

    def __init__(
        self,
        program: Program,
        *,
        name: str,
        bootstrap: str,
        settings: Mapping[str, str],
        announce: Callable[[str], None],
    ) -> None:
        """`announce` is told the name before each job, so that one can tell who connects."""
        self.name = name
        self._program = program
        self._announce = announce
        self._common = {"bootstrap": bootstrap, "client_id": name, "settings": dict(settings)}

    def _run(self, verb: str, **arguments: Any) -> Any:
        self._announce(self.name)
        return self._program.run({"verb": verb, **self._common, **arguments})

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
    ) -> list[int | None]:
        offsets: list[int | None] = self._run(
            "produce",
            topic=topic,
            partition=partition,
            records=[record.to_json() for record in records],
            acks=acks,
            codec=codec,
            idempotent=idempotent,
        )["offsets"]
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        offset: int = EARLIEST,
        partition: int = 0,
        committed: bool = False,
    ) -> list[Record]:
        found = self._run(
            "consume",
            topic=topic,
            partition=partition,
            offset=offset,
            count=count,
            committed=committed,
        )
        return [Record.from_json(fields) for fields in found["records"] or ()]

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Record]:
        found = self._run("consume_in_group", topic=topic, group=group, count=count)
        return [Record.from_json(fields) for fields in found["records"] or ()]

    def transact(
        self, topic: str, transactional_id: str, transactions: Sequence[Transaction]
    ) -> None:
        self._run(
            "transact",
            topic=topic,
            partition=0,
            transactional_id=transactional_id,
            transactions=[transaction.to_json() for transaction in transactions],
        )

    def be_fenced(self, topic: str, transactional_id: str) -> None:
        self._run("be_fenced", topic=topic, partition=0, transactional_id=transactional_id)

    def offset_at(self, topic: str, at: int, *, partition: int = 0) -> int:
        return int(self._run("offset_at", topic=topic, partition=partition, at=at)["offset"])

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        self._run(
            "create_topic",
            topic=topic,
            partitions=partitions,
            configs=dict(configs or {}),
            validate_only=validate_only,
        )

    def list_topics(self) -> list[str]:
        return list(self._run("list_topics")["topics"])

    def describe_topic(self, topic: str) -> list[dict[str, Any]]:
        return list(self._run("describe_topic", topic=topic)["partitions"])

    def create_partitions(self, topic: str, total: int) -> None:
        self._run("create_partitions", topic=topic, total=total)

    def delete_topic(self, topic: str) -> None:
        self._run("delete_topic", topic=topic)

    def describe_configs(self, resource: str, name: str) -> dict[str, dict[str, Any]]:
        return dict(self._run("describe_configs", resource=resource, name=name)["configs"])

    def set_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        self._run("set_configs", topic=topic, configs=dict(configs))

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self._run("replace_configs", topic=topic, configs=dict(configs))

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        done = self._run("delete_records", topic=topic, partition=partition, before=before)
        return int(done["low_watermark"])

    def describe_cluster(self) -> dict[str, Any]:
        return dict(self._run("describe_cluster"))

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        sizes = self._run("describe_log_dirs", topic=topic)["sizes"]
        return {int(partition): size for partition, size in sizes.items()}
