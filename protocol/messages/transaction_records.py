"""What a transaction coordinator writes to `__transaction_state`."""

from odradek.protocol.schema import INT32, Data, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Data, versions="0"):
    """Key of a transaction."""

    transactional_id: str = string()


class TransactionLogPartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(INT32)


class TransactionLogValue(Data, versions="0-1", flexible="1+"):
    """The state of a transaction."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionLogPartitionsSchema] | None = array(
        TransactionLogPartitionsSchema, nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", default=0, tag=2)
