"""Compaction against a model: whatever happens to the log, its readers see the same table, what
was cleaned is clean, deletions are told for long enough, and producer state can be rebuilt."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from odradek.protocol.compression import Codec

from tests.support.effort import examples
from tests.unit.storage.cleaning_room import DELETE_RETENTION_MS, CleaningRoom

KEYS = st.sampled_from([b"a", b"b", b"c", b"\0\0\0\0", b"long" * 20])
ITEMS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=8)), min_size=1, max_size=4)
MAP_BYTES = st.sampled_from([1, 400, 600, 1 << 20])
TRANSACTIONAL = st.integers(0, 2)
IDEMPOTENT = st.integers(3, 4)

Items = list[tuple[bytes, bytes | None]]
Row = tuple[int, bytes | None, bytes | None]


class CompactionMachine(RuleBasedStateMachine):
    """The model keeps every record ever written and the fate of every transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.room = CleaningRoom(overrides={"segment.bytes": "700", "index.interval.bytes": "100"})
        self.written: dict[int, Row] = {}
        self.undecided: dict[int, list[int]] = {}
        self.aborted: set[int] = set()
        # When a record was first part of what a cleaning covered.
        self.covered_ms: dict[int, int] = {}
        self.log_start = 0
        self.last_offsets: dict[int, int] = {}

    def _note(self, base_offset: int, items: Items) -> list[int]:
        rows = [(base_offset + n, key, value) for n, (key, value) in enumerate(items)]
        self.written.update({row[0]: row for row in rows})
        return [row[0] for row in rows]

    def _restart_sequence_if_forgotten(self, producer: int) -> None:
        """With its data deleted and no snapshot only a marker tells of a producer; as in Kafka it
        has to begin anew then."""
        entry = self.room.log.producers.get(producer)
        if entry is not None and not entry.batches:
            self.room.sequences[producer] = 0

    # What happens ---------------------------------------------------------------------------

    @rule(items=ITEMS, codec=st.sampled_from([Codec.NONE, Codec.LZ4]))
    def put(self, items: Items, codec: Codec) -> None:
        self._note(self.room.put(*items, codec=codec), items)

    @rule(items=ITEMS, producer=IDEMPOTENT)
    def put_idempotently(self, items: Items, producer: int) -> None:
        self.last_offsets[producer] = self._note(self.room.put(*items, producer=producer), items)[
            -1
        ]

    @rule(items=ITEMS, producer=TRANSACTIONAL)
    def put_in_transaction(self, items: Items, producer: int) -> None:
        self._restart_sequence_if_forgotten(producer)
        base_offset = self.room.put(*items, producer=producer, in_transaction=True)
        offsets = self._note(base_offset, items)
        self.last_offsets[producer] = offsets[-1]
        self.undecided.setdefault(producer, []).extend(offsets)

    @rule(items=ITEMS, producer=TRANSACTIONAL, commit=st.booleans(), roll=st.booleans())
    def whole_transaction(self, items: Items, producer: int, commit: bool, roll: bool) -> None:
        self.put_in_transaction(items, producer)
        if roll:
            self.room.log.roll()
        self.end(producer, commit)

    @rule(producer=TRANSACTIONAL, commit=st.booleans())
    def end(self, producer: int, commit: bool) -> None:
        self.room.end(producer, commit=commit)
        offsets = self.undecided.pop(producer, [])
        if not commit:
            self.aborted.update(offsets)

    @rule(commits=st.lists(st.booleans(), min_size=3, max_size=3), map_bytes=MAP_BYTES)
    def end_all_and_clean(self, commits: list[bool], map_bytes: int) -> None:
        for producer in list(self.undecided):
            self.end(producer, commits[producer])
        self.room.log.roll()
        self.clean(map_bytes)

    @rule(map_bytes=MAP_BYTES)
    def clean(self, map_bytes: int) -> None:
        self.room.clean(map_bytes)
        for offset in self.written:
            if offset < (self.room.cleaned_to or 0):
                self.covered_ms.setdefault(offset, self.room.clock.now_ms())
        self._check_that_it_is_clean()

    @rule(keep_snapshots=st.booleans())
    def clean_beyond_the_horizon(self, keep_snapshots: bool) -> None:
        """All that a delete horizon protects goes, and then state is read from what is left."""
        self.end_all_and_clean([True, False, True], 1 << 20)
        self.clean(1 << 20)
        self.room.wait_past_the_delete_horizon()
        self.clean(1 << 20)
        self.restart(True, keep_snapshots)

    @rule()
    def roll(self) -> None:
        self.room.log.roll()

    @rule(milliseconds=st.sampled_from([1, 600, 1500]))
    def wait(self, milliseconds: int) -> None:
        self.room.clock.advance(milliseconds)

    @rule(is_clean=st.booleans(), keep_snapshots=st.booleans())
    def restart(self, is_clean: bool, keep_snapshots: bool) -> None:
        room = self.room
        if is_clean:
            room.log.close()
            room.checkpoint()
        else:
            room.log.segments.release()
        if not keep_snapshots:
            for name in room.names():
                if name.endswith(".snapshot"):
                    room.files.remove(f"{room.directory}/{name}")
        room.open(is_clean=is_clean)
        room.replicate()

    @rule(map_bytes=MAP_BYTES)
    def lose_power_after_a_cleaning(self, map_bytes: int) -> None:
        """Nothing of the swap was synced, nor was the cleaner's checkpoint."""
        self.room.log.flush()
        self.room.checkpoint()
        self.room.clean(map_bytes)
        self.room.cut_power_and_open()
        self.room.replicate()
        self.room.cleaned_to = None

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        """As far as no open transaction begins; its first offset could not be found again."""
        opened = [offsets[0] for offsets in self.undecided.values()]
        log = self.room.log
        end = min([log.high_watermark, *opened])
        log.advance_log_start(log.log_start_offset + int((end - log.log_start_offset) * fraction))
        log.apply_retention()
        self.room.checkpoint()
        self.log_start = log.log_start_offset

    @rule()
    def forget_the_checkpoint(self) -> None:
        self.room.cleaned_to = None

    # What must hold -------------------------------------------------------------------------

    def _committed_rows(self, end: int) -> list[Row]:
        """What was committed below `end`, had nothing ever been cleaned."""
        rows = sorted(self.written.items())
        return [
            row
            for offset, row in rows
            if self.log_start <= offset < end and offset not in self.aborted
        ]

    def _check_that_it_is_clean(self) -> None:
        """Right after a cleaning, below its end: each key once, nothing aborted."""
        cleaned_to = self.room.cleaned_to or 0
        rows = [row for row in self.room.records() if row[0] < cleaned_to]
        assert not [row for row in rows if row[0] in self.aborted]
        keys = [key for _, key, _ in rows]
        assert len(keys) == len(set(keys))

    @invariant()
    def readers_see_the_same_table(self) -> None:
        opened = [offset for offsets in self.undecided.values() for offset in offsets]
        expected: dict[bytes, bytes] = {}
        for _, key, value in self._committed_rows(min(opened, default=1 << 60)):
            assert key is not None
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value
        assert self.room.table() == expected

    @invariant()
    def whatever_is_left_was_written_there(self) -> None:
        rows = self.room.records()
        assert all(self.written[row[0]] == row for row in rows)
        offsets = [row[0] for row in rows]
        assert offsets == sorted(set(offsets))

    @invariant()
    def nothing_in_the_active_segment_is_missing(self) -> None:
        start = self.room.log.segments.active.base_offset
        present = {row[0] for row in self.room.records()}
        assert {offset for offset in self.written if offset >= start} <= present

    @invariant()
    def deletions_are_told_for_long_enough(self) -> None:
        """The last record of a key that is a tombstone stays for delete.retention.ms after the
        first cleaning that covered it."""
        now_ms = self.room.clock.now_ms()
        present = {row[0] for row in self.room.records()}
        last = {row[1]: row for row in self._committed_rows(1 << 60)}
        for offset, _, value in last.values():
            covered_ms = self.covered_ms.get(offset, now_ms)
            if value is not None or now_ms < covered_ms + DELETE_RETENTION_MS:
                assert offset in present

    @invariant()
    def producers_go_on(self) -> None:
        """Also when their state had to be rebuilt from the batches alone."""
        for producer, following in self.room.sequences.items():
            entry = self.room.log.producers.get(producer)
            if entry is None or not entry.batches:
                assert self.last_offsets[producer] < self.log_start
                continue
            assert entry.next_sequence == following
            opened = self.undecided.get(producer)
            assert entry.txn_first_offset == (opened[0] if opened else -1)


TestCompaction = CompactionMachine.TestCase
TestCompaction.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
