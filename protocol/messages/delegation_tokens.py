"""Delegation tokens."""

from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    blob,
    int16,
    int32,
    int64,
    string,
)


class CreatableRenewers(Struct):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Request, api_key=38, versions="0-3", flexible="2+"):
    """Create a delegation token."""

    owner_principal_type: str | None = string("3+", nullable="3+", default=None)
    owner_principal_name: str | None = string("3+", nullable="3+", default=None)
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Response, api_key=38, versions="0-3", flexible="2+"):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+", default="")
    token_requester_principal_name: str = string("3+", default="")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = blob()
    throttle_time_ms: int = int32(default=0)


class RenewDelegationTokenRequest(Request, api_key=39, versions="0-2", flexible="2+"):
    """Let a delegation token live longer."""

    hmac: bytes = blob()
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Response, api_key=39, versions="0-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)


class ExpireDelegationTokenRequest(Request, api_key=40, versions="0-2", flexible="2+"):
    """Let a delegation token live shorter."""

    hmac: bytes = blob()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Response, api_key=40, versions="0-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32(default=0)


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Request, api_key=41, versions="0-3", flexible="2+"):
    """List delegation tokens."""

    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+", default="")
    token_requester_principal_name: str = string("3+", default="")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = blob()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Response, api_key=41, versions="0-3", flexible="2+"):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32(default=0)
