"""Client telemetry (KIP-714)."""

from odradek.protocol.schema import (
    INT8,
    STRING,
    Request,
    Response,
    array,
    blob,
    boolean,
    int8,
    int16,
    int32,
    uuid,
)


class GetTelemetrySubscriptionsRequest(Request, api_key=71, versions="0", flexible="0+"):
    """Ask which client metrics are wanted."""

    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(Response, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(INT8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(STRING)


class PushTelemetryRequest(Request, api_key=72, versions="0", flexible="0+"):
    """Send client metrics."""

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = blob()


class PushTelemetryResponse(Response, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
