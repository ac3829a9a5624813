"""A room with one compacted log: keyed batches, transactions, cleaning, and a consumer."""

from dataclasses import dataclass, field

from odradek.protocol.compression import Codec
from odradek.protocol.records import (
    BatchHeader,
    ProducerStamp,
    Record,
    build_batch,
    iter_headers,
    iter_records,
    read_end_txn_marker,
)
from odradek.storage.cleaning import prepare, survey, swap_in
from odradek.storage.compaction import CleaningJob, clean_segments
from odradek.storage.log_reading import Isolation

from tests.unit.storage.log_room import Room

DELETE_RETENTION_MS = 1000

Item = tuple[bytes, bytes | None]


@dataclass
class CleaningRoom(Room):
    cleaned_to: int | None = None
    sequences: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.overrides = {
            "cleanup.policy": "compact",
            "delete.retention.ms": str(DELETE_RETENTION_MS),
            **self.overrides,
        }
        super().__post_init__()

    # Writing --------------------------------------------------------------------------------

    def put(
        self,
        *items: Item,
        producer: int = -1,
        in_transaction: bool = False,
        epoch: int = 0,
        codec: Codec = Codec.NONE,
    ) -> int:
        """Append one batch, replicated at once; returns its base offset."""
        now = self.clock.now_ms()
        records = [Record(n, now, key, value) for n, (key, value) in enumerate(items)]
        stamp = ProducerStamp()
        if producer >= 0:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + len(items)
            stamp = ProducerStamp(producer, epoch, sequence, in_transaction)
        data = bytearray(build_batch(records, codec, producer=stamp))
        info = self.log.append_as_leader(data, leader_epoch=0)
        self.replicate()
        return info.first_offset

    def end(self, producer: int, *, commit: bool) -> None:
        self.end_transaction(producer, commit=commit)
        self.replicate()

    def replicate(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)

    # Cleaning -------------------------------------------------------------------------------

    def job(self, map_bytes: int = 1 << 20) -> CleaningJob | None:
        now_ms = self.clock.now_ms()
        dirty = survey(self.log, self.cleaned_to, now_ms)
        if not any(span for span in self.log.segments if span is not self.log.segments.active):
            return None
        job = prepare(self.log, dirty, now_ms=now_ms, map_bytes=map_bytes)
        return job if job.segments else None

    def clean(self, map_bytes: int = 1 << 20) -> None:
        """One cleaning of whatever may be cleaned, dirty enough or not."""
        if (job := self.job(map_bytes)) is None:
            return
        cleaned = clean_segments(job, self.files)
        self.cleaned_to = swap_in(self.log, job, cleaned, files=self.files)

    def roll_and_clean(self, map_bytes: int = 1 << 20) -> None:
        self.log.roll()
        self.clean(map_bytes)

    def wait_past_the_delete_horizon(self) -> None:
        self.clock.advance(DELETE_RETENTION_MS + 1)

    # Reading --------------------------------------------------------------------------------

    def headers(self) -> list[BatchHeader]:
        return [h for segment in self.log.segments for _, h in segment.batches.headers()]

    def raw(self) -> bytes:
        """All batches of the log as they lie there."""
        return b"".join(s.batches.read(0, s.size) for s in self.log.segments)

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """(offset, key, value) of every record but markers."""
        data = self.raw()
        return [
            (record.offset, record.key, record.value)
            for position, header in iter_headers(data)
            if not header.is_control
            for record in iter_records(data, position, header)
        ]

    def markers(self) -> list[int]:
        return [h.base_offset for h in self.headers() if h.is_control and h.count]

    def committed(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a read_committed consumer is given, by the rules that clients follow."""
        found: list[tuple[int, bytes | None, bytes | None]] = []
        offset = self.log.log_start_offset
        while True:
            result = self.log.read(offset, 500, isolation=Isolation.LAST_STABLE)
            if result.records is None:
                return found
            data = result.records.read()
            pending = sorted(result.aborted or [], key=lambda txn: txn.first_offset)
            aborted: set[int] = set()
            for position, header in iter_headers(data):
                while pending and pending[0].first_offset <= header.last_offset:
                    aborted.add(pending.pop(0).producer_id)
                offset = header.next_offset
                rows = list(iter_records(data, position, header))
                if header.is_control:
                    marker = read_end_txn_marker(rows[0]) if rows else None
                    if marker is not None and not marker.commit:
                        aborted.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborted):
                    found += [(r.offset, r.key, r.value) for r in rows]

    def table(self) -> dict[bytes, bytes]:
        """The state a consumer builds: the last committed value of each key."""
        state: dict[bytes, bytes] = {}
        for offset, key, value in self.committed():
            if offset < self.log.log_start_offset:
                continue  # it shares a batch with the first record
            assert key is not None
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        return state
