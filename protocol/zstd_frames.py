"""Whether zstd data is complete: its streaming decoder takes a cut-off end for the end.

A frame is a header, blocks (3-byte little-endian header: bit 0 last, bits 1-2 type, the rest size;
then `size` bytes, or one byte to repeat for type RLE), and 4 bytes of checksum if the header says
so. Skippable frames (magic 0x184D2A50 to 5F, u32 size) may stand between. Only `compression`
calls this.
"""

import zstandard

_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
_MAX_FRAME_HEADER_BYTES = 18
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_RLE_BLOCK = 1
_RESERVED_BLOCK = 3


def ends_with_a_whole_frame(data: bytes) -> bool:
    """True when frames follow one another up to the very last byte. Their content is not read."""
    position = 0
    while position < len(data):
        frame_end = _frame_end(data, position)
        if frame_end is None or frame_end > len(data):
            return False
        position = frame_end
    return position > 0


def _frame_end(data: bytes, position: int) -> int | None:
    if data[position] >> 4 == 5 and data.startswith(_SKIPPABLE_MAGIC, position + 1):
        content_at = position + 8
        return content_at + int.from_bytes(data[position + 4 : content_at], "little")
    head = data[position : position + _MAX_FRAME_HEADER_BYTES]
    try:
        checksum_bytes = _CHECKSUM_BYTES if zstandard.get_frame_parameters(head).has_checksum else 0
        position += zstandard.frame_header_size(head)
    except zstandard.ZstdError:
        return None
    blocks_end = _blocks_end(data, position)
    return None if blocks_end is None else blocks_end + checksum_bytes


def _blocks_end(data: bytes, position: int) -> int | None:
    """One past the last block; may lie past the data."""
    while position + _BLOCK_HEADER_BYTES <= len(data):
        header = int.from_bytes(data[position : position + _BLOCK_HEADER_BYTES], "little")
        kind = header >> 1 & 3
        if kind == _RESERVED_BLOCK:
            return None
        position += _BLOCK_HEADER_BYTES + (1 if kind == _RLE_BLOCK else header >> 3)
        if header & 1:
            return position
    return None
