"""Do the records of an uncompressed batch fill it exactly? A walk over their lengths alone.

Each record begins with its length as a zig-zag varint. The walk follows these lengths: `count`
records must end where the batch ends. What a record says inside itself is its producer's and
consumer's affair.

Hot code: equally long records come in runs (offset and timestamp deltas grow by a byte now and
then, values often have one size), and the lengths of a whole run are compared at once by slicing
with a stride.
"""

from odradek.protocol.errors import ProtocolError
from odradek.protocol.records import ReadableBuffer
from odradek.protocol.varints import long_varint

# Below this many records left, looking for a run costs more than walking.
_MIN_RUN = 8
_MAX_RUN = 1024


def check_framing(data: ReadableBuffer, position: int, end: int, count: int) -> None:
    """Raises ProtocolError unless `count` records fill data[position:end]."""
    if _are_all_alike(data, position, end, count):
        return
    previous = 0
    left = count
    try:
        while left:
            start = position
            if (raw := data[position]) < 128:
                position += 1 + (raw >> 1)
            elif (more := data[position + 1]) < 128:
                raw += (more << 7) - 128
                position += 2 + (raw >> 1)
            else:
                raw, head = long_varint(bytes(data[position : position + 5]), 0)
                position += head + (raw >> 1)
            if raw & 1 or position > end:
                raise ProtocolError(f"record {count - left} has a wrong length")
            left -= 1
            size = position - start
            if size == previous and left >= _MIN_RUN:
                run = _run(data, start, size, min(left, _MAX_RUN, (end - position) // size))
                left -= run
                position += run * size
            previous = size
    except IndexError:
        raise ProtocolError("record reaches past the end of its batch") from None
    if position != end:
        raise ProtocolError(f"{end - position} bytes follow the last record of a batch")


def _are_all_alike(data: ReadableBuffer, position: int, end: int, count: int) -> bool:
    """Whether the records surely have one length, as the first one says, and fill the batch.

    One comparison for each byte of the length instead of a walk: 1.2 µs for 16 records.
    """
    filled = end - position
    if count < 1 or filled < 2:
        return False
    size = filled // count
    first, more = data[position], data[position + 1]
    if first < 128:
        length = 1 + (first >> 1)
    elif more < 128:
        length = 2 + ((first + (more << 7) - 128) >> 1)
    else:
        return False
    if first & 1 or length != size or size * count != filled:
        return False
    if bytes(data[position:end:size]).count(first) != count:
        return False
    return first < 128 or bytes(data[position + 1 : end : size]).count(more) == count


def _run(data: ReadableBuffer, start: int, size: int, most: int) -> int:
    """How many records after the one at `start` surely have the same length bytes."""
    head = 1 if data[start] < 128 else 2 if data[start + 1] < 128 else 5
    if head > 2:
        return 0
    run = most
    first = start + size
    for at in range(head):
        lengths = bytes(data[first + at : first + at + run * size : size])
        run = len(lengths) - len(lengths.lstrip(bytes((data[start + at],))))
    return run
