"""Several brokers for a test: `with Cluster(3) as cluster`, or `async with`.

The brokers share a metadata store and replicate through their sockets, all on one event loop in a
thread of its own. They are numbered from 1 and come and go by their number; whatever runs is found
through `bootstrap_servers`. Methods wait until they are done and may be called from any thread.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, Self

from odradek.broker.broker import Broker as WholeBroker
from odradek.broker.config import BrokerConfig
from odradek.broker.fault_routes import FaultPoint
from odradek.broker.faults import Faults
from odradek.broker.local_cluster import LocalCluster, cluster_settings
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

FIRST_ID: Final = 1


class Cluster:
    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, Given] | None = None,
        *,
        topics: Topics = (),
        **more_settings: Given,
    ) -> None:
        """Settings, for every broker, as those of `Broker`."""
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        self.faults = Faults()
        """Met at every broker of the cluster."""
        self.broker_ids = tuple(range(FIRST_ID, FIRST_ID + brokers))
        self._settings = {
            **cluster_settings(brokers),
            **TEST_SETTINGS,
            **as_settings(settings, more_settings),
        }
        self._topics = wanted_topics(topics)
        self._thread: LoopThread | None = None
        self._cluster: LocalCluster | None = None
        self._points: dict[int, FaultPoint] = {}
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
        """The brokers that run now."""
        return ",".join(map(str, self._open_cluster.addresses))

    @property
    def running(self) -> tuple[int, ...]:
        return tuple(sorted(self._open_cluster.brokers))

    @property
    def controller_id(self) -> int | None:
        """The broker that is controller now; None while there is none."""
        brokers = self._open_cluster.brokers
        return next((id_ for id_, broker in brokers.items() if broker.is_controller), None)

    def start(self) -> Self:
        """Returns when every broker serves."""
        if self._thread is not None:
            raise RuntimeError("the cluster runs already")
        directory = Path(self._leaving.enter_context(temporary_directory()))
        self._thread = LoopThread("odradek-cluster")
        try:
            self._cluster = self._thread.run(partial(self._start, directory))
        except BaseException:
            self.close()
            raise
        for broker_id, broker in self._cluster.brokers.items():
            self._let_faults_in(broker_id, broker)
        return self

    def stop_broker(self, broker_id: int) -> None:
        """Stop one as on SIGTERM: it hands its partitions over first."""
        self._keep_faults_out(broker_id)
        self._on_the_loop.run(partial(self._open_cluster.stop_broker, broker_id))

    def kill_broker(self, broker_id: int) -> None:
        """End one as on SIGKILL: it hands nothing over and has to recover its logs."""
        self._keep_faults_out(broker_id)
        broker = self._open_cluster.brokers.pop(broker_id)
        self._on_the_loop.run(partial(broker.stop, hand_over=False, is_clean=False))

    def start_broker(self, broker_id: int) -> None:
        """Start one that was stopped or killed, on its data of before."""
        broker = self._on_the_loop.run(partial(self._open_cluster.start_broker, broker_id))
        self._let_faults_in(broker_id, broker)

    def close(self) -> None:
        """Stop everything and forget the data."""
        for broker_id in list(self._points):
            self._keep_faults_out(broker_id)
        if self._cluster is not None:
            self._on_the_loop.run(self._cluster.stop)
            self._cluster = None
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        self._leaving.close()

    @property
    def _open_cluster(self) -> LocalCluster:
        if self._cluster is None:
            raise RuntimeError("the cluster does not run")
        return self._cluster

    @property
    def _on_the_loop(self) -> LoopThread:
        assert self._thread is not None, "an open cluster has a thread"
        return self._thread

    async def _start(self, directory: Path) -> LocalCluster:
        configs = [
            BrokerConfig.of(
                {
                    "broker.id": str(broker_id),
                    "listeners": f"PLAINTEXT://{HOST}:0",
                    "log.dirs": str(directory / f"broker-{broker_id}"),
                    **self._settings,
                }
            )
            for broker_id in self.broker_ids
        ]
        cluster = LocalCluster(
            configs,
            directory=directory,
            loop=asyncio.get_running_loop(),
            clock=SystemClock(),
            files=OsFiles(),
            random=Random(),
            on_fatal=note_failure,
        )
        await cluster.start(self._topics)
        return cluster

    def _let_faults_in(self, broker_id: int, broker: WholeBroker) -> None:
        point = self._points[broker_id] = broker.fault_point()
        self.faults.attach(point)

    def _keep_faults_out(self, broker_id: int) -> None:
        self.faults.detach(self._points.pop(broker_id))
