"""One client does one piece of work against a running broker, in a process of its own.

`python -m benchmarks._client_load CLIENT WORK BOOTSTRAP TOPIC COUNT BYTES` prints one JSON object:
seconds and CPU seconds (of this process) for COUNT records of BYTES, or percentiles of single
sends. Every client has its stock settings except acks=1 and batches of 16 KB, and uses uvloop where
it runs on asyncio; all producers send without keys and wait for everything at the end. Only the
client that works is imported.

`latency` keeps to the last core. Left alone, Linux may put a client and its broker on one core,
where neither ever has to be woken from another: that halves the time of a send, and is chance.
"""

import asyncio
import json
import os
import sys
from importlib import import_module

import uvloop


def main() -> None:
    client, work, bootstrap, topic, count, size = sys.argv[1:]
    module = import_module(f"benchmarks._load_{client.replace('-', '_')}")
    job = getattr(module, work)
    value = b"x" * int(size)
    if work == "latency":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(job(bootstrap, topic, int(count), value))))


if __name__ == "__main__":
    main()
