"""Records for clients that fetch in old versions: no zstd before 10, no format 2 before 4."""

from typing import Final

from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.legacy_records import down_convert
from odradek.storage.files import FileSlice
from odradek.storage.log_config import LogConfig

FIRST_VERSION_FOR_ALL: Final = 10
_FIRST_VERSION_OF_FORMAT_2: Final = 4
_FIRST_VERSION_OF_FORMAT_1: Final = 2


def for_old_clients(
    records: FileSlice | bytes, config: LogConfig, version: int
) -> FileSlice | bytes:
    """What a client of this version can read. Raises KafkaError when there is no such thing."""
    if config.compression_type == "zstd":
        raise KafkaError(Errors.UNSUPPORTED_COMPRESSION_TYPE)
    if version >= _FIRST_VERSION_OF_FORMAT_2:
        return records
    if not config.message_downconversion_enable:
        raise KafkaError(Errors.UNSUPPORTED_VERSION)
    data = records if isinstance(records, bytes) else records.read()
    return down_convert(data, magic=0 if version < _FIRST_VERSION_OF_FORMAT_1 else 1)
