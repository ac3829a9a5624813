"""A log on disk that is written together with a note of every record, as Kafka's tool shows it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from odradek.protocol.compression import Codec
from odradek.protocol.records import ProducerStamp, Record, build_batch
from odradek.storage.producer_snapshots import SnapshotEntry

from tests.integration.dumped_segments import DumpedRecord
from tests.unit.storage.cleaning_room import CleaningRoom

WORDS = ["no", "fixed", "abode", "he", "says", "and", "laughs", "without", "lungs"]


@dataclass
class NotedLog(CleaningRoom):
    notes: list[DumpedRecord] = field(default_factory=list)
    leader_epoch: int = 0
    random: Random = field(default_factory=lambda: Random(11))

    # Writing --------------------------------------------------------------------------------

    def some_records(self, count: int, *, keys: int = 0) -> list[Record]:
        """Records of all shapes: with and without key, value and headers, in and out of time."""
        rng = self.random
        records = []
        for number in range(count):
            key = b"key %d" % rng.randrange(keys) if keys else rng.choice([None, b"", b"key"])
            value = rng.choice([None, b"", b" ".join(self._some_words()), self._some_noise()])
            words = rng.sample(WORDS, rng.randrange(3))
            headers = tuple((word, word.encode()) for word in words)
            timestamp = self.clock.now_ms() + rng.randrange(-5000, 5000)
            records.append(Record(number, timestamp, key, value, headers))
        self.clock.advance(rng.randrange(1000))
        return records

    def _some_words(self) -> list[bytes]:
        return [word.encode() for word in self.random.choices(WORDS, k=self.random.randrange(30))]

    def _some_noise(self) -> bytes:
        return self.random.randbytes(self.random.randrange(100)).hex().encode()

    def write(
        self,
        records: Sequence[Record],
        codec: Codec = Codec.NONE,
        *,
        producer: int = -1,
        epoch: int = 0,
        in_transaction: bool = False,
    ) -> None:
        """Append one batch and note its records."""
        stamp = ProducerStamp()
        if producer >= 0:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + len(records)
            stamp = ProducerStamp(producer, epoch, sequence, in_transaction)
        data = bytearray(build_batch(records, codec, producer=stamp))
        info = self.log.append_as_leader(data, leader_epoch=self.leader_epoch)
        self.replicate()
        for number, record in enumerate(records):
            self._note(record, info.first_offset + number, codec, stamp, number)

    def _note(
        self, record: Record, offset: int, codec: Codec, stamp: ProducerStamp, number: int
    ) -> None:
        config = self.log.config
        stored_as = codec.name.lower()
        if config.compression_type != "producer":
            stored_as = config.compression_type.replace("uncompressed", "none")
        self.notes.append(
            DumpedRecord(
                offset=offset,
                timestamp=self.clock.now_ms() if config.uses_append_time else record.timestamp,
                timestamp_type="LogAppendTime" if config.uses_append_time else "CreateTime",
                key=_text(record.key),
                value=_text(record.value),
                header_keys=tuple(name for name, _ in record.headers),
                codec=stored_as,
                producer_id=stamp.producer_id,
                producer_epoch=stamp.producer_epoch,
                sequence=stamp.base_sequence + number if stamp.base_sequence >= 0 else -1,
                leader_epoch=self.leader_epoch,
                is_transactional=stamp.is_transactional,
                marker=None,
            )
        )

    def finish(self, producer: int, *, commit: bool, epoch: int = 0) -> None:
        """End a producer's transaction with a marker, and note that."""
        info = self.end_transaction(producer, commit=commit, epoch=epoch)
        self.replicate()
        self.notes.append(
            DumpedRecord(
                offset=info.first_offset,
                timestamp=self.clock.now_ms(),
                timestamp_type="CreateTime",
                key=None,
                value=None,
                header_keys=(),
                codec="none",
                producer_id=producer,
                producer_epoch=epoch,
                sequence=-1,
                leader_epoch=0,
                is_transactional=True,
                marker="COMMIT" if commit else "ABORT",
            )
        )

    # What must have come of it --------------------------------------------------------------

    def aborted_offsets(self) -> set[int]:
        """The offsets of data whose transaction was aborted."""
        aborted: set[int] = set()
        open_data: dict[int, list[int]] = {}
        for note in self.notes:
            if note.marker is not None:
                ended = open_data.pop(note.producer_id, [])
                aborted.update(ended if note.marker == "ABORT" else [])
            elif note.is_transactional:
                open_data.setdefault(note.producer_id, []).append(note.offset)
        return aborted

    def last_of_each_key(self) -> dict[str | None, int]:
        """The last committed offset of each key below the point up to which the log is clean."""
        aborted, end = self.aborted_offsets(), self.cleaned_to or 0
        return {
            note.key: note.offset
            for note in self.notes
            if note.marker is None and note.offset not in aborted and note.offset < end
        }

    def producers(self) -> list[SnapshotEntry]:
        return [entry.to_snapshot() for entry in self.log.producers.entries()]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
