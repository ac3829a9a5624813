"""Stored SCRAM credentials."""

from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    blob,
    int8,
    int16,
    int32,
    string,
)


class DescribeUserScramCredentialsUserName(Struct):
    name: str = string()


class DescribeUserScramCredentialsRequest(Request, api_key=50, versions="0", flexible="0+"):
    """List which users have SCRAM credentials."""

    users: list[DescribeUserScramCredentialsUserName] | None = array(
        DescribeUserScramCredentialsUserName, nullable="0+"
    )


class DescribeUserScramCredentialsCredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    credential_infos: list[DescribeUserScramCredentialsCredentialInfo] = array(
        DescribeUserScramCredentialsCredentialInfo
    )


class DescribeUserScramCredentialsResponse(Response, api_key=50, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = blob()
    salted_password: bytes = blob()


class AlterUserScramCredentialsRequest(Request, api_key=51, versions="0", flexible="0+"):
    """Set and remove SCRAM credentials."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterUserScramCredentialsResponse(Response, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
