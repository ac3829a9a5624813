"""Nodes that register with a KRaft controller; declared for completeness, not served."""

from odradek.protocol.schema import (
    UUID,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class BrokerRegistrationListener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerRegistrationFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class BrokerRegistrationRequest(Request, api_key=62, versions="0-4", flexible="0+"):
    """Register a broker."""

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[BrokerRegistrationListener] = array(BrokerRegistrationListener)
    features: list[BrokerRegistrationFeature] = array(BrokerRegistrationFeature)
    rack: str | None = string(nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+", default=False)
    log_dirs: list[bytes] = array(UUID, "2+", default=[])
    previous_broker_epoch: int = int64("3+", default=-1)


class BrokerRegistrationResponse(Response, api_key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)


class BrokerHeartbeatRequest(Request, api_key=63, versions="0-1", flexible="0+"):
    """Keep a registration alive."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(UUID, "1+", default=[], tag=0)


class BrokerHeartbeatResponse(Response, api_key=63, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    is_caught_up: bool = boolean(default=False)
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()


class UnregisterBrokerRequest(Request, api_key=64, versions="0", flexible="0+"):
    """Remove a registration."""

    broker_id: int = int32()


class UnregisterBrokerResponse(Response, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class ControllerRegistrationListener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerRegistrationFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class ControllerRegistrationRequest(Request, api_key=70, versions="0", flexible="0+"):
    """Register a controller."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[ControllerRegistrationListener] = array(ControllerRegistrationListener)
    features: list[ControllerRegistrationFeature] = array(ControllerRegistrationFeature)


class ControllerRegistrationResponse(Response, api_key=70, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
