"""The five codecs of record batches."""

from enum import IntEnum

from .errors import ProtocolError


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_id(cls, codec_id: int) -> "Codec":
        if not 0 <= codec_id <= 4:
            raise ProtocolError(f"no codec has the id {codec_id}")
        return cls(codec_id)
