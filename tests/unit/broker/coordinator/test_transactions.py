"""The life of a transactional id, told as stories. See `txn_story` for how to read them."""

import pytest
from odradek.broker.coordinator.transaction import Transaction
from odradek.broker.coordinator.txn_records import TransactionRecord, TransactionRecords
from odradek.broker.coordinator.txn_states import TxnState
from odradek.protocol.errors import ProtocolError
from odradek.protocol.types import TopicPartition

from tests.unit.broker.coordinator.txn_story import ID, World, tell

# A transaction ------------------------------------------------------------------------------


def test_a_transaction_from_its_beginning_to_its_end() -> None:
    assert tell("init; add a-0; add b-1; commit; a-0 is marked; b-1 is marked") == (
        "Empty 100/0: init 100/0"
        " / Ongoing 100/0 a-0: add ok"
        " / Ongoing 100/0 a-0,b-1: add ok"
        " / PrepareCommit 100/0 a-0,b-1: end ok, commit to a-0,b-1"
        " / PrepareCommit 100/0 a-0,b-1"
        " / CompleteCommit 100/0"
    )


def test_an_abort_ends_in_a_state_of_its_own() -> None:
    assert tell("init; add a-0; abort; a-0 is marked") == (
        "Empty 100/0: init 100/0"
        " / Ongoing 100/0 a-0: add ok"
        " / PrepareAbort 100/0 a-0: end ok, abort to a-0"
        " / CompleteAbort 100/0"
    )


def test_the_next_transaction_begins_with_the_next_partition() -> None:
    assert tell("init; add a-0; commit; a-0 is marked; add b-0; abort; b-0 is marked").endswith(
        "CompleteCommit 100/0"
        " / Ongoing 100/0 b-0: add ok"
        " / PrepareAbort 100/0 b-0: end ok, abort to b-0"
        " / CompleteAbort 100/0"
    )


def test_nothing_begins_before_all_markers_are_written() -> None:
    story = tell("init; add a-0; commit; add b-0; init; commit; abort; verify a-0; a-0 is marked")
    assert story.endswith(
        "PrepareCommit 100/0 a-0: add CONCURRENT_TRANSACTIONS"
        " / PrepareCommit 100/0 a-0: init CONCURRENT_TRANSACTIONS"
        " / PrepareCommit 100/0 a-0: end CONCURRENT_TRANSACTIONS"
        " / PrepareCommit 100/0 a-0: end INVALID_TXN_STATE"
        " / PrepareCommit 100/0 a-0: verify CONCURRENT_TRANSACTIONS"
        " / CompleteCommit 100/0"
    )


def test_an_end_without_a_beginning_is_refused() -> None:
    assert tell("init; commit; abort").endswith(
        "Empty 100/0: end INVALID_TXN_STATE / Empty 100/0: end INVALID_TXN_STATE"
    )


@pytest.mark.parametrize(
    ("end", "other", "state"),
    [("commit", "abort", "CompleteCommit"), ("abort", "commit", "CompleteAbort")],
)
def test_an_end_that_is_asked_for_again_is_fine_and_the_other_one_is_not(
    end: str, other: str, state: str
) -> None:
    story = tell(f"init; add a-0; {end}; a-0 is marked; {end}; {other}")
    assert story.endswith(f"{state} 100/0: end ok / {state} 100/0: end INVALID_TXN_STATE")


def test_a_partition_that_is_in_the_transaction_is_not_written_again() -> None:
    world = World()
    world.tell("init; add a-0 b-0")
    written = len(world.log.batches)
    assert world.tell("add b-0") == "Ongoing 100/0 a-0,b-0: add ok"
    assert len(world.log.batches) == written


def test_only_partitions_of_the_open_transaction_are_verified() -> None:
    story = "init; verify a-0; add a-0; verify a-0; verify b-0; commit; a-0 is marked; verify a-0"
    answers = [step.partition(": verify ")[2] for step in tell(story).split(" / ")]
    assert [answer for answer in answers if answer] == [
        "TRANSACTION_ABORTABLE",
        "ok",
        "TRANSACTION_ABORTABLE",
        "TRANSACTION_ABORTABLE",
    ]


# Producers ----------------------------------------------------------------------------------


def test_whoever_comes_next_gets_the_next_epoch_and_shuts_the_former_one_out() -> None:
    assert tell("init; init; add a-0 as=100/0; commit as=100/0; verify a-0 as=100/0") == (
        "Empty 100/0: init 100/0"
        " / Empty 100/1: init 100/1"
        " / Empty 100/1: add PRODUCER_FENCED"
        " / Empty 100/1: end PRODUCER_FENCED"
        " / Empty 100/1: verify PRODUCER_FENCED"
    )


def test_an_open_transaction_is_aborted_in_an_epoch_that_nobody_holds() -> None:
    assert tell("init; add a-0; init; commit; a-0 is marked; init") == (
        "Empty 100/0: init 100/0"
        " / Ongoing 100/0 a-0: add ok"
        " / PrepareAbort 100/1 a-0: init CONCURRENT_TRANSACTIONS, abort to a-0"
        " / PrepareAbort 100/1 a-0: end PRODUCER_FENCED"
        " / CompleteAbort 100/1"
        " / Empty 100/2: init 100/2"
    )


def test_a_strange_producer_is_told_so() -> None:
    assert tell("init; add a-0 as=7/0; commit as=7/0; init as=7/0").endswith(
        "Empty 100/0: add INVALID_PRODUCER_ID_MAPPING"
        " / Empty 100/0: end INVALID_PRODUCER_ID_MAPPING"
        " / Empty 100/0: init PRODUCER_FENCED"
    )


def test_an_id_that_nobody_took_belongs_to_nobody() -> None:
    assert tell("add a-0 as=100/0; commit as=100/0; verify a-0 as=100/0") == (
        "-: add INVALID_PRODUCER_ID_MAPPING"
        " / -: end INVALID_PRODUCER_ID_MAPPING"
        " / -: verify INVALID_PRODUCER_ID_MAPPING"
    )


def test_a_producer_goes_on_after_a_failure_and_may_ask_twice() -> None:
    assert tell("init; init as=100/0; init as=100/0; init as=100/1; init as=100/0") == (
        "Empty 100/0: init 100/0"
        " / Empty 100/1: init 100/1"
        " / Empty 100/1: init 100/1"
        " / Empty 100/2: init 100/2"
        " / Empty 100/2: init PRODUCER_FENCED"
    )


def test_a_producer_whose_epochs_are_used_up_gets_a_new_id() -> None:
    assert tell("init; epoch is 32765; init; init") == (
        "Empty 100/0: init 100/0"
        " / Empty 100/32765"
        " / Empty 100/32766: init 100/32766"
        " / Empty 101/0: init 101/0"
    )


def test_the_last_epoch_is_kept_for_shutting_out_its_holder() -> None:
    story = "init; epoch is 32766; add a-0; init; commit as=100/32766; a-0 is marked; init"
    assert tell(story).endswith(
        "Ongoing 100/32766 a-0: add ok"
        " / PrepareAbort 100/32767 a-0: init CONCURRENT_TRANSACTIONS, abort to a-0"
        " / PrepareAbort 100/32767 a-0: end PRODUCER_FENCED"
        " / CompleteAbort 100/32767"
        " / Empty 101/0: init 101/0"
    )


def test_a_producer_that_did_not_hear_of_its_new_id_may_ask_again() -> None:
    story = "init; epoch is 32766; init as=100/32766; init as=100/32766; init as=100/5"
    assert tell(story).endswith(
        "Empty 101/0: init 101/0 / Empty 101/0: init 101/0 / Empty 101/0: init PRODUCER_FENCED"
    )


# Time ---------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted_with_a_new_epoch() -> None:
    story = "init timeout=5000; add a-0; 4 s; sweep; 1 s; sweep; commit; a-0 is marked; sweep"
    assert tell(story).endswith(
        "Ongoing 100/0 a-0 / Ongoing 100/0 a-0"
        " / Ongoing 100/0 a-0"
        " / PrepareAbort 100/1 a-0: abort to a-0"
        " / PrepareAbort 100/1 a-0: end PRODUCER_FENCED"
        " / CompleteAbort 100/1"
        " / CompleteAbort 100/1"
    )


def test_a_bump_that_could_not_be_written_is_not_repeated_until_epochs_run_out() -> None:
    story = "init timeout=5000; add a-0; 5 s; log refuses; sweep; sweep; log accepts; sweep"
    assert tell(story).endswith(
        "Ongoing 100/0 a-0 / Ongoing 100/0 a-0 / Ongoing 100/0 a-0"
        " / Ongoing 100/0 a-0 / PrepareAbort 100/1 a-0: abort to a-0"
    )


def test_time_counts_from_the_first_partition() -> None:
    story = "init timeout=5000; 4 s; add a-0; 4 s; add b-0; sweep; 1 s; sweep"
    assert tell(story).endswith(
        "Ongoing 100/0 a-0,b-0: add ok"
        " / Ongoing 100/0 a-0,b-0"
        " / Ongoing 100/0 a-0,b-0"
        " / PrepareAbort 100/1 a-0,b-0: abort to a-0,b-0"
    )


def test_an_id_that_is_not_used_for_long_is_forgotten() -> None:
    assert tell("init; 6 days; expire; 1 days; expire; init").endswith(
        "Empty 100/0 / Empty 100/0 / - / Empty 101/0: init 101/0"
    )


def test_an_open_transaction_is_never_forgotten() -> None:
    assert tell("init; add a-0; 8 days; expire; commit; 8 days; expire; a-0 is marked").endswith(
        "Ongoing 100/0 a-0"
        " / PrepareCommit 100/0 a-0: end ok, commit to a-0"
        " / PrepareCommit 100/0 a-0 / PrepareCommit 100/0 a-0"
        " / CompleteCommit 100/0"
    )


# The log ------------------------------------------------------------------------------------


def test_no_marker_is_sent_before_the_decision_is_committed() -> None:
    assert tell("init; add a-0; log waits; commit; commit; log commits").endswith(
        "PrepareCommit? 100/0 a-0"
        " / PrepareCommit? 100/0 a-0: end CONCURRENT_TRANSACTIONS"
        " / PrepareCommit 100/0 a-0: end ok, commit to a-0"
    )


def test_nobody_is_told_before_it_is_committed() -> None:
    assert tell("log waits; init; log commits; log waits; add a-0; init; log commits") == (
        "- / Empty? 100/0 / Empty 100/0: init 100/0"
        " / Empty 100/0"
        " / Ongoing? 100/0 a-0"
        " / Ongoing? 100/0 a-0: init CONCURRENT_TRANSACTIONS"
        " / Ongoing 100/0 a-0: add ok"
    )


def test_what_the_log_refuses_did_not_happen() -> None:
    assert tell("init; log refuses; add a-0; init; log accepts; add a-0; log refuses; commit") == (
        "Empty 100/0: init 100/0"
        " / Empty 100/0"
        " / Empty 100/0: add COORDINATOR_NOT_AVAILABLE"
        " / Empty 100/0: init COORDINATOR_NOT_AVAILABLE"
        " / Empty 100/0"
        " / Ongoing 100/0 a-0: add ok"
        " / Ongoing 100/0 a-0"
        " / Ongoing 100/0 a-0: end COORDINATOR_NOT_AVAILABLE"
    )


def test_a_decision_that_is_slow_to_be_committed_is_carried_out_all_the_same() -> None:
    story = tell("init; add a-0; log waits; commit; 30 s; log commits; 1 s; a-0 is marked")
    assert story.endswith(
        "PrepareCommit? 100/0 a-0"
        " / PrepareCommit? 100/0 a-0: end COORDINATOR_NOT_AVAILABLE"
        " / PrepareCommit 100/0 a-0"
        " / PrepareCommit 100/0 a-0: commit to a-0"
        " / CompleteCommit 100/0"
    )


def test_an_end_that_cannot_be_noted_is_noted_later() -> None:
    story = tell("init; add a-0; commit; log refuses; a-0 is marked; 1 s; log accepts; 1 s")
    assert story.endswith(
        "PrepareCommit 100/0 a-0 / PrepareCommit 100/0 a-0 / PrepareCommit 100/0 a-0"
        " / PrepareCommit 100/0 a-0 / CompleteCommit 100/0"
    )


# Failover -----------------------------------------------------------------------------------


def test_a_new_coordinator_goes_on_with_prepared_transactions() -> None:
    story = "init; add a-0; commit; coordinator fails; a-0 is marked"
    assert tell(story).endswith(
        "PrepareCommit 100/0 a-0: end ok, commit to a-0"
        " / PrepareCommit 100/0 a-0: commit to a-0 of term 2"
        " / CompleteCommit 100/0"
    )


def test_a_new_coordinator_sends_no_marker_before_the_decision_is_surely_committed() -> None:
    story = "init; add a-0; log waits; commit; coordinator fails; log commits"
    assert tell(story).endswith(
        "PrepareCommit? 100/0 a-0"
        " / PrepareCommit? 100/0 a-0: end NOT_COORDINATOR"
        " / PrepareCommit 100/0 a-0: commit to a-0 of term 2"
    )


def test_a_new_coordinator_vouches_for_no_partition_whose_record_may_still_be_lost() -> None:
    """Or a batch is let in, the record is lost with the coordinator, and no marker ever comes."""
    story = (
        "init; add a-0; log waits; add b-0; coordinator fails;"
        " verify b-0; add b-0; log commits; verify b-0; add b-0"
    )
    assert tell(story).endswith(
        "Ongoing? 100/0 a-0,b-0: add NOT_COORDINATOR"
        " / Ongoing? 100/0 a-0,b-0: verify CONCURRENT_TRANSACTIONS"
        " / Ongoing? 100/0 a-0,b-0: add CONCURRENT_TRANSACTIONS"
        " / Ongoing 100/0 a-0,b-0"
        " / Ongoing 100/0 a-0,b-0: verify ok"
        " / Ongoing 100/0 a-0,b-0: add ok"
    )


def test_partitions_are_vouched_for_while_others_are_being_added() -> None:
    """A client sends a group's offsets and its first records side by side."""
    story = "init; add a-0; log waits; add b-0; verify a-0; verify b-0; commit; log commits; commit"
    assert tell(story).endswith(
        "Ongoing? 100/0 a-0,b-0"
        " / Ongoing? 100/0 a-0,b-0: verify ok"
        " / Ongoing? 100/0 a-0,b-0: verify CONCURRENT_TRANSACTIONS"
        " / Ongoing? 100/0 a-0,b-0: end CONCURRENT_TRANSACTIONS"
        " / Ongoing 100/0 a-0,b-0: add ok"
        " / PrepareCommit 100/0 a-0,b-0: end ok, commit to a-0,b-0"
    )


def test_nothing_is_vouched_for_while_a_transaction_ends() -> None:
    story = "init; add a-0; log waits; commit; verify a-0"
    assert tell(story).endswith(
        "PrepareCommit? 100/0 a-0 / PrepareCommit? 100/0 a-0: verify CONCURRENT_TRANSACTIONS"
    )


def test_an_open_transaction_survives_its_coordinator() -> None:
    assert tell("init; add a-0; coordinator fails; add b-0; commit").endswith(
        "Ongoing 100/0 a-0"
        " / Ongoing 100/0 a-0,b-0: add ok"
        " / PrepareCommit 100/0 a-0,b-0: end ok, commit to a-0,b-0 of term 2"
    )


def test_a_marker_that_a_former_coordinator_is_told_of_completes_nothing() -> None:
    world = World()
    world.tell("init; add a-0; commit")
    (former,) = world.completions
    world.tell("coordinator fails")
    former.written(TopicPartition("a", 0))
    assert world.step("0 ms") == "PrepareCommit 100/0 a-0"


def test_a_marker_is_counted_once() -> None:
    world = World()
    world.tell("init; add a-0; commit")
    (completion,) = world.completions
    world.tell("a-0 is marked; add a-0")
    completion.written(TopicPartition("a", 0))
    assert world.step("0 ms") == "Ongoing 100/0 a-0"


def test_a_transaction_without_any_partition_left_is_complete_at_once() -> None:
    assert tell("init; add; commit").endswith(
        "Ongoing 100/0: add ok / CompleteCommit 100/0: end ok, commit to nobody"
    )


# A new epoch for every transaction (KIP-890) ------------------------------------------------


def test_a_transaction_ends_with_the_next_epoch() -> None:
    assert tell("init; add a-0; commit and bump; a-0 is marked; add b-0; abort and bump") == (
        "Empty 100/0: init 100/0"
        " / Ongoing 100/0 a-0: add ok"
        " / PrepareCommit 100/1 a-0: end 100/1, commit to a-0"
        " / CompleteCommit 100/1"
        " / Ongoing 100/1 b-0: add ok"
        " / PrepareAbort 100/2 b-0: end 100/2, abort to b-0"
    )


def test_an_end_that_comes_again_is_told_the_same_epoch() -> None:
    story = "init; add a-0; commit and bump; commit and bump as=100/0; a-0 is marked;"
    story += "commit and bump as=100/0; abort and bump as=100/0"
    assert tell(story).endswith(
        "PrepareCommit 100/1 a-0: end CONCURRENT_TRANSACTIONS"
        " / CompleteCommit 100/1"
        " / CompleteCommit 100/1: end 100/1"
        " / CompleteCommit 100/1: end INVALID_TXN_STATE"
    )


@pytest.mark.parametrize("late", ["commit", "abort"])
def test_an_end_that_is_late_never_touches_the_next_transaction(late: str) -> None:
    story = f"init; add a-0; commit and bump; a-0 is marked; add b-0; {late} and bump as=100/0"
    assert tell(story).endswith(
        "Ongoing 100/1 b-0: add ok / Ongoing 100/1 b-0: end PRODUCER_FENCED"
    )


def test_without_new_epochs_an_end_that_is_late_cannot_be_told_from_one_in_time() -> None:
    """What the older version of transactions suffers from."""
    story = "init; add a-0; commit; a-0 is marked; add b-0; commit as=100/0"
    assert tell(story).endswith("PrepareCommit 100/0 b-0: end ok, commit to b-0")


def test_a_producer_may_abort_what_it_has_not_begun_to_get_a_new_epoch() -> None:
    assert tell("init; abort and bump; commit and bump; abort and bump as=100/0") == (
        "Empty 100/0: init 100/0"
        " / CompleteAbort 100/1: end 100/1, abort to nobody"
        " / CompleteAbort 100/1: end INVALID_TXN_STATE"
        " / CompleteAbort 100/1: end 100/1"
    )


def test_a_producer_whose_epochs_are_used_up_gets_its_new_id_with_the_end() -> None:
    story = "init; epoch is 32766; add a-0; commit and bump; a-0 is marked;"
    story += "commit and bump as=100/32766; add b-0; commit and bump as=100/32766"
    assert tell(story).endswith(
        "PrepareCommit 100/32767 a-0: end 101/0, commit to a-0"
        " / CompleteCommit 101/0"
        " / CompleteCommit 101/0: end 101/0"
        " / Ongoing 101/0 b-0: add ok"
        " / Ongoing 101/0 b-0: end PRODUCER_FENCED"
    )


def test_strangers_end_nothing() -> None:
    assert tell("commit and bump as=7/0; init; add a-0; commit and bump as=7/0").endswith(
        "Ongoing 100/0 a-0: end INVALID_PRODUCER_ID_MAPPING"
    )
    assert tell("init; init; add a-0; commit and bump as=100/0").endswith(
        "Ongoing 100/1 a-0: end PRODUCER_FENCED"
    )


def test_a_new_coordinator_knows_which_epochs_were_given() -> None:
    story = "init; epoch is 32766; add a-0; commit and bump; coordinator fails; a-0 is marked;"
    story += "commit and bump as=100/32766"
    assert tell(story).endswith(
        "PrepareCommit 100/32767 a-0: commit to a-0 of term 2"
        " / CompleteCommit 101/0"
        " / CompleteCommit 101/0: end 101/0"
    )


# Records ------------------------------------------------------------------------------------


def test_a_record_says_all_there_is_to_say() -> None:
    partitions = frozenset({TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("a", 2)})
    known = Transaction(7, 3, 60_000, TxnState.ONGOING, partitions, 11, 12)
    codec = TransactionRecords()
    key, value = codec.encode(TransactionRecord(ID, known))
    assert key == b"\0\0\0\1t"
    assert codec.decode(key, value) == TransactionRecord(ID, known)
    assert codec.decode(key, None) == TransactionRecord(ID, None)


def test_an_empty_transaction_has_no_partitions_to_name() -> None:
    codec = TransactionRecords()
    key, value = codec.encode(TransactionRecord(ID, Transaction(7, 0, 60_000, updated_ms=5)))
    assert value is not None
    assert value[:2] == b"\0\0"
    assert codec.decode(key, value) == TransactionRecord(
        ID, Transaction(7, 0, 60_000, updated_ms=5)
    )


@pytest.mark.parametrize("damaged", [b"", b"\0", b"\0\x09", b"\0\0\0"])
def test_a_damaged_record_is_named_as_such(damaged: bytes) -> None:
    with pytest.raises(ProtocolError):
        TransactionRecords().decode(b"\0\0\0\1t", damaged)


def test_records_of_other_types_are_passed_over() -> None:
    assert TransactionRecords().decode(b"\0\x05\0\1t", b"\0\0") is None
