"""Producer state against a model that keeps every batch and answers by looking at all of them."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.records import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, EndTxnMarker
from odradek.storage.aborted import AbortedTxn
from odradek.storage.memory_files import MemoryFiles
from odradek.storage.producer_state import ProducerStates

from tests.support.effort import examples

TOP = 2**31


@dataclass
class Written:
    header: BatchHeader
    marker: EndTxnMarker | None = None


@dataclass
class Model:
    log: list[Written] = field(default_factory=list)
    # A snapshot does not tell which ended transactions had their marker above the high watermark.
    loaded_to: int = 0

    @property
    def end(self) -> int:
        return self.log[-1].header.next_offset if self.log else 0

    def of(self, producer: int) -> list[Written]:
        return [one for one in self.log if one.header.producer_id == producer]

    def open_since(self, producer: int) -> int | None:
        first = None
        for one in self.of(producer):
            if one.marker is not None:
                first = None
            elif first is None and one.header.is_transactional:
                first = one.header.base_offset
        return first

    def verdict(self, header: BatchHeader) -> Errors | int | None:
        """None to append, an offset for a repeat, an error for a refusal."""
        mine = self.of(header.producer_id)
        if not mine:
            return None
        epoch = mine[-1].header.producer_epoch
        if header.producer_epoch < epoch:
            return Errors.INVALID_PRODUCER_EPOCH
        data: list[BatchHeader] = []
        for one in mine:  # batches since the last change of epoch
            if data and one.header.producer_epoch != data[-1].producer_epoch:
                data = []
            if one.marker is None:
                data.append(one.header)
        data = [one for one in data if one.producer_epoch == epoch]
        if header.producer_epoch == epoch:
            for one in data[-5:]:
                same_start = one.base_sequence == header.base_sequence
                if same_start and one.count == header.count:
                    return one.base_offset
        follows = (data[-1].base_sequence + data[-1].count) % TOP if data else 0
        expected = follows if header.producer_epoch == epoch else 0
        if header.base_sequence != expected:
            return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.open_since(header.producer_id) is not None and not header.is_transactional:
            return Errors.INVALID_TXN_STATE
        return None

    def stable(self, hw: int) -> int:
        """Nothing of a transaction is stable before its marker is below the high watermark."""
        seen = [
            one
            for one in self.log
            if one.header.base_offset < (max(hw, self.loaded_to) if one.marker else hw)
        ]
        return Model(seen).first_open(hw)

    def first_open(self, hw: int) -> int:
        producers = {one.header.producer_id for one in self.log}
        opened = [first for p in producers if (first := self.open_since(p)) is not None]
        return min([hw, *opened])


class ProducerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.files.make_dir("/log")
        self.states = ProducerStates("/log", files=self.files, expiration_ms=10**9)
        self.model = Model()
        self.hw = 0

    @rule(
        producer=st.integers(0, 2),
        epoch=st.integers(0, 2),
        sequence=st.integers(0, 6) | st.integers(TOP - 3, TOP - 1),
        follow=st.booleans(),
        count=st.integers(1, 3),
        transactional=st.booleans(),
    )
    def produce(
        self,
        producer: int,
        epoch: int,
        sequence: int,
        follow: bool,
        count: int,
        transactional: bool,
    ) -> None:
        entry = self.states.get(producer)
        if follow and entry is not None:
            epoch, sequence = entry.epoch, entry.next_sequence
            transactional = transactional or entry.txn_first_offset >= 0
        bits = TRANSACTIONAL_BIT if transactional else 0
        header = self._header(producer, epoch, sequence, count, bits)
        verdict = self._verdict(header)
        assert verdict == self.model.verdict(header)
        if verdict is None:
            self.states.update(header)
            self.model.log.append(Written(header))

    @rule(producer=st.integers(0, 2), count=st.integers(1, 3))
    def stream(self, producer: int, count: int) -> None:
        """More batches in a row than are remembered, then each of them once more."""
        for _ in range(7):
            self.produce(producer, 2, 0, True, count, False)
        for back in range(1, 8):
            self.repeat(producer, back)

    @rule(producer=st.integers(0, 2), back=st.integers(1, 7))
    def repeat(self, producer: int, back: int) -> None:
        """A client that got no answer sends one of its batches again."""
        sent = [one.header for one in self.model.of(producer) if one.marker is None]
        if len(sent) >= back and sent[-back].count < TOP:
            header = sent[-back]._replace(base_offset=self.model.end)
            assert self._verdict(header) == self.model.verdict(header)

    def _verdict(self, header: BatchHeader) -> Errors | int | None:
        try:
            repeated = self.states.check(header)
        except KafkaError as error:
            return error.error
        return repeated.base_offset if repeated else None

    @rule(producer=st.integers(0, 2), is_abort=st.booleans(), bump=st.booleans())
    def end_transaction(self, producer: int, is_abort: bool, bump: bool) -> None:
        entry = self.states.get(producer)
        epoch = entry.epoch + bump if entry else 0
        bits = TRANSACTIONAL_BIT | CONTROL_BIT
        header = self._header(producer, epoch, -1, 1, bits)
        marker = EndTxnMarker(not is_abort, coordinator_epoch=1)
        first = self.model.open_since(producer)
        self.model.log.append(Written(header, marker))
        noted = self.states.update_marker(header, marker)
        if first is None or not is_abort:
            assert noted is None
            return
        stable = self.model.first_open(header.base_offset + 1)
        assert noted == AbortedTxn(producer, first, header.base_offset, stable)

    def _header(
        self, producer: int, epoch: int, sequence: int, count: int, bits: int
    ) -> BatchHeader:
        fields = (self.model.end, 100, 0, 2, 0, bits, count - 1, 5, 5, producer, epoch, sequence)
        return BatchHeader(*fields, count)

    @rule(ahead=st.integers(0, 5))
    def replicate(self, ahead: int) -> None:
        self.hw = min(self.hw + ahead, self.model.end)

    @rule()
    def snapshot(self) -> None:
        self.states.take_snapshot()

    @rule(reopen=st.booleans(), drop=st.integers(0, 4))
    def truncate_or_reopen(self, reopen: bool, drop: int) -> None:
        keep = len(self.model.log) - drop if drop else len(self.model.log)
        if drop and keep >= 0:
            self.model.log = self.model.log[:keep]
            self.hw = min(self.hw, self.model.end)
        is_current = self.states.map_end_offset == self.model.end > 0
        if reopen:
            self.states = ProducerStates("/log", files=self.files, expiration_ms=10**9)
        self.states.truncate_and_reload(0, self.model.end, now_ms=10)
        self.model.loaded_to = min(self.model.loaded_to, self.model.end)
        if reopen or not is_current:
            self.model.loaded_to = self.states.map_end_offset
        for one in self.model.log:
            if one.header.base_offset < self.states.map_end_offset:
                continue
            if one.marker is None:
                self.states.update(one.header)
            else:
                self.states.update_marker(one.header, one.marker)
        # A snapshot keeps only the last batch, so older repeats are forgotten by design.
        self.forget_more_than_the_snapshot_has()

    def forget_more_than_the_snapshot_has(self) -> None:
        for producer in range(3):
            entry = self.states.get(producer)
            kept = {b.last_offset for b in entry.batches} if entry else set()
            for one in self.model.of(producer):
                if one.marker is None and one.header.last_offset not in kept:
                    # An impossible count can never be repeated, yet the sequence stays right.
                    self._make_unrepeatable(one)

    def _make_unrepeatable(self, one: Written) -> None:
        header = one.header
        shifted = (header.base_sequence - 10 * TOP, header.count + 10 * TOP)
        if header.count < TOP:
            one.header = header._replace(base_sequence=shifted[0], count=shifted[1])

    @invariant()
    def stable_offsets_agree(self) -> None:
        assert self.states.map_end_offset == self.model.end
        assert self.states.last_stable_offset(self.hw) == self.model.stable(self.hw)


TestProducerStates = ProducerMachine.TestCase
TestProducerStates.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
