"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, for topics and brokers.

Whichever broker is asked writes to the store; every broker follows the store. Changes are checked
as a whole, with what is already set, before anything is written.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from odradek.broker.config import dynamic_problems
from odradek.broker.config_report import (
    Entry,
    describe_all_brokers,
    describe_broker,
    describe_topic,
)
from odradek.broker.context import RequestContext
from odradek.broker.dynamic_configs import DynamicConfigs
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.routes import AnyRoute, Route
from odradek.controller.configs import Config, broker_entity, change_config, topic_entity
from odradek.controller.store import MetadataStore
from odradek.controller.topics import check_name
from odradek.protocol.errors import Errors, KafkaError
from odradek.protocol.messages.configs import (
    AlterConfigsAlterConfigsResource,
    AlterConfigsAlterConfigsResourceResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.schema import versions_of
from odradek.protocol.settings import Kind, SettingsError, Source

TOPIC: Final = 2
BROKER: Final = 4

SET, DELETE, APPEND, SUBTRACT = range(4)


class Resource(NamedTuple):
    type: int
    name: str


# By what makes resources alike, their entries as they are told in one answer.
Described: TypeAlias = dict[Hashable, dict[str, DescribeConfigsResourceResult]]


class Named(Protocol):
    """A resource in any of the three requests."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


class ConfigsHandler:
    def __init__(
        self,
        *,
        configs: DynamicConfigs,
        metadata: MetadataCache,
        store: MetadataStore,
        broker_id: int,
    ) -> None:
        self._configs = configs
        self._metadata = metadata
        self._store = store
        self._broker_id = broker_id

    def routes(self) -> Iterator[AnyRoute]:
        yield Route(DescribeConfigsRequest, versions_of("0-4"), self.describe, describe_failed)
        yield Route(AlterConfigsRequest, versions_of("0-2"), self.alter, alter_failed)
        yield Route(
            IncrementalAlterConfigsRequest,
            versions_of("0-1"),
            self.alter_incrementally,
            incremental_failed,
        )

    # Describe -------------------------------------------------------------------------------

    def describe(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResponse:
        # Most topics have the same overrides, namely none: what they have is described once.
        described: Described = {}
        return DescribeConfigsResponse(
            results=[
                self._describe_one(resource, request, described) for resource in request.resources
            ]
        )

    def _describe_one(
        self,
        resource: DescribeConfigsResource,
        request: DescribeConfigsRequest,
        described: Described,
    ) -> DescribeConfigsResult:
        try:
            key, entries = self._entries(Resource(resource.resource_type, resource.resource_name))
        except KafkaError as error:
            return _not_described(resource, error)
        if key not in described:
            described[key] = {entry.name: _entry_result(entry, request) for entry in entries}
        configs, wanted = described[key], resource.configuration_keys
        return DescribeConfigsResult(
            error_code=0,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[configs[name] for name in configs if wanted is None or name in wanted],
        )

    def _entries(self, resource: Resource) -> tuple[Hashable, Iterable[Entry]]:
        """What is set for a resource, after something that is equal for those with equal ones."""
        config = self._configs.broker
        if resource.type == TOPIC:
            self._check_topic(resource.name)
            overrides = self._configs.overrides(resource.name)
            return frozenset(overrides.items()), describe_topic(config, overrides)
        if resource.type == BROKER:
            if self._broker_of(resource.name) is None:
                return resource, describe_all_brokers(config)
            return resource, describe_broker(config)
        raise _unsupported(resource)

    def _check_topic(self, name: str) -> None:
        check_name(name)
        if name not in self._metadata.view.topics:
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)

    def _broker_of(self, name: str) -> int | None:
        """This broker's id; None for the default of all brokers."""
        if name == "":
            return None
        if name != str(self._broker_id):
            raise KafkaError(
                Errors.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._broker_id}, but received {name!r}.",
            )
        return self._broker_id

    # Alter ----------------------------------------------------------------------------------

    async def alter(
        self, request: AlterConfigsRequest, context: RequestContext
    ) -> AlterConfigsResponse:
        twice = _named_twice(request.resources)
        responses = []
        for resource in request.resources:
            error = await self._change(
                resource,
                twice,
                partial(_replacement, resource),
                validate_only=request.validate_only,
            )
            responses.append(
                AlterConfigsAlterConfigsResourceResponse(
                    error_code=error.error if error else 0,
                    error_message=error.message if error else None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return AlterConfigsResponse(responses=responses)

    async def alter_incrementally(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        twice = _named_twice(request.resources)
        responses = []
        for resource in request.resources:
            error = await self._change(
                resource,
                twice,
                partial(self._changed, resource),
                validate_only=request.validate_only,
            )
            responses.append(
                IncrementalAlterConfigsAlterConfigsResourceResponse(
                    error_code=error.error if error else 0,
                    error_message=error.message if error else None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
            )
        return IncrementalAlterConfigsResponse(responses=responses)

    async def _change(
        self,
        named: Named,
        twice: set[Resource],
        change: Callable[[Config], Config],
        *,
        validate_only: bool,
    ) -> KafkaError | None:
        """Check and store; the reason when that cannot be."""
        resource = Resource(named.resource_type, named.resource_name)
        try:
            if resource in twice:
                raise KafkaError(Errors.INVALID_REQUEST, "the resource is named twice")
            entity = self._entity(resource)

            def checked(before: Config) -> Config:
                after = change(before)
                self._check(resource, before, after)
                return after

            if validate_only:
                checked(self._stored(resource))
            else:
                await change_config(self._store, entity, checked)
        except KafkaError as error:
            return error
        return None

    def _entity(self, resource: Resource) -> str:
        if resource.type == TOPIC:
            self._check_topic(resource.name)
            return topic_entity(resource.name)
        if resource.type == BROKER:
            return broker_entity(self._broker_of(resource.name))
        raise _unsupported(resource)

    def _stored(self, resource: Resource) -> Config:
        if resource.type == TOPIC:
            return self._configs.overrides(resource.name)
        if resource.name == "":
            return self._configs.broker.dynamic_default
        return self._configs.broker.dynamic_broker

    def _check(self, resource: Resource, before: Config, after: Config) -> None:
        """Raise INVALID_CONFIG or INVALID_REQUEST unless `after` can be in force."""
        try:
            if resource.type == TOPIC:
                self._configs.broker.log_defaults.checked(after)
                return
            for_all = resource.name == ""
            changed = {name: text for name, text in after.items() if before.get(name) != text}
            problems = dynamic_problems(changed, for_all_brokers=for_all)
            if problems:
                raise KafkaError(Errors.INVALID_REQUEST, "; ".join(problems))
            broker = self._configs.broker
            broker.with_dynamic(
                default=after if for_all else broker.dynamic_default,
                broker=broker.dynamic_broker if for_all else after,
            )
        except SettingsError as error:
            raise KafkaError(Errors.INVALID_CONFIG, str(error)) from error

    def _changed(
        self, resource: IncrementalAlterConfigsAlterConfigsResource, before: Config
    ) -> Config:
        names = [config.name for config in resource.configs]
        if len(set(names)) < len(names):
            raise KafkaError(Errors.INVALID_REQUEST, "a setting is named twice")
        missing = [
            c.name for c in resource.configs if c.value is None and c.config_operation != DELETE
        ]
        if missing:
            raise _no_value(missing)
        after = dict(before)
        in_force = self._in_force(Resource(resource.resource_type, resource.resource_name))
        for config in resource.configs:
            _apply(after, config, in_force)
        return after

    def _in_force(self, resource: Resource) -> Mapping[str, Entry]:
        """What a list is appended to when it was never set: the value that holds now."""
        broker = self._configs.broker
        if resource.type == TOPIC:
            entries = describe_topic(broker, self._configs.overrides(resource.name))
        else:
            entries = describe_broker(broker)
        return {entry.name: entry for entry in entries}


def _apply(
    after: dict[str, str],
    config: IncrementalAlterConfigsAlterableConfig,
    in_force: Mapping[str, Entry],
) -> None:
    name, value = config.name, config.value or ""
    if config.config_operation == DELETE:
        after.pop(name, None)
        return
    if config.config_operation == SET:
        after[name] = value
        return
    if config.config_operation not in (APPEND, SUBTRACT):
        raise KafkaError(
            Errors.INVALID_REQUEST, f"unknown operation {config.config_operation} for {name}"
        )
    entry = in_force.get(name)
    if entry is None or entry.setting.kind is not Kind.LIST:
        verb = "append" if config.config_operation == APPEND else "subtract"
        raise KafkaError(
            Errors.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {name}"
        )
    items = _items(after.get(name, entry.text or ""))
    given = _items(value)
    if config.config_operation == APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    after[name] = ",".join(items)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _replacement(resource: AlterConfigsAlterConfigsResource, before: Config) -> Config:
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        raise KafkaError(Errors.INVALID_REQUEST, "a setting is named twice")
    missing = [config.name for config in resource.configs if config.value is None]
    if missing:
        raise _no_value(missing)
    return {config.name: config.value or "" for config in resource.configs}


def _no_value(names: Iterable[str]) -> KafkaError:
    return KafkaError(
        Errors.INVALID_REQUEST, f"Null value not supported for : {', '.join(sorted(names))}"
    )


def _named_twice(resources: Iterable[Named]) -> set[Resource]:
    seen: set[Resource] = set()
    twice: set[Resource] = set()
    for named in resources:
        resource = Resource(named.resource_type, named.resource_name)
        (twice if resource in seen else seen).add(resource)
    return twice


def _unsupported(resource: Resource) -> KafkaError:
    return KafkaError(
        Errors.INVALID_REQUEST, f"resources of type {resource.type} have no settings here"
    )


def _entry_result(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = []
    if request.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name=c.name, value=c.text, source=c.source)
            for c in entry.candidates
        ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.text,
        read_only=entry.is_read_only,
        is_default=entry.source is Source.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.setting.secret,
        synonyms=synonyms,
        config_type=entry.setting.kind,
        documentation=entry.setting.doc if request.include_documentation else None,
    )


def _not_described(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.error,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def describe_failed(request: DescribeConfigsRequest, error: KafkaError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_not_described(resource, error) for resource in request.resources]
    )


def alter_failed(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsAlterConfigsResourceResponse(
                error_code=error.error,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def incremental_failed(
    request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsAlterConfigsResourceResponse(
                error_code=error.error,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )
