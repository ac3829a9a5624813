"""What does idempotence cost an append? Microseconds of checking and noting one batch."""

import argparse
import json

from odradek.protocol.records import BatchHeader
from odradek.storage.memory_files import MemoryFiles
from odradek.storage.producer_state import ProducerStates

from benchmarks._timing import best_us

RECORDS = 16


def batches(count: int) -> list[BatchHeader]:
    shape = {"length": 16000, "leader_epoch": 0, "magic": 2, "crc": 0, "attributes": 0}
    stamps = {"base_timestamp": 5, "max_timestamp": 5, "producer_id": 7, "producer_epoch": 0}
    return [
        BatchHeader(
            base_offset=RECORDS * n,
            base_sequence=RECORDS * n,
            last_offset_delta=RECORDS - 1,
            count=RECORDS,
            **shape,
            **stamps,
        )
        for n in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    calls = 2_000 if parser.parse_args().quick else 100_000
    files = MemoryFiles()
    files.make_dir("/log")
    states = ProducerStates("/log", files=files, expiration_ms=10**9)
    *noted, following = batches(calls + 1)

    def note_all() -> None:
        for header in noted:
            states.update(header)

    update_us = best_us(note_all, calls=1) / calls
    oldest_kept = noted[-5]
    result = {
        "update_us": update_us,
        "check_in_order_us": best_us(lambda: states.check(following), calls=calls),
        "check_repeated_us": best_us(lambda: states.check(oldest_kept), calls=calls // 10),
    }
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
