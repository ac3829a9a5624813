"""Answers reach the transport byte for byte, gathered where that is cheaper, never cold."""

import pytest
from odradek.broker.network.budget import MemoryBudget
from odradek.broker.network.conversation import Conversation
from odradek.broker.network.floor import Floor
from odradek.broker.network.framing import FrameReader
from odradek.broker.network.peer import Address, Peer
from odradek.broker.network.sender import FileEndsEarly, Progress, Sender
from odradek.protocol.compiler import Part
from odradek.storage.files import Buffer, FileSlice

KILOBYTE = 1024
CONTENT = bytes(range(256)) * 16 * KILOBYTE  # 4 MiB


class SlowFile:
    """A file in memory of which only what was read ahead is in the page cache."""

    path = "slow"

    def __init__(self, content: bytes = CONTENT, *, is_warm: bool = True) -> None:
        self._content = content
        self._warm = range(len(content) + 1) if is_warm else range(0)
        self.reads: list[tuple[int, int]] = []

    def fileno(self) -> int:
        return -1

    def size(self) -> int:
        return len(self._content)

    def pread(self, length: int, position: int) -> bytes:
        self.reads.append((position, length))
        return self._content[position : position + length]

    def is_cached(self, position: int) -> bool:
        return position in self._warm

    def pread_cached(self, length: int, position: int) -> bytes | None:
        data = self.pread(length, position)
        return data if position in self._warm and len(data) == length else None

    def read_ahead(self, position: int, length: int) -> None:
        self._warm = range(position, position + length + 1)


class Wire:
    """A transport that takes so many bytes and no more, and remembers the calls."""

    def __init__(self, room: int = 10**9) -> None:
        self.room = room
        self.bytes = bytearray()
        self.calls: list[str] = []

    def fileno(self) -> int:
        return 3

    def receive_into(self, buffer: memoryview, /) -> int:
        raise BlockingIOError

    def send(self, data: Buffer, /) -> int:
        return self._take("send", data)

    def send_all(self, parts: list[Buffer], *, more: bool) -> int:
        return self._take("send_all+more" if more else "send_all", b"".join(parts))

    def send_slice(self, piece: FileSlice, most: int) -> int:
        return self._take("send_slice", piece.read()[:most])

    def hold_little(self) -> None:
        self.calls.append("hold_little")

    def hold_as_before(self) -> None:
        self.calls.append("hold_as_before")

    def is_broken(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def _take(self, call: str, data: Buffer) -> int:
        if data and not self.room:
            raise BlockingIOError
        taken = bytes(data[: self.room])
        self.room -= len(taken)
        self.bytes += taken
        self.calls.append(call)
        return len(taken)


class Driver:
    def advance(self) -> None:
        pass

    flush = advance


def a_sender(wire: Wire, *parts: Part, is_alone: bool = False) -> tuple[Sender, Conversation]:
    reader = FrameReader(memoryview(bytearray(100)), 100)
    peer = Peer("PLAINTEXT", Address("h", 1), Address("h", 2))
    conversation = Conversation(peer, reader, MemoryBudget(-1))
    conversation.driver = Driver()
    conversation.open_requests = 1
    conversation.answer(parts)
    floor = Floor()
    floor.heard(conversation)
    conversation.arrived_at += 1.0 if is_alone else 0.0
    return Sender(conversation, wire, floor), conversation  # type: ignore[arg-type]


def a_slice(position: int, length: int, file: SlowFile | None = None) -> FileSlice:
    return FileSlice(file or SlowFile(), position, length)  # type: ignore[arg-type]


def test_one_part_is_one_send() -> None:
    wire = Wire()
    sender, conversation = a_sender(wire, b"answer")
    assert sender.send() is Progress.DONE
    assert wire.calls == ["send"]
    assert conversation.unsent_bytes == 0


def test_bytes_and_small_slices_are_gathered_into_one_call() -> None:
    wire = Wire()
    sender, _ = a_sender(wire, b"head", a_slice(0, 100), b"middle", a_slice(1000, 200), b"tail")
    assert sender.send() is Progress.DONE
    assert wire.calls == ["send_all"]
    assert wire.bytes == b"head" + CONTENT[:100] + b"middle" + CONTENT[1000:1200] + b"tail"


def test_a_header_waits_for_the_large_slice_behind_it() -> None:
    wire = Wire()
    sender, _ = a_sender(wire, b"head", a_slice(0, 100 * KILOBYTE))
    assert sender.send() is Progress.DONE
    assert wire.calls == ["send_all+more", "send_slice"]


def test_a_large_slice_goes_piece_by_piece_and_others_have_their_turn_in_between() -> None:
    wire = Wire()
    sender, _ = a_sender(wire, a_slice(0, 2500 * KILOBYTE))
    assert [sender.send() for _ in range(10)] == [Progress.FULL] * 9 + [Progress.DONE]
    assert wire.calls == ["send_slice"] * 10
    assert wire.bytes == CONTENT[: 2500 * KILOBYTE]


def test_a_reader_that_is_alone_gets_a_megabyte_at_a_time() -> None:
    wire = Wire()
    sender, _ = a_sender(wire, a_slice(0, 2500 * KILOBYTE), is_alone=True)
    assert [sender.send() for _ in range(3)] == [Progress.FULL] * 2 + [Progress.DONE]
    assert wire.bytes == CONTENT[: 2500 * KILOBYTE]


def test_of_a_megabyte_only_what_is_warm_is_sent_at_once() -> None:
    wire = Wire()
    file = SlowFile()
    file._warm = range(600 * KILOBYTE)
    sender, _ = a_sender(wire, a_slice(0, 1024 * KILOBYTE, file), is_alone=True)
    assert [sender.send() for _ in range(2)] == [Progress.FULL, Progress.COLD]
    assert wire.bytes == CONTENT[: 512 * KILOBYTE]
    sender.cold_piece().read_ahead()
    assert sender.send() is Progress.FULL
    assert wire.bytes == CONTENT[: 768 * KILOBYTE]


def test_what_was_looked_at_once_is_not_looked_at_again() -> None:
    looks = []

    class Watched(SlowFile):
        def is_cached(self, position: int) -> bool:
            looks.append(position // KILOBYTE)
            return super().is_cached(position)

    sender, _ = a_sender(Wire(), a_slice(0, 768 * KILOBYTE, Watched()))
    while sender.send() is not Progress.DONE:
        pass
    assert looks == [0, 256, 512, 768]


def test_what_a_transport_left_of_a_piece_goes_with_the_next_one() -> None:
    wire = Wire(250 * KILOBYTE)
    sender, _ = a_sender(wire, a_slice(0, 500 * KILOBYTE))
    assert sender.send() is Progress.FULL
    wire.room = 10**9
    assert sender.send() is Progress.DONE
    assert wire.calls == ["send_slice"] * 2
    assert wire.bytes == CONTENT[: 500 * KILOBYTE]


@pytest.mark.parametrize("room", [1, 3, 7, 1000, 16 * KILOBYTE, 100 * KILOBYTE])
def test_a_transport_that_takes_little_gets_all_in_the_end(room: int) -> None:
    small = room < 100
    lengths = (10, 20, 30) if small else (500, 60 * KILOBYTE, 1200 * KILOBYTE)
    parts: list[Part] = [b"begin"]
    expected = b"begin"
    for length in lengths:
        parts += [a_slice(5, length), b"|" * 10]
        expected += CONTENT[5 : 5 + length] + b"|" * 10
    wire = Wire(room)
    sender, conversation = a_sender(wire, *parts)
    while sender.send() is not Progress.DONE:
        assert conversation.unsent_bytes == len(expected) - len(wire.bytes)
        wire.room = room
    assert wire.bytes == expected
    assert conversation.unsent_bytes == 0


@pytest.mark.parametrize("length", [100, 100 * KILOBYTE])
def test_a_cold_slice_is_not_sent_before_it_was_read_ahead(length: int) -> None:
    file = SlowFile(is_warm=False)
    wire = Wire()
    sender, _ = a_sender(wire, b"head", a_slice(4096, length, file), b"tail")
    assert sender.send() is Progress.COLD
    assert wire.bytes == b"head"
    sender.cold_piece().read_ahead()
    assert sender.send() is Progress.DONE
    assert wire.bytes == b"head" + CONTENT[4096 : 4096 + length] + b"tail"


def test_each_piece_of_a_large_cold_slice_is_prepared_on_its_own() -> None:
    file = SlowFile(is_warm=False)
    wire = Wire()
    sender, _ = a_sender(wire, a_slice(0, 2500 * KILOBYTE, file))
    prepared = []
    while (progress := sender.send()) is not Progress.DONE:
        if progress is Progress.COLD:
            piece = sender.cold_piece()
            prepared.append(len(piece))
            piece.read_ahead()
    assert prepared == [256 * KILOBYTE] * 9 + [196 * KILOBYTE]
    assert wire.bytes == CONTENT[: 2500 * KILOBYTE]


def test_the_socket_of_a_reader_that_met_cold_data_holds_little_for_a_while() -> None:
    wire = Wire()
    sender, conversation = a_sender(wire, a_slice(0, 512 * KILOBYTE, SlowFile(is_warm=False)))
    while (progress := sender.send()) is not Progress.DONE:
        if progress is Progress.COLD:
            sender.cold_piece().read_ahead()
    assert wire.calls == ["hold_little", "send_slice", "send_slice"]
    wire.calls.clear()
    for _ in range(5):
        conversation.open_requests = 1
        conversation.answer([a_slice(0, 4096 * KILOBYTE)])
        while sender.send() is not Progress.DONE:
            pass
    assert len(wire.calls) == 5 * 16 + 1
    assert wire.calls.index("hold_as_before") == 62


def test_a_slice_is_cold_until_what_begins_behind_it_can_be_looked_at() -> None:
    file = SlowFile(is_warm=False)
    sender, _ = a_sender(Wire(), a_slice(0, 100 * KILOBYTE, file))
    file._warm = range(100 * KILOBYTE)
    assert sender.send() is Progress.COLD
    sender.cold_piece().read_ahead()
    assert file.is_cached(100 * KILOBYTE)
    assert sender.send() is Progress.DONE


def test_a_piece_that_stays_cold_after_reading_ahead_is_sent_all_the_same() -> None:
    file = SlowFile(is_warm=False)
    sender, _ = a_sender(Wire(), a_slice(0, 100 * KILOBYTE, file))
    assert sender.send() is Progress.COLD
    sender.cold_piece()
    assert sender.send() is Progress.DONE


@pytest.mark.parametrize("length", [100, 100 * KILOBYTE])
def test_a_file_that_was_cut_below_the_slice_is_noticed(length: int) -> None:
    file = SlowFile(b"short")
    file._warm = range(10**6)
    sender, _ = a_sender(Wire(), a_slice(0, length, file))
    if length < 16 * KILOBYTE:
        # A small one is read at once; what is missing of it is looked for on the disk first.
        assert sender.send() is Progress.COLD
        sender.cold_piece().read_ahead()
    else:
        assert sender.send() is Progress.FULL
    with pytest.raises(FileEndsEarly):
        sender.send()


def test_a_sent_slice_does_not_keep_its_file_open() -> None:
    closed = []

    class Watched(SlowFile):
        def __del__(self) -> None:
            closed.append(True)

    sender, _ = a_sender(Wire(), a_slice(0, 100 * KILOBYTE, Watched()))
    assert sender.send() is Progress.DONE
    assert closed == [True]
