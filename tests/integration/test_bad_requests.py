"""Bad records, names and numbers sent to a whole broker, and brokers that are told to refuse.

After every case the broker is alive, serves a connection that was there before, has given back
all memory and descriptors, and has made no directory for what it refused.
"""

import errno
import os
import resource
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from odradek.protocol.compression import Codec, compress
from odradek.protocol.errors import Errors
from odradek.protocol.messages.log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.topics import DeleteTopicsRequest
from odradek.protocol.records import write_crc

from tests.behaviours.asking import Asker, batch
from tests.behaviours.bad_input import BAD_BATCHES, ILLEGAL_NAMES
from tests.integration.odradek_process import Odradek
from tests.support.network_probe import MEGABYTE, ServerProbe
from tests.support.raw_client import RawClient, close_all

TOPICS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "lz4"},
}
BATCH_HEADER_BYTES = 61
# What one request may take of memory while its records are opened.
OPENED_BYTES = 300 * MEGABYTE


def directories(broker: Odradek) -> set[Path]:
    return {path for path in broker.data_dir.rglob("*") if path.is_dir()}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Odradek]:
    with Odradek(tmp_path_factory.mktemp("broker") / "data") as broker:
        asker = Asker(broker.port)
        for name, configs in TOPICS.items():
            assert asker.create(name, configs=configs).error_code == 0
            assert asker.produce(name, batch(key=b"k")).error_code == 0
            assert asker.fetch(name, 0).error_code == 0
        asker.close()
        yield broker


@pytest.fixture(scope="module")
def running(broker: Odradek) -> Iterator[ServerProbe]:
    probe = ServerProbe(broker.process, broker.port)
    yield probe
    probe.bystander.close()


@pytest.fixture
def asker(broker: Odradek, running: ServerProbe) -> Iterator[Asker]:
    before = directories(broker)
    asker = Asker(broker.port)
    yield asker
    asker.close()
    running.check_well()
    assert directories(broker) == before
    assert not [line for line in broker.process.output if "Traceback" in line]


# Records ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_nothing_is_left_of_a_bad_batch(asker: Asker, case: str) -> None:
    records, _ = BAD_BATCHES[case]
    end = asker.list_offset("plain", -1).offset
    assert asker.produce("plain", records).error_code > 0
    assert asker.list_offset("plain", -1).offset == end


def carrying(codec: Codec, body: bytes) -> bytes:
    """A batch whose header is right and whose checksum holds, whatever is in it."""
    made = bytearray(batch(key=b"k")[:BATCH_HEADER_BYTES] + body)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, codec)
    write_crc(made, 0, len(made))
    return bytes(made)


def gzip_bomb() -> bytes:
    """300 MB of zeros in 300 KB, as one stream."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = deflate.compress(b"") + deflate.flush(zlib.Z_FULL_FLUSH)
    return head + 300 * (deflate.compress(bytes(MEGABYTE)) + deflate.flush(zlib.Z_FULL_FLUSH))


BOMBS = {
    "gzip": carrying(Codec.GZIP, gzip_bomb()),
    "zstd": carrying(Codec.ZSTD, 300 * compress(Codec.ZSTD, bytes(MEGABYTE))),
    "snappy that claims 4 GB": carrying(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100)),
}


@pytest.mark.parametrize("topic", ["compacted", "recompressed"])
@pytest.mark.parametrize("case", BOMBS)
def test_a_bomb_is_refused_and_its_memory_given_back(
    running: ServerProbe, asker: Asker, case: str, topic: str
) -> None:
    running.forget_peak()
    assert asker.produce(topic, BOMBS[case]).error_code == Errors.INVALID_RECORD
    assert running.peak_bytes() < running.baseline_bytes + OPENED_BYTES


def test_a_bomb_that_nobody_opens_costs_nothing(running: ServerProbe, asker: Asker) -> None:
    running.forget_peak()
    assert asker.produce("plain", BOMBS["gzip"]).error_code == 0
    assert running.peak_bytes() < running.baseline_bytes + 16 * MEGABYTE


# Names and numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("illegal", ILLEGAL_NAMES, ids=repr)
def test_an_illegal_name_never_touches_the_disk(asker: Asker, illegal: str) -> None:
    assert asker.create(illegal).error_code == Errors.INVALID_TOPIC_EXCEPTION
    for auto_create in (True, False):
        (topic,) = asker.metadata([illegal], auto_create=auto_create).topics
        assert topic.error_code == Errors.INVALID_TOPIC_EXCEPTION
    assert asker.produce(illegal, batch()).error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert asker.fetch(illegal, 0).error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("partitions", [0, -2, -(2**31), 1_000_000, 2**31 - 1])
def test_an_impossible_number_of_partitions_never_touches_the_disk(
    asker: Asker, partitions: int
) -> None:
    error = Errors.POLICY_VIOLATION if partitions > 0 else Errors.INVALID_PARTITIONS
    assert asker.create("impossible", partitions).error_code == error


# Descriptors --------------------------------------------------------------------------------


def test_connections_that_take_all_descriptors_do_not_cost_a_disk(tmp_path: Path) -> None:
    with Odradek(tmp_path / "data") as broker:
        asker = Asker(broker.port)
        assert asker.create("t").error_code == 0
        assert asker.produce("t", batch()).error_code == 0
        pid = broker.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        held = len(os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (held + 5, before[1]))
        clients = [RawClient(broker.port) for _ in range(40)]
        broker.process.wait_for_line(os.strerror(errno.EMFILE))
        assert asker.produce("t", batch()).base_offset == 1
        close_all(clients)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        (directory,) = asker.ask(DescribeLogDirsRequest(topics=None), 4).results
        assert directory.error_code == 0
        assert asker.create("u").error_code == 0
        assert asker.produce("u", batch()).error_code == 0
        asker.close()


# Brokers that are told to refuse ------------------------------------------------------------


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    settings = {"delete.topic.enable": "false", "auto.create.topics.enable": "false"}
    with Odradek(tmp_path_factory.mktemp("strict") / "data", settings=settings) as broker:
        asker = Asker(broker.port)
        assert asker.create("t").error_code == 0
        yield asker
        asker.close()


@pytest.mark.parametrize(
    ("version", "error"),
    [(2, Errors.INVALID_REQUEST), (3, Errors.TOPIC_DELETION_DISABLED)],
)
def test_topics_stay_where_deletion_is_switched_off(
    strict: Asker, version: int, error: int
) -> None:
    answer = strict.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), version)
    assert [result.error_code for result in answer.responses] == [error]
    assert strict.metadata(["t"]).topics[0].error_code == 0


def test_a_name_makes_no_topic_where_that_is_switched_off(strict: Asker) -> None:
    for _ in range(2):
        (topic,) = strict.metadata(["unheard-of"], auto_create=True).topics
        assert topic.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_name_makes_no_topic_that_needs_more_brokers_than_there_are(tmp_path: Path) -> None:
    settings = {"default.replication.factor": "3"}
    with Odradek(tmp_path / "data", settings=settings) as broker:
        asker = Asker(broker.port)
        (topic,) = asker.metadata(["large"], auto_create=True).topics
        assert topic.error_code == Errors.INVALID_REPLICATION_FACTOR
        asker.close()
