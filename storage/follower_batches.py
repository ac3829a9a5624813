"""What a follower checks before it appends the batches of its leader: nothing but their integrity.

Size limits, timestamps and sequences were the leader's to check, under a configuration that may
have changed since. A pure decision.
"""

from collections.abc import Sequence

from odradek.protocol.errors import Errors, KafkaError, ProtocolError
from odradek.protocol.records import BatchHeader, check_crc, iter_headers
from odradek.storage.files import Buffer


class UnexpectedOffset(KafkaError):
    """The leader's bytes do not continue this log."""

    def __init__(self, first_offset: int, last_offset: int, expected: int) -> None:
        super().__init__(
            Errors.UNKNOWN_SERVER_ERROR,
            f"batches from {first_offset} to {last_offset} do not continue a log "
            f"that ends at {expected}",
        )
        self.first_offset = first_offset
        self.last_offset = last_offset


def check_replicated(
    records: Buffer, log_end: int, *, is_empty: bool
) -> tuple[Buffer, Sequence[BatchHeader]]:
    """The whole batches among fetched bytes, and their headers.

    They must continue the log, with gaps where the leader compacted. Only an empty log takes a
    first batch that begins before its end and reaches beyond it: the one that straddles the
    leader's log start.
    """
    headers: list[BatchHeader] = []
    end, expected = 0, log_end
    try:
        for position, header in iter_headers(records):
            check_crc(records, position, header)
            straddles = is_empty and not headers and header.last_offset >= log_end
            if (header.base_offset < expected and not straddles) or header.last_offset_delta < 0:
                raise UnexpectedOffset(header.base_offset, header.last_offset, expected)
            headers.append(header)
            end, expected = position + header.size_bytes, header.next_offset
    except ProtocolError as error:
        raise KafkaError(Errors.CORRUPT_MESSAGE, str(error)) from error
    return (records if end == len(records) else memoryview(records)[:end]), headers
