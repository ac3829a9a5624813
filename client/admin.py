"""The admin client: everything about a cluster that is not records.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        raise_failures(await admin.create_topics([NewTopic("orders", partitions=6)]))

Its parts are one module each: topics, configs, groups, cluster, features, transactions,
security.
"""

from collections.abc import Mapping
from random import Random
from typing import Self

from odradek.client.admin_base import raise_failures
from odradek.client.admin_cluster import ClusterAdmin
from odradek.client.admin_configs import Change, ConfigAdmin, Operation, Resource, ResourceType
from odradek.client.admin_features import FeatureAdmin
from odradek.client.admin_groups import GroupAdmin
from odradek.client.admin_security import SecurityAdmin
from odradek.client.admin_topics import NewTopic, TopicAdmin
from odradek.client.admin_transactions import TransactionAdmin
from odradek.client.cluster import Cluster
from odradek.client.connection import Dial, dial_tcp
from odradek.client.settings import AdminSettings, Given, configured


class Admin(
    TopicAdmin,
    ConfigAdmin,
    GroupAdmin,
    ClusterAdmin,
    FeatureAdmin,
    TransactionAdmin,
    SecurityAdmin,
):
    def __init__(
        self,
        config: Mapping[str, Given] | None = None,
        *,
        random: Random | None = None,
        dial: Dial = dial_tcp,
        **settings: Given,
    ) -> None:
        self.settings = configured(AdminSettings, config, **settings)
        self._cluster = Cluster(self.settings, dial=dial, random=random)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, timeout_s: float | None = None) -> None:
        """Find the cluster. Raises KafkaError when no broker answers in time."""
        try:
            await self._cluster.start(self._timeout_s if timeout_s is None else timeout_s)
        except BaseException:
            await self._cluster.close()
            raise

    async def close(self) -> None:
        await self._cluster.close()


__all__ = [
    "Admin",
    "Change",
    "NewTopic",
    "Operation",
    "Resource",
    "ResourceType",
    "raise_failures",
]
