"""What must hold at every moment of a story, whatever happens in it.

The witness looks at a broker after each of its steps, at the store after each change, and at what
clients are told. It keeps, for each partition, the history: the batches that some leader's high
watermark has ever passed. A history only grows. From that the promises follow:

- a broker hosts nothing before it is registered: orders for its last life are not for this one;
- one leader at most in each epoch; no replica's epoch, and no stored epoch, goes back;
- a leader's high watermark never goes back within its epoch, nor passes its log's end;
- what a high watermark passes is what the history says (logs agree below it);
- a new leader has the history of all epochs before its own (nothing is lost by an election);
- every member of the stored in-sync set has the whole history;
- a restart loses nothing of a disk that kept its power;
- what a producer is told to be written (acks=all) and what a consumer reads lies in the history, at
  that offset;
- a last stable offset is where the first transaction begins that has no marker in the history (or
  in what a leader loaded of its log: see `loaded_fates`), and a read_committed reader gets the
  batches whose marker says commit, and only these;
- when a coordinator's log says that a transaction is complete, every partition has its marker.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from odradek.controller import paths
from odradek.controller.tree import Transaction
from odradek.controller.znodes import NO_LEADER, PartitionState
from odradek.protocol.types import TopicPartition
from odradek.replication.leader import Leader
from odradek.replication.partition import Partition
from odradek.storage.log import Log
from odradek.storage.log_reading import Isolation

from tests.sim.batches import Batch, Fates, iter_batches
from tests.sim.coordination import Coordination
from tests.sim.loop import Life
from tests.sim.world import Machine, World

READ_BYTES = 1 << 20


class Key(NamedTuple):
    """A partition of one topic; a topic made anew under the same name is another."""

    topic_id: bytes
    where: TopicPartition

    def __str__(self) -> str:
        return str(self.where)


class Copy:
    """What one replica's log holds. `proven` batches are known to be those of the history, `loaded`
    ones were there when the log was opened, or cut."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.batches: list[Batch] = []
        self.proven = 0
        self.extend()
        self.loaded = len(self.batches)

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def update(self) -> None:
        """Follow the log, which was either cut or appended to since."""
        end = self.log.log_end_offset
        while self.batches and self.batches[-1].last >= end:
            self.batches.pop()
            self.loaded = len(self.batches)
        self.proven = min(self.proven, len(self.batches))
        self.extend()

    def extend(self) -> None:
        while self.end < self.log.log_end_offset:
            found = self.log.read(self.end, READ_BYTES, isolation=Isolation.LOG_END).records
            assert found is not None, f"{self.log} ends before its end"
            self.batches += [read.batch for read in iter_batches(found.read())]

    def below(self, offset: int) -> int:
        """How many batches lie below."""
        return bisect_left(self.batches, offset, key=attrgetter("last"))


class History:
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.fates = Fates(self.batches)
        # In which epoch each was committed; one that was written in an earlier epoch may wait.
        self.committed_in: list[int] = []
        self.leaders: dict[int, int] = {}
        self.high_watermarks: dict[int, int] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def at(self, offset: int) -> Batch | None:
        index = bisect_left(self.batches, offset, key=attrgetter("last"))
        return self.batches[index] if index < len(self.batches) else None


def stable_end(fates: Fates, end: int) -> int:
    return end if fates.first_open is None else fates.first_open


def loaded_fates(history: History, copy: Copy) -> Fates:
    """As someone sees it who loaded a log. Snapshots do not say whose marker was not committed yet,
    so all count. That does no harm: no marker is there before its decision stands."""
    batches = history.batches + copy.batches[len(history.batches) : copy.loaded]
    fates = Fates(batches)
    fates.follow()
    return fates


class Witness:
    def __init__(self, world: World) -> None:
        self._world = world
        self.histories: dict[Key, History] = {}
        self.copies: dict[tuple[int, Key], Copy] = {}
        self._seen: dict[Life, dict[Partition, tuple[object, ...]]] = {}
        self._epochs: dict[tuple[Life, Key], int] = {}
        self._stored: dict[Key, PartitionState] = {}
        # Machines whose disks lost something and that have not started since.
        self.powerless: set[int] = set()
        self._coordination = Coordination(self._opened)
        self.on_coordinator_at_work: Callable[[Machine], None] = lambda _: None
        world.loop.on_step = self.look
        world.store.on_commit = self.stored

    def history(self, key: Key) -> History:
        found = self.histories.get(key)
        if found is None:
            found = self.histories[key] = History()
        return found

    # Brokers --------------------------------------------------------------------------------

    def look(self, life: Life) -> None:
        machine = self._world.lives.get(life)
        if machine is None or machine.life is not life:
            return
        partitions = machine.partitions()
        if partitions and machine.broker is not None and machine.broker.epoch < 0:
            self._world.fail(f"b{machine.id} took orders that were for an earlier life")
        seen = self._seen.setdefault(life, {})
        if len(seen) > len(partitions):
            self._forget_gone(machine, seen, set(partitions))
        moved = []
        for partition in partitions:
            log = partition.log
            if log.failure is not None:
                continue
            now = (partition.role, log.log_end_offset, log.high_watermark, log.epochs.latest_epoch)
            if seen.get(partition) != now:
                seen[partition] = now
                moved.append(partition)
        # What a coordinator decided comes before what follows from it.
        for partition in sorted(moved, key=lambda each: not self._coordination.follows(each.where)):
            self._moved(machine, life, partition)
        if any(each.is_leader and self._coordination.follows(each.where) for each in moved):
            self.on_coordinator_at_work(machine)

    def _forget_gone(
        self, machine: Machine, seen: dict[Partition, tuple[object, ...]], hosted: set[Partition]
    ) -> None:
        for gone in [each for each in seen if each not in hosted]:
            del seen[gone]
            key = Key(gone.topic_id, gone.where)
            copy = self.copies.get((machine.id, key))
            if copy is not None and copy.log is gone.log and not machine.has_log(gone.log):
                del self.copies[machine.id, key]

    def lost_power(self, machine: Machine) -> None:
        self.powerless.add(machine.id)
        for machine_id, key in list(self.copies):
            if machine_id == machine.id:
                del self.copies[machine_id, key]

    def _moved(self, machine: Machine, life: Life, partition: Partition) -> None:
        key = Key(partition.topic_id, partition.where)
        copy = self._copy(machine, key, partition.log)
        if partition.log.log_start_offset:
            self._fail(machine, key, "begins after its first record")
        epoch = partition.leader_epoch
        if epoch >= 0:
            if epoch < self._epochs.get((life, key), -1):
                self._fail(machine, key, f"went back to epoch {epoch}")
            self._epochs[life, key] = epoch
        if partition.log.high_watermark > copy.end:
            self._fail(machine, key, "has its high watermark after its end")
        if isinstance(partition.role, Leader):
            self._leads(machine, key, copy, epoch, partition.log.high_watermark)
            self._is_stable(machine, key, copy)
        elif partition.log.high_watermark > self.history(key).end:
            self._fail(machine, key, "follows past what any leader committed")
        self._is_still_in_sync(machine, key, copy)

    def _copy(self, machine: Machine, key: Key, log: Log) -> Copy:
        known = self.copies.get((machine.id, key))
        if known is not None and known.log is log:
            known.update()
            return known
        copy = self.copies[machine.id, key] = Copy(log)
        if known is not None and known.batches != copy.batches:
            self._fail(machine, key, f"ended at {known.end} and restarts at {copy.end}")
        return copy

    def _leads(self, machine: Machine, key: Key, copy: Copy, epoch: int, hw: int) -> None:
        history = self.history(key)
        if history.leaders.setdefault(epoch, machine.id) != machine.id:
            other = history.leaders[epoch]
            self._fail(machine, key, f"leads in epoch {epoch}, and so does b{other}")
        if epoch not in history.high_watermarks:
            # It may hear of it late, when others have led and committed since.
            before = bisect_left(history.committed_in, epoch)
            self._must_hold(machine.id, key, copy, "was elected", before)
        if hw < history.high_watermarks.get(epoch, 0):
            self._fail(machine, key, f"lowered its high watermark to {hw}")
        history.high_watermarks[epoch] = hw
        known = len(history.batches)
        for index in range(copy.proven, copy.below(hw)):
            if index >= len(history.batches):
                history.batches.append(copy.batches[index])
                history.committed_in.append(epoch)
            elif history.batches[index] != copy.batches[index]:
                was, now = history.batches[index], copy.batches[index]
                self._fail(machine, key, f"commits {now} where {was} was committed")
        copy.proven = max(copy.proven, copy.below(hw))
        if len(history.batches) > known:
            self._look_at_transactions(key, copy.log, history.batches[known].base)
            state = self._stored.get(key)
            for member in () if state is None else state.isr:
                self._member_must_hold(member, key, f"is in sync while b{machine.id} commits")

    def _look_at_transactions(self, key: Key, log: Log, offset: int) -> None:
        """From this offset on, more is committed than before."""
        for marker in self.history(key).fates.follow():
            ending_problem = self._coordination.ending_problem(marker)
            if ending_problem is not None:
                self._world.fail(f"{key}: {ending_problem}")
        if not self._coordination.follows(key.where):
            return
        found = log.read(offset, READ_BYTES, isolation=Isolation.HIGH_WATERMARK).records
        assert found is not None, f"{log} has nothing below its high watermark"
        for problem in self._coordination.problems(found.read()):
            self._world.fail(f"{key}: {problem}")

    def _opened(self, where: TopicPartition, producer_id: int) -> Iterable[Batch]:
        for key, history in self.histories.items():
            if key.where == where:
                yield from history.fates.opened_by(producer_id)

    def _is_stable(self, machine: Machine, key: Key, copy: Copy) -> None:
        """A leader's last stable offset is where the first open transaction begins. One that does
        not know of all that is committed may think of more transactions that they are open, and one
        that loaded its log of fewer."""
        history, stable = self.history(key), copy.log.last_stable_offset
        end = stable_end(history.fates, history.end)
        is_up_to_date = copy.log.high_watermark == history.end
        if stable < end and is_up_to_date:
            self._fail(machine, key, f"is stable up to {stable}, where {end} is right")
        if stable > end and stable > stable_end(loaded_fates(history, copy), history.end):
            self._fail(machine, key, f"is stable up to {stable}, where {end} is enough")

    def _is_still_in_sync(self, machine: Machine, key: Key, copy: Copy) -> None:
        state = self._stored.get(key)
        if state is not None and machine.id in state.isr:
            self._must_hold(machine.id, key, copy, "is in sync")

    def _member_must_hold(self, member: int, key: Key, why: str) -> None:
        if member in self.powerless:
            return
        copy = self.copies.get((member, key))
        if copy is not None:
            self._must_hold(member, key, copy, why)
        elif self.history(key).batches:
            self._world.fail(f"b{member} {why}, and has nothing of {key}")

    def _must_hold(
        self, machine_id: int, key: Key, copy: Copy, why: str, count: int | None = None
    ) -> None:
        """The copy holds the whole history, or so many batches of it."""
        history = self.history(key).batches
        end = len(history) if count is None else count
        if copy.batches[copy.proven : end] != history[copy.proven : end]:
            parted = next(i for i in range(end) if copy.batches[i : i + 1] != [history[i]])
            has = copy.batches[parted] if parted < len(copy.batches) else "nothing"
            self._world.fail(
                f"b{machine_id} {why}, and has {has} of {key} where {history[parted]} was committed"
            )
        else:
            copy.proven = max(copy.proven, end)

    def _fail(self, machine: Machine, key: Key, what: str) -> None:
        self._world.fail(f"b{machine.id} {key} {what}")

    # The store ------------------------------------------------------------------------------

    def stored(self, done: Transaction) -> None:
        for path, node in done.touched.items():
            if not path.endswith("/state") or not path.startswith(paths.TOPICS):
                continue
            _, _, _, topic, _, index, _ = path.split("/")
            where = TopicPartition(topic, int(index))
            assignment = self._world.stored_topics().get(topic)
            if node is None or assignment is None:
                for key in [key for key in self._stored if key.where == where]:
                    del self._stored[key]
            else:
                state = PartitionState.decode(node.data, node.version)
                key = Key(assignment.topic_id, where)
                self._check_state(key, state, assignment.partitions[where.partition].replicas)

    def _check_state(self, key: Key, state: PartitionState, replicas: Iterable[int]) -> None:
        before = self._stored.get(key)
        if before is not None and state.leader_epoch < before.leader_epoch:
            self._world.fail(f"the stored epoch of {key} went back to {state.leader_epoch}")
        if state.leader not in (NO_LEADER, *state.isr):
            self._world.fail(f"{key} is led by b{state.leader}, in sync are {state.isr}")
        if not state.isr or not set(state.isr) <= set(replicas):
            self._world.fail(f"{key} has {state.isr} in sync, of {replicas}")
        self._stored[key] = state
        if self._world.store.tree.find(paths.deletion(key.where.topic)) is None:
            for member in state.isr:
                self._member_must_hold(member, key, "is in sync by the store's word")

    # Clients --------------------------------------------------------------------------------

    def acknowledged(self, key: Key, base: int, mark: int) -> None:
        """A producer was told that all in-sync replicas have its batch."""
        found = self.history(key).at(base)
        if found is None or (found.base, found.mark) != (base, mark):
            self._world.fail(f"{key}: offset {base} was acknowledged, and {found} is committed")

    def consumed(self, key: Key, batches: Iterable[Batch]) -> None:
        for batch in batches:
            found = self.history(key).at(batch.base)
            if found != batch:
                self._world.fail(f"{key}: {batch} was read, and {found} is committed")

    def shown(self, key: Key, batch: Batch, *, is_given: bool) -> None:
        """A read_committed reader was sent a batch, and was given it or told to drop it."""
        history = self.history(key)
        counts = history.fates.counts(batch)
        if counts is None:
            loaded = [copy for (_, where), copy in self.copies.items() if where == key]
            known = {loaded_fates(history, copy).counts(batch) for copy in loaded}
            counts = is_given if is_given in known else None
        if counts is None:
            self._world.fail(f"{key}: {batch} was read before its transaction ended")
        elif counts != is_given:
            self._world.fail(f"{key}: {batch} was {'read' if is_given else 'left out'} wrongly")
