"""The short way into a log and the long one: the same batches, the same log."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.compression import Codec
from odradek.protocol.errors import KafkaError
from odradek.protocol.records import ProducerStamp, Record, build_batch
from odradek.storage.ordinary import read_continuing, read_ordinary, takes_ordinary_from
from odradek.storage.validation import Origin

from tests.unit.storage.log_room import DEFAULTS, START_MS, Room, batch


def log_bytes(room: Room) -> bytes:
    return b"".join(s.batches.read(0, s.size) for s in room.log.segments)


def state(room: Room) -> object:
    producers = [e.to_snapshot() for e in room.log.producers.entries()]
    indexes = [
        (s.offset_index.entries(), s.time_index.entries(), s.latest) for s in room.log.segments
    ]
    return log_bytes(room), room.log.bounds(), room.log.epochs.entries, producers, indexes


def both_ways(overrides: dict[str, str]) -> tuple[Room, Room]:
    """A log that may take the short way, and one that asks for timestamps and so never does."""
    short = Room(overrides=overrides)
    long = Room(overrides=overrides | {"message.timestamp.after.max.ms": str(10**15)})
    assert Origin.CLIENT in takes_ordinary_from(short.config)
    assert Origin.CLIENT not in takes_ordinary_from(long.config)
    return short, long


codecs = st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4])
produced = st.tuples(
    st.lists(st.binary(max_size=200), min_size=1, max_size=12),
    codecs,
    st.integers(-1, 2),  # producer
    st.integers(0, 3),  # leader epoch steps
    st.integers(-1, 20_000),  # timestamp
    st.booleans(),  # sent twice
)


@given(st.lists(produced, max_size=12))
def test_both_ways_lead_to_the_same_log(
    batches: list[tuple[list[bytes], Codec, int, int, int, bool]],
) -> None:
    short, long = both_ways({"segment.bytes": "1500", "index.interval.bytes": "300"})
    sequences = dict.fromkeys(range(3), 0)
    epoch = 0
    for values, codec, producer, epoch_step, moment, is_repeated in batches:
        epoch += epoch_step // 3
        stamp = ProducerStamp()
        if producer >= 0:
            stamp = ProducerStamp(producer, 0, sequences[producer])
            sequences[producer] += len(values)
        timestamp = START_MS + moment if moment >= 0 else -1
        records = [Record(i, timestamp, b"k", value) for i, value in enumerate(values)]
        data = build_batch(records, producer=stamp, codec=codec)
        for _ in range(1 + is_repeated):
            answers = [
                room.log.append_as_leader(bytearray(data), leader_epoch=epoch)
                for room in (short, long)
            ]
            assert answers[0] == answers[1]
    assert state(short) == state(long)


written = st.tuples(
    st.lists(st.binary(max_size=200), min_size=1, max_size=3),
    codecs,
    st.integers(-1, 1),  # producer
    st.integers(0, 3),  # leader epoch steps
)


@given(st.lists(written, max_size=12))
def test_both_ways_of_a_coordinator_lead_to_the_same_log(
    batches: list[tuple[list[bytes], Codec, int, int]],
) -> None:
    """What cannot be stamped in place takes the long way."""
    overrides = {"segment.bytes": "1500", "index.interval.bytes": "300"}
    overrides["cleanup.policy"] = "compact"
    short, long = Room(overrides=overrides), Room(overrides=overrides)
    epoch = 0
    for values, codec, producer, epoch_step in batches:
        epoch += epoch_step // 3
        stamp = ProducerStamp(producer, 0, producer - 1) if producer >= 0 else ProducerStamp()
        records = [Record(i, START_MS, b"k", value) for i, value in enumerate(values)]
        data = build_batch(records, producer=stamp, codec=codec)
        answers = [
            room.log.append_as_leader(buffer, leader_epoch=epoch, origin=Origin.COORDINATOR)
            for room, buffer in ((short, bytearray(data)), (long, bytes(data)))
        ]
        assert answers[0] == answers[1]
    assert state(short) == state(long)


def broken(change: Callable[[bytearray], None]) -> bytearray:
    data = batch(b"a", b"b", b"c")
    change(data)
    return data


def set_byte(position: int, value: int) -> Callable[[bytearray], None]:
    return lambda data: data.__setitem__(position, value)


@pytest.mark.parametrize("position", range(61 + 8))
def test_a_batch_that_is_not_ordinary_gets_the_long_ways_answer(position: int) -> None:
    """Each byte of the header, and a few behind it, changed in turn."""
    for value in (0, 1, 5, 0x20, 0xFF):
        short, long = both_ways({})
        answers: list[object] = []
        for room in (short, long):
            room.append(b"first")
            data = broken(set_byte(position, value))
            try:
                answers.append(room.log.append_as_leader(data, leader_epoch=0))
            except KafkaError as error:
                answers.append((error.error, error.message))
        assert answers[0] == answers[1]
        assert state(short) == state(long)


# A follower's short way ----------------------------------------------------------------------


def copied_both_ways(sent: list[bytes]) -> tuple[Room, Room, list[object]]:
    """Two followers' logs after what their leader sent, the second of which knows no short way;
    and what differed between their answers."""
    rooms, answers = [], []
    for reading in (read_continuing, lambda *_: None):
        room = Room(overrides={"segment.bytes": "1500", "index.interval.bytes": "300"})
        answered: list[object] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("odradek.storage.log.read_continuing", reading)
            for data in sent:
                try:
                    answered.append(room.log.append_as_follower(memoryview(data)))
                except KafkaError as error:
                    answered.append((error.error, error.message))
        rooms.append(room)
        answers.append(answered)
    return rooms[0], rooms[1], [pair for pair in zip(*answers, strict=True) if pair[0] != pair[1]]


@given(st.lists(produced, max_size=12))
def test_followers_copy_the_same_log_both_ways(
    batches: list[tuple[list[bytes], Codec, int, int, int, bool]],
) -> None:
    leader = Room()
    epoch, sent = 0, []
    for number, (values, codec, producer, epoch_step, moment, is_repeated) in enumerate(batches):
        epoch += epoch_step // 3
        stamp = ProducerStamp(number, 0, 0) if producer >= 0 else ProducerStamp()
        timestamp = START_MS + moment if moment >= 0 else -1
        records = [Record(i, timestamp, b"k", value) for i, value in enumerate(values)]
        data = bytearray(build_batch(records, producer=stamp, codec=codec))
        leader.log.append_as_leader(data, leader_epoch=epoch)
        sent.append(bytes(data))
        if is_repeated and len(sent) > 1:
            sent[-2:] = [sent[-2] + sent[-1]]
    short, long, differing = copied_both_ways(sent)
    assert not differing
    assert state(short) == state(long)
    assert short.log.log_end_offset == leader.log.log_end_offset


@pytest.mark.parametrize("position", range(61 + 8))
def test_a_damaged_batch_of_a_leader_gets_the_long_ways_answer(position: int) -> None:
    for value in (0, 1, 5, 0x20, 0xFF):
        leader = Room()
        leader.log.append_as_leader(first := batch(b"first"), leader_epoch=0)
        leader.log.append_as_leader(second := batch(b"a", b"b", b"c"), leader_epoch=0)
        second[position] = value
        short, long, differing = copied_both_ways([bytes(first), bytes(second), bytes(second[:50])])
        assert not differing
        assert state(short) == state(long)


# What is ordinary ---------------------------------------------------------------------------


def test_only_buffers_that_can_be_stamped_are_ordinary() -> None:
    data = batch(b"a")
    assert read_ordinary(data, 1000) is not None
    assert read_ordinary(memoryview(data), 1000) is not None
    assert read_ordinary(memoryview(bytes(data)), 1000) is None
    assert read_ordinary(data, len(data) - 1) is None
    assert read_ordinary(bytearray(data[:40]), 1000) is None
    room = Room()
    assert room.log.append_as_leader(bytes(data), leader_epoch=0).first_offset == 0
    assert room.log.append_as_leader(bytes(data), leader_epoch=0).first_offset == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.type", "lz4"),
        ("message.timestamp.type", "LogAppendTime"),
        ("cleanup.policy", "compact"),
        ("message.timestamp.before.max.ms", "1000"),
        ("message.timestamp.after.max.ms", "1000"),
    ],
)
def test_topics_that_look_into_batches_take_none_the_short_way(name: str, value: str) -> None:
    assert Origin.CLIENT in takes_ordinary_from(DEFAULTS)
    changed = DEFAULTS.with_overrides({name: value})
    assert Origin.CLIENT not in takes_ordinary_from(changed)
    assert (Origin.COORDINATOR in takes_ordinary_from(changed)) is (name not in _CHANGING)


_CHANGING = ("compression.type", "message.timestamp.type")
