"""One broker for a test: `with Broker() as broker`, or `async with`.

It is the broker that `odradek serve` runs, on an event loop in a thread of its own: a test may
block its own thread, or its own loop, without stopping the broker. It listens on a free port, which
it keeps over `restart`, and its data goes away with it unless `data_dir` says where to keep it.

All methods wait until they are done and may be called from any thread. In a coroutine that must
not wait, `await asyncio.to_thread(broker.restart)`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Self

from odradek.broker.broker import Broker as WholeBroker
from odradek.broker.config import BrokerConfig
from odradek.broker.faults import Faults
from odradek.client.loop_thread import LoopThread
from odradek.protocol.clock import SystemClock
from odradek.storage.files import OsFiles
from odradek.testing.surroundings import (
    HOST,
    TEST_SETTINGS,
    Given,
    Topics,
    as_settings,
    note_failure,
    temporary_directory,
    wanted_topics,
)


class Broker:
    def __init__(
        self,
        settings: Mapping[str, Given] | None = None,
        *,
        topics: Topics = (),
        data_dir: Path | str | None = None,
        **more_settings: Given,
    ) -> None:
        """Settings have Kafka's names, with underscores for dots as keyword arguments."""
        self.faults = Faults()
        self._settings = {**TEST_SETTINGS, **as_settings(settings, more_settings)}
        self._topics = wanted_topics(topics)
        self._data_dir = None if data_dir is None else str(data_dir)
        self._port = 0
        self._thread: LoopThread | None = None
        self._running: WholeBroker | None = None
        self._leaving = ExitStack()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given; the same over restarts."""
        return f"{HOST}:{self.port}"

    @property
    def port(self) -> int:
        if not self._port:
            raise RuntimeError("the broker was not started yet")
        return self._port

    @property
    def data_dir(self) -> str:
        """Where its logs are."""
        if self._data_dir is None:
            raise RuntimeError("the broker has no data now")
        return self._data_dir

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def start(self) -> Self:
        """Returns when clients are served. Raises CannotStart, CannotListen or SettingsError."""
        if self._running is not None:
            raise RuntimeError("the broker runs already")
        if self._thread is None:
            self._open()
        assert self._thread is not None
        try:
            self._running = self._thread.run(self._start)
        except BaseException:
            if not self._port:
                self.close()
            raise
        self._port = self._running.address.port
        return self

    def stop(self) -> None:
        """Stop as on SIGTERM; `start` goes on with the same data. Fine when it does not run."""
        self._end(is_clean=True)

    def kill(self) -> None:
        """End as on SIGKILL: connections break, and the next start has to recover the logs."""
        self._end(is_clean=False)

    def restart(self) -> None:
        self.stop()
        self.start()

    def create_topics(self, topics: Topics) -> None:
        """`{"orders": 3}` or `["orders"]`; those that exist are left alone."""
        if self._running is None or self._thread is None:
            raise RuntimeError("the broker does not run")
        self._thread.run(partial(self._running.make_topics, wanted_topics(topics)))

    def close(self) -> None:
        """Stop and let go of everything, the data too if it is the broker's own."""
        self.stop()
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        self._leaving.close()

    def _open(self) -> None:
        if self._data_dir is None:
            self._data_dir = self._leaving.enter_context(temporary_directory())
            self._leaving.callback(setattr, self, "_data_dir", None)
        self._thread = LoopThread("odradek-broker")

    async def _start(self) -> WholeBroker:
        own = {"listeners": f"PLAINTEXT://{HOST}:{self._port}", "log.dirs": str(self._data_dir)}
        broker = WholeBroker(
            BrokerConfig.of({**own, **self._settings}),
            loop=asyncio.get_running_loop(),
            clock=SystemClock(),
            files=OsFiles(),
            random=Random(),
            on_fatal=note_failure,
        )
        await broker.start(self._topics)
        self._point = broker.fault_point()
        self.faults.attach(self._point)
        return broker

    def _end(self, *, is_clean: bool) -> None:
        broker, self._running = self._running, None
        if broker is None:
            return
        assert self._thread is not None
        self.faults.detach(self._point)
        self._thread.run(partial(broker.stop, hand_over=False, is_clean=is_clean))
