"""testcontainers-python's KafkaContainer with another image: `testcontainers_kafka.py IMAGE MODE`.

Nothing here is special to the image; MODE is `zookeeper`, the module's default, or `kraft`.
"""

import sys
import time

from confluent_kafka import Consumer, Producer
from testcontainers.kafka import KafkaContainer


def main(image: str, mode: str) -> None:
    container = KafkaContainer(image)
    if mode == "kraft":
        container = container.with_kraft()
    began = time.monotonic()
    with container as kafka:
        print(f"{mode}: started after {time.monotonic() - began:.1f} s")
        servers = kafka.get_bootstrap_server()
        # It would tell of the container's end.
        producer = Producer({"bootstrap.servers": servers, "log_level": 3})
        for number in range(100):
            producer.produce("orders", f"order {number}")
        assert producer.flush(60) == 0, "everything is delivered"
        group = {"group.id": "readers", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": servers, **group})
        consumer.subscribe(["orders"])
        read = {message.value() for message in consumer.consume(100, timeout=60)}
        consumer.close()
        assert len(read) == 100, f"read {len(read)} of 100"
        print(f"{mode}: 100 records written and read through {servers}")


if __name__ == "__main__":
    main(*sys.argv[1:])
