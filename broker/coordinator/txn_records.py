"""The records of `__transaction_state`: one for each transactional id, the last one counts.

A key begins with its type (0), a value with its version, both i16. Values are written in version 0,
as Kafka 3.9 writes them, and in version 1 for clients of the second version of transactions, of
whom there is more to say; both are read. A tombstone says that the id is forgotten.
"""

from struct import Struct
from typing import Final, NamedTuple

from odradek.broker.coordinator.transaction import NO_PARTITIONS, Transaction
from odradek.broker.coordinator.txn_states import TxnState
from odradek.protocol.compiler import decode, encode
from odradek.protocol.errors import ProtocolError
from odradek.protocol.messages.transaction_records import (
    TransactionLogKey,
    TransactionLogPartitionsSchema,
    TransactionLogValue,
)
from odradek.protocol.types import TopicPartition

_VERSION: Final = Struct(">h")
_KEY: Final = 0
_PLAIN_VALUE: Final = 0
_VALUE_WITH_BUMP: Final = 1
_VERSION_WITH_BUMP: Final = 2
_VALUES: Final = (0, 1)
# The others are passed through in memory, if at all.
_WRITTEN: Final = {
    state.value: state
    for state in TxnState
    if state not in (TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE)
}


class TransactionRecord(NamedTuple):
    """The state of a transactional id; None forgets it."""

    transactional_id: str
    value: Transaction | None


class TransactionRecords:
    """The codec of these records."""

    def encode(self, record: TransactionRecord, /) -> tuple[bytes, bytes | None]:
        named = TransactionLogKey(transactional_id=record.transactional_id)
        key = _VERSION.pack(_KEY) + encode(named, _KEY)
        if record.value is None:
            return key, None
        version = _VALUE_WITH_BUMP if record.value.bumps else _PLAIN_VALUE
        return key, _VERSION.pack(version) + encode(_to_value(record.value), version)

    def decode(self, key: bytes | None, value: bytes | None, /) -> TransactionRecord | None:
        if _read_version(key) != _KEY:
            return None
        assert key is not None
        name = decode(TransactionLogKey, _KEY, key, _VERSION.size).transactional_id
        if value is None:
            return TransactionRecord(name, None)
        version = _read_version(value)
        if version not in _VALUES:
            raise ProtocolError(f"the state of a transaction has version {version}")
        content = decode(TransactionLogValue, version, value, _VERSION.size)
        return TransactionRecord(name, _from_value(content))


def _to_value(transaction: Transaction) -> TransactionLogValue:
    partitions = None
    if transaction.state is not TxnState.EMPTY:
        partitions = [
            TransactionLogPartitionsSchema(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic(transaction.partitions).items()
        ]
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=_VERSION_WITH_BUMP if transaction.bumps else 0,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )


def _from_value(value: TransactionLogValue) -> Transaction:
    state = _WRITTEN.get(value.transaction_status)
    if state is None:
        raise ProtocolError(f"no transaction is written in state {value.transaction_status}")
    partitions = NO_PARTITIONS
    if value.transaction_partitions:
        partitions = frozenset(
            TopicPartition(each.topic, index)
            for each in value.transaction_partitions
            for index in each.partition_ids
        )
    return Transaction(
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=partitions,
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        bumps=value.client_transaction_version >= _VERSION_WITH_BUMP,
    )


def by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    """In an order that does not depend on chance."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _read_version(data: bytes | None) -> int:
    if data is None or len(data) < _VERSION.size:
        raise ProtocolError("a record of a coordinator has no version")
    return int(_VERSION.unpack_from(data)[0])
