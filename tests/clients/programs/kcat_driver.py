"""kcat as a driver: each job is one or a few runs of the command."""

import itertools
import json
import re
import subprocess
from typing import Any

from jobs import EARLIEST, LATEST, CodedError, Job, headers_of, pack, serve, unpack

SECONDS = 20
# kcat prints librdkafka's texts; these are the ones that the tests look for.
CODES = {
    "Broker: Unknown topic or partition": 3,
    "Broker: Message size too large": 10,
    "Broker: Offset out of range": 1,
    "Broker: Invalid topic": 17,
}
BETWEEN, END = "\x1f", "\x1e"
OFFSETS = {EARLIEST: "beginning", LATEST: "end"}


def kcat(job: Job, *arguments: str, stdin: bytes = b"") -> str:
    settings = {"client.id": job["client_id"], **job["settings"]}
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", "-b", job["bootstrap"], "-m", str(SECONDS), *options, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=2 * SECONDS)
    said = done.stderr.decode()
    problem = next((text for text in CODES if text in said), None)
    if problem or done.returncode:
        raise CodedError(CODES.get(problem or ""), said)
    return done.stdout.decode()


def produce(job: Job) -> Job:
    """One run for each set of headers, which kcat takes for all the messages of a run."""
    for headers, group in itertools.groupby(job["records"], headers_of):
        options = ["-X", f"acks={job['acks']}", "-z", job["codec"]]
        options += ["-X", f"enable.idempotence={str(job['idempotent']).lower()}"]
        options += ["-X", "message.max.bytes=16000000", "-X", "linger.ms=20"]
        for name, value in headers:
            options += ["-H", name if value is None else f"{name}={value.decode()}"]
        lines = b"".join(line_of(record) for record in group)
        where = ["-P", "-t", job["topic"], "-p", str(job["partition"])]
        kcat(job, *where, *options, "-K", BETWEEN, "-D", END, "-Z", stdin=lines)
    return {"offsets": [None] * len(job["records"])}


def line_of(record: Job) -> bytes:
    """A message as kcat reads it: key, a mark, value, a mark; what is empty becomes null."""
    key, value = unpack(record["key"]), unpack(record["value"]) or b""
    start = b"" if key is None else key + BETWEEN.encode()
    return start + value + END.encode()


def consume(job: Job) -> Job:
    offset = OFFSETS.get(job["offset"], str(job["offset"]))
    where = ["-C", "-q", "-t", job["topic"], "-p", str(job["partition"]), "-o", offset]
    reset = ["-X", "topic.auto.offset.reset=error", "-X", "allow.auto.create.topics=false"]
    reset += ["-X", "fetch.wait.max.ms=100"]
    lines = kcat(job, *where, *reset, "-J", "-c", str(job["count"])).splitlines()
    return {"records": [as_json(json.loads(line)) for line in lines]}


def consume_in_group(job: Job) -> Job:
    """What was read is committed when kcat ends."""
    reset = ["-X", "auto.offset.reset=earliest", "-X", "fetch.wait.max.ms=100"]
    count = ["-J", "-q", "-c", str(job["count"])]
    lines = kcat(job, *reset, *count, "-G", job["group"], job["topic"]).splitlines()
    return {"records": [as_json(json.loads(line)) for line in lines]}


def as_json(message: Job) -> Job:
    pairs = message.get("headers", [])
    names_and_values = zip(pairs[::2], pairs[1::2], strict=True)
    return {
        "offset": message["offset"],
        "timestamp": message.get("ts"),
        "timestamp_type": {"create": "create", "logappend": "append"}.get(message.get("tstype")),
        "key": pack_text(message["key"]),
        "value": pack_text(message["payload"]),
        "headers": [{"name": name, "value": pack_text(value)} for name, value in names_and_values],
    }


def pack_text(text: str | None) -> str | None:
    return None if text is None else pack(text.encode())


def offset_at(job: Job) -> Job:
    answer = kcat(job, "-Q", "-t", f"{job['topic']}:{job['partition']}:{job['at']}")
    found = re.search(r"offset (-?\d+)", answer)
    assert found, answer
    return {"offset": int(found.group(1))}


def metadata(job: Job, *arguments: str) -> Any:
    return json.loads(kcat(job, "-L", "-J", *arguments))


def list_topics(job: Job) -> Job:
    return {"topics": [topic["topic"] for topic in metadata(job)["topics"]]}


def describe_topic(job: Job) -> Job:
    (topic,) = metadata(job, "-t", job["topic"])["topics"]
    if "error" in topic:
        raise CodedError(CODES.get(topic["error"]), topic["error"])
    return {
        "partitions": [
            {
                "id": part["partition"],
                "leader": part["leader"],
                "replicas": [node["id"] for node in part["replicas"]],
                "isr": [node["id"] for node in part["isrs"]],
            }
            for part in topic["partitions"]
        ]
    }


def describe_cluster(job: Job) -> Job:
    cluster = metadata(job)
    brokers = []
    for broker in cluster["brokers"]:
        host, _, port = broker["name"].rpartition(":")
        brokers.append({"id": broker["id"], "host": host, "port": int(port)})
    return {"cluster_id": None, "controller": cluster["controllerid"], "brokers": brokers}


VERBS = [
    produce,
    consume,
    consume_in_group,
    offset_at,
    list_topics,
    describe_topic,
    describe_cluster,
]

if __name__ == "__main__":
    serve({verb.__name__: verb for verb in VERBS}, lambda failure: None)
