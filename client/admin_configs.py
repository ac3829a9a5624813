"""Settings of topics, brokers and other resources: read with their sources, changed one by one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from odradek.client.admin_base import AdminBase, Results, failure
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.settings import Kind, Source


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """An empty broker name means the default for all brokers."""

    type: ResourceType
    name: str


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    value: str | None = None
    operation: Operation = Operation.SET


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: Source
    is_read_only: bool
    is_sensitive: bool
    kind: Kind | None
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, Source], ...]


class ConfigAdmin(AdminBase):
    async def describe_configs(
        self,
        resources: Iterable[Resource],
        *,
        names: Iterable[str] | None = None,
        include_documentation: bool = False,
    ) -> Results[Resource, dict[str, ConfigEntry]]:
        """All settings of each resource, or only those named."""
        keys = None if names is None else list(names)
        results: Results[Resource, dict[str, ConfigEntry]] = {}
        for broker, group in _by_broker(resources).items():
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=row.type, resource_name=row.name, configuration_keys=keys
                    )
                    for row in group
                ],
                include_synonyms=True,
                include_documentation=include_documentation,
            )
            answer = await (
                self._ask_any(request, DescribeConfigsResponse)
                if broker is None
                else self._ask_broker(broker, request, DescribeConfigsResponse)
            )
            for told in answer.results:
                resource = Resource(ResourceType(told.resource_type), told.resource_name)
                results[resource] = failure(told.error_code, told.error_message) or {
                    config.name: _entry(config) for config in told.configs
                }
        return results

    async def alter_configs(
        self, changes: Mapping[Resource, Iterable[Change]], *, validate_only: bool = False
    ) -> Results[Resource, None]:
        """Change single settings; all others stay."""
        results: Results[Resource, None] = {}
        for broker, group in _by_broker(changes).items():
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsAlterConfigsResource(
                        resource_type=row.type,
                        resource_name=row.name,
                        configs=[
                            IncrementalAlterConfigsAlterableConfig(
                                name=change.name,
                                config_operation=change.operation,
                                value=change.value,
                            )
                            for change in changes[row]
                        ],
                    )
                    for row in group
                ],
                validate_only=validate_only,
            )
            answer = await (
                self._ask_any(request, IncrementalAlterConfigsResponse)
                if broker is None
                else self._ask_broker(broker, request, IncrementalAlterConfigsResponse)
            )
            for told in answer.responses:
                resource = Resource(ResourceType(told.resource_type), told.resource_name)
                error: KafkaError | None = failure(told.error_code, told.error_message)
                results[resource] = error
        return results


def _by_broker(resources: Iterable[Resource]) -> dict[int | None, list[Resource]]:
    """Only a broker itself knows, and changes, its own settings; everybody knows the others."""
    groups: dict[int | None, list[Resource]] = {}
    for resource in resources:
        is_one_broker = (
            resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name
        )
        groups.setdefault(int(resource.name) if is_one_broker else None, []).append(resource)
    return groups


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    source = config.config_source
    if source < 0:
        source = Source.DEFAULT if config.is_default else Source.UNKNOWN
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_source(source),
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        kind=Kind(config.config_type) if config.config_type else None,
        documentation=config.documentation,
        synonyms=tuple((row.name, row.value, _source(row.source)) for row in config.synonyms),
    )


def _source(code: int) -> Source:
    return Source(code) if code in set(Source) else Source.UNKNOWN
