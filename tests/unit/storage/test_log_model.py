"""A log against a list: whatever is done to it, it holds what the list holds."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from odradek.storage.log_reading import Isolation

from tests.support.effort import examples
from tests.unit.storage.log_room import START_MS, Room, replicated, values_in

sizes = st.lists(st.integers(0, 120), min_size=1, max_size=4)
fractions = st.floats(0, 1)


class LogAgainstList(RuleBasedStateMachine):
    """The model is every (offset, value) from the first segment on, and the bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[int, bytes]] = []
        self.batch_starts: list[int] = []
        self.log_start = 0
        self.log_end = 0
        self.flushed_end = 0
        self.has_unsynced_cut = False
        self.counter = 0
        self.epoch = 0

    @initialize(
        segment_bytes=st.integers(600, 3000),
        interval=st.integers(0, 600),
        index_bytes=st.sampled_from([48, 120, 100_000]),
    )
    def begin(self, segment_bytes: int, interval: int, index_bytes: int) -> None:
        self.room = Room(
            overrides={
                "segment.bytes": str(segment_bytes),
                "index.interval.bytes": str(interval),
                "segment.index.bytes": str(index_bytes),
                "retention.ms": "-1",
            }
        )

    def values(self, lengths: list[int]) -> list[bytes]:
        self.counter += 1
        return [b"%d/%d" % (self.counter, i) + b"." * n for i, n in enumerate(lengths)]

    def offset_at(self, fraction: float) -> int:
        return self.log_start + int((self.log_end - self.log_start) * fraction)

    def remember(self, first: int, values: list[bytes]) -> None:
        self.batch_starts.append(first)
        self.records += [(first + i, value) for i, value in enumerate(values)]
        self.log_end = first + len(values)

    # Writing --------------------------------------------------------------------------------

    @rule(lengths=sizes)
    def append_as_leader(self, lengths: list[int]) -> None:
        values = self.values(lengths)
        info = self.room.append(*values, epoch=self.epoch, timestamp=START_MS + self.log_end * 10)
        assert info.first_offset == self.log_end
        self.remember(info.first_offset, values)

    @rule(lengths=sizes, gap=st.integers(0, 5), count=st.integers(1, 4))
    def append_as_follower(self, lengths: list[int], gap: int, count: int) -> None:
        data = b""
        for _ in range(count):
            values = self.values(lengths)
            first = self.log_end + gap
            data += replicated(
                *values, offset=first, epoch=self.epoch, timestamp=START_MS + first * 10
            )
            self.remember(first, values)
        self.room.log.append_as_follower(data)

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.room.log.roll()

    @rule(fraction=fractions)
    def commit(self, fraction: float) -> None:
        self.room.log.update_high_watermark(self.offset_at(fraction))

    # Cutting --------------------------------------------------------------------------------

    @rule(fraction=fractions)
    def truncate(self, fraction: float) -> None:
        offset = self.offset_at(fraction)
        self.room.log.truncate_to(offset)
        if offset >= self.log_end:
            return
        inside = [start for start in self.batch_starts if start <= offset]
        if inside and offset in {held for held, _ in self.records}:
            offset = inside[-1]
        kept = [held + 1 for held, _ in self.records if held < offset]
        base = self.room.log.segments.active.base_offset
        offset = max([base, *kept])
        self.log_end = offset
        self.records = [row for row in self.records if row[0] < offset]
        self.batch_starts = [start for start in self.batch_starts if start < offset]
        self.log_start = min(self.log_start, offset)
        self.flushed_end = min(self.flushed_end, offset)
        self.has_unsynced_cut = True
        self.epoch += 1

    @rule(distance=st.integers(0, 50))
    def start_over(self, distance: int) -> None:
        offset = self.log_end + distance
        self.room.log.truncate_fully_and_start_at(offset)
        self.records, self.batch_starts = [], []
        self.log_start = self.log_end = offset
        self.flushed_end = 0
        self.has_unsynced_cut = True
        self.epoch += 1

    @rule(fraction=fractions)
    def delete_records(self, fraction: float) -> None:
        offset = self.offset_at(fraction)
        self.room.log.update_high_watermark(self.log_end)
        self.room.log.advance_log_start(offset)
        self.log_start = offset

    @rule(keep_bytes=st.integers(0, 5000))
    def retain(self, keep_bytes: int) -> None:
        self.room.overrides["retention.bytes"] = str(keep_bytes)
        self.room.log.use_config(self.room.config)
        self.room.log.apply_retention()
        self.log_start = self.room.log.log_start_offset
        assert self.log_start <= self.room.log.high_watermark
        self.room.overrides["retention.bytes"] = "-1"
        self.room.log.use_config(self.room.config)

    # Stopping -------------------------------------------------------------------------------

    @rule()
    def flush(self) -> None:
        self.room.log.flush()
        self.flushed_end = self.log_end
        self.has_unsynced_cut = False

    @rule()
    def restart_cleanly(self) -> None:
        self.room.stop_and_open()
        self.flushed_end = self.log_end
        self.has_unsynced_cut = False
        self.adopt_start()

    @rule(knows_recovery_point=st.booleans())
    def kill(self, knows_recovery_point: bool) -> None:
        self.room.checkpoint()
        if not knows_recovery_point:
            self.room.recovery_point = 0
        self.room.kill_and_open()
        self.adopt_end()

    @precondition(lambda self: not self.has_unsynced_cut and self.flushed_end > 0)
    @rule(seed=st.one_of(st.none(), st.integers(0, 1000)))
    def cut_power(self, seed: int | None) -> None:
        self.room.checkpoint()
        self.room.cut_power_and_open(None if seed is None else Random(seed))
        end = self.room.log.log_end_offset
        assert end >= self.flushed_end
        self.records = [row for row in self.records if row[0] < end]
        self.batch_starts = [start for start in self.batch_starts if start < end]
        self.adopt_end()

    def adopt_end(self) -> None:
        """After a gap at the very end only the batches tell where the log ends."""
        held_end = max((offset + 1 for offset, _ in self.records), default=None)
        end = self.room.log.log_end_offset
        if held_end is not None and held_end > self.room.log.segments.active.base_offset:
            assert end == held_end
        self.log_end = end
        self.adopt_start()

    def adopt_start(self) -> None:
        self.log_end = self.room.log.log_end_offset
        assert self.room.log.log_start_offset in (
            self.log_start,
            self.room.log.segments.first.base_offset,
        )
        self.log_start = self.room.log.log_start_offset

    # What always holds ----------------------------------------------------------------------

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        visible = [row for row in self.records if row[0] >= self.log_start]
        assert self.room.read_all() == visible

    @invariant()
    def bounds_are_in_order(self) -> None:
        bounds = self.room.log.bounds()
        assert bounds.log_start == self.log_start
        assert bounds.log_end == self.log_end
        assert list(bounds) == sorted(bounds)
        assert self.room.log.recovery_point <= self.log_end

    @rule(fraction=fractions, max_bytes=st.integers(1, 2000))
    def read_somewhere(self, fraction: float, max_bytes: int) -> None:
        offset = self.offset_at(fraction)
        result = self.room.log.read(offset, max_bytes, isolation=Isolation.HIGH_WATERMARK)
        if result.records is None:
            return
        found = values_in(result.records.read())
        assert found[-1][0] < result.bounds.high_watermark
        first = found[0][0]
        last = found[-1][0]
        expected = [row for row in self.records if first <= row[0] <= last]
        assert [row for row in found if row[0] >= self.log_start] == [
            row for row in expected if row[0] >= self.log_start
        ]
        wanted = next(row[0] for row in self.records if row[0] >= offset)
        assert first <= wanted <= last
        assert (
            len(result.records) <= max_bytes
            or len({s for s in self.batch_starts if first <= s <= last}) == 1
        )

    @rule(fraction=fractions)
    def look_up_time(self, fraction: float) -> None:
        timestamp = START_MS + self.offset_at(fraction) * 10
        found = self.room.log.offset_for_timestamp(timestamp)
        later = [o for o in self.batch_starts if START_MS + o * 10 >= timestamp]
        held = [o for o, _ in self.records if o >= self.log_start]
        if found is None:
            assert not [o for o in later if o in held]
        else:
            assert found.timestamp >= timestamp
            assert found.offset in held
            starts = [o for o in later if o in held]
            assert not starts or found.offset <= starts[0]


LogAgainstList.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=50, deadline=None
)
TestLogAgainstList = LogAgainstList.TestCase
