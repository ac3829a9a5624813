"""What does it cost to check and stamp a produced batch? Microseconds, the CRC set apart."""

import argparse
import json

from crc32c import crc32c
from odradek.protocol.records import Record, build_batch, iter_records, read_header
from odradek.storage.framing import check_framing
from odradek.storage.log_config import LogConfig
from odradek.storage.validation import validate_and_stamp

from benchmarks._timing import best_us

NOW = 1_700_000_000_000
SHAPES = {
    "1 x 100 B": (1, 100, 0),
    "16 x 1 KB": (16, 1000, 0),
    "150 x 100 B": (150, 90, 0),
    "150 x 10-190 B": (150, 10, 180),
    "9000 x 100 B": (9_000, 90, 0),
    "9000 x 10-190 B": (9_000, 10, 180),
}


def batch(count: int, value_bytes: int, spread: int) -> bytearray:
    values = (value_bytes + (n * 7919) % (spread + 1) for n in range(count))
    return bytearray(
        build_batch(Record(n, NOW + n // 3, None, b"x" * size) for n, size in enumerate(values))
    )


def measure(data: bytearray, config: LogConfig, calls: int) -> dict[str, float]:
    view, count = memoryview(data), read_header(data).count

    def validate() -> None:
        # Stamped with offset 0 again, so that the batch stays as a producer sends it.
        validate_and_stamp(view, next_offset=0, leader_epoch=5, config=config, now_ms=NOW)

    crc_us = best_us(lambda: crc32c(view[21:]), calls=calls)
    return {
        "bytes": len(data),
        "crc_us": round(crc_us, 2),
        "validate_without_crc_us": round(best_us(validate, calls=calls) - crc_us, 2),
        "of_which_framing_us": round(
            best_us(lambda: check_framing(view, 61, len(data), count), calls=calls), 2
        ),
        "decoding_all_records_would_be_us": round(
            best_us(lambda: list(iter_records(data, strict=True)), calls=max(1, calls // 10)), 2
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    budget = 2_000 if parser.parse_args().quick else 200_000
    config = LogConfig({})
    rows = {
        name: measure(batch(*shape), config, max(1, budget // (shape[0] + 10)))
        for name, shape in SHAPES.items()
    }
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
