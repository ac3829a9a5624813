"""One transactional id on a shard that exists only in memory, moved by one-line stories.

    >>> tell("init; add a-0; commit; a-0 is marked")
    ... ('Empty 100/0: init 100/0 / Ongoing 100/0 a-0: add ok / PrepareCommit 100/0 a-0: end ok,'
    ... ' commit to a-0 / CompleteCommit 100/0')

Each step shows the id as it is then (state, producer id/epoch, partitions), a `?` when that is not
committed, and what was answered and sent in the step. The holder of the last answer to `init` asks;
`as=100/0` speaks for another one. Markers are sent when they can be; a step says when one is there.
"""

from odradek.broker.coordinator.shard import Place, Shard, ShardTools
from odradek.broker.coordinator.shard_log import MemoryLog
from odradek.broker.coordinator.timers import ManualTimers
from odradek.broker.coordinator.txn_completion import Completion
from odradek.broker.coordinator.txn_config import TxnConfig
from odradek.broker.coordinator.txn_decisions import (
    NOBODY,
    Holder,
    needs_producer_id,
    needs_producer_id_to_end,
)
from odradek.broker.coordinator.txn_records import TransactionRecord, TransactionRecords
from odradek.broker.coordinator.txn_shard import TxnShard, TxnTools
from odradek.protocol.clock import ManualClock
from odradek.protocol.errors import Errors
from odradek.protocol.records import iter_records
from odradek.protocol.types import TopicPartition

ID = "t"
FIRST_PRODUCER_ID = 100
SECONDS = {"ms": 1, "s": 1000, "days": 86_400_000}


def tell(story: str, **settings: int) -> str:
    return World(TxnConfig(**settings)).tell(story)


def where_of(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def holder_of(text: str) -> Holder:
    producer_id, _, epoch = text.partition("/")
    return Holder(int(producer_id), int(epoch))


class World:
    def __init__(self, config: TxnConfig | None = None) -> None:
        self.config = config or TxnConfig()
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.log = MemoryLog()
        self.holder = NOBODY
        self.epoch = 0
        self.next_id = FIRST_PRODUCER_ID
        self.completions: list[Completion] = []
        self.heard: list[str] = []
        self.elect()

    def elect(self) -> None:
        """A coordinator takes over: a new shard, filled from the log."""
        self.epoch += 1
        tools = ShardTools(self.clock, self.timers, self.config.commit_timeout_ms)
        self.shard: Shard[TransactionRecord] = Shard(
            self.log, self.epoch, TransactionRecords(), tools
        )
        self.state = TxnShard(
            TxnTools(self.clock, self.timers, self.config, self.shard, self._send)
        )
        self.shard.state = self.state
        for batch in self.log.batches:
            for record in iter_records(batch):
                typed = TransactionRecords().decode(record.key, record.value)
                assert typed is not None
                self.state.replay(typed, Place(record.offset))
        self.shard.loaded_end = self.log.end_offset
        self.state.begin()

    def _send(self, completion: Completion) -> None:
        self.completions.append(completion)
        names = ",".join(f"{t}-{p}" for t, p in sorted(completion.unwritten))
        end = "commit" if completion.marker.commit else "abort"
        term = f" of term {self.epoch}" if self.epoch > 1 else ""
        self.heard.append(f"{end} to {names or 'nobody'}{term}")
        completion.look()

    def tell(self, story: str) -> str:
        return " / ".join(self.step(step.strip()) for step in story.split(";"))

    def step(self, step: str) -> str:
        self.heard = []
        words = step.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        holder = holder_of(options["as"]) if "as" in options else self.holder
        match plain:
            case [number, unit] if unit in SECONDS:
                self.timers.advance(int(number) * SECONDS[unit])
            case ["log", *rest]:
                self._log(rest)
            case ["init"]:
                named = holder if "as" in options else NOBODY
                self._init(named, int(options.get("timeout", 60_000)))
            case ["add", *partitions]:
                wanted = [where_of(each) for each in partitions]
                self.state.add_partitions(ID, holder, wanted, self._hear("add"))
            case ["verify", partition]:
                where = where_of(partition)
                found = self.state.verify_partitions(ID, holder, [where])
                self._hear("verify")(found[where])
            case ["commit" | "abort" as end]:
                self.state.end(ID, holder, end == "commit", self._hear("end"))
            case ["commit" | "abort" as end, "and", "bump"]:
                self._end_with_bump(holder, end == "commit")
            case [partition, "is", "marked"]:
                self._mark(where_of(partition))
            case ["sweep"]:
                list(self.state.abort_timed_out())
            case ["expire"]:
                list(self.state.expire())
            case ["epoch", "is", number]:
                self._skip_to_epoch(int(number))
            case ["coordinator", "fails"]:
                self.log.lose_leadership()
                self.shard.close()
                self.log.is_leader = True
                self.elect()
            case _:
                raise AssertionError(f"no such step: {step}")
        return self._show()

    # Steps ----------------------------------------------------------------------------------

    def _init(self, holder: Holder, timeout_ms: int) -> None:
        new_id = None
        if needs_producer_id(self.state.known(ID)):
            new_id, self.next_id = self.next_id, self.next_id + 1

        def reply(error: Errors, given: Holder) -> None:
            if error is Errors.NONE:
                self.holder = given
                self.heard.append(f"init {given.producer_id}/{given.epoch}")
            else:
                self.heard.append(f"init {error.name}")

        self.state.init(ID, holder, timeout_ms, new_id, reply)

    def _end_with_bump(self, holder: Holder, commit: bool) -> None:
        new_id = None
        if needs_producer_id_to_end(self.state.known(ID)):
            new_id, self.next_id = self.next_id, self.next_id + 1

        def reply(error: Errors, given: Holder) -> None:
            if error is Errors.NONE:
                self.holder = given
                self.heard.append(f"end {given.producer_id}/{given.epoch}")
            else:
                self.heard.append(f"end {error.name}")

        self.state.end_with_bump(ID, holder, commit, new_id, reply)

    def _skip_to_epoch(self, epoch: int) -> None:
        known = self.state.known(ID)
        while known is not None and known.transaction.epoch < epoch:
            self.state.init(ID, NOBODY, 60_000, None, lambda _, given: self._hold(given))
            known = self.state.known(ID)

    def _hold(self, given: Holder) -> None:
        self.holder = given

    def _mark(self, where: TopicPartition) -> None:
        for completion in list(self.completions):
            completion.written(where)

    def _log(self, rest: list[str]) -> None:
        match rest:
            case ["waits"]:
                self.log.holds_back = True
            case ["commits"]:
                self.log.holds_back = False
                self.log.commit()
            case ["refuses"]:
                self.log.refusal = Errors.NOT_ENOUGH_REPLICAS
            case ["accepts"]:
                self.log.refusal = None
            case _:
                raise AssertionError(f"the log does not {rest}")

    def _hear(self, what: str):  # type: ignore[no-untyped-def]
        def reply(error: Errors) -> None:
            self.heard.append(f"{what} {'ok' if error is Errors.NONE else error.name}")

        return reply

    def _show(self) -> str:
        known = self.state.known(ID)
        if known is None:
            shown = "-"
        else:
            found = known.transaction
            partitions = ",".join(f"{t}-{p}" for t, p in sorted(found.partitions))
            mark = "" if known.is_settled else "?"
            shown = f"{found.state.title}{mark} {found.producer_id}/{found.epoch} {partitions}"
        shown = shown.rstrip()
        return f"{shown}: {', '.join(self.heard)}" if self.heard else shown
