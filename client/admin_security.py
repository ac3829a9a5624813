"""Access rules, quotas and SCRAM credentials."""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from odradek.client.admin_base import AdminBase, Results, check, failure
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from odradek.protocol.messages.quotas import (
    AlterClientQuotasEntityData,
    AlterClientQuotasEntryData,
    AlterClientQuotasOpData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from odradek.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsUserName,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)


class AclResource(IntEnum):
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclPermission(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    resource: AclResource
    name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern: AclPattern = AclPattern.LITERAL


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Matches every rule unless told otherwise."""

    resource: AclResource = AclResource.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern: AclPattern = AclPattern.ANY


class ScramMechanism(IntEnum):
    SHA_256 = 1
    SHA_512 = 2


# (entity type, name) pairs, as in ("user", "ann"), ("client-id", None); None is the default.
QuotaEntity = tuple[tuple[str, str | None], ...]

SCRAM_ITERATIONS = 4096


class SecurityAdmin(AdminBase):
    async def describe_acls(self, chosen: AclFilter | None = None) -> list[Acl]:
        chosen = chosen or AclFilter()
        request = DescribeAclsRequest(
            resource_type_filter=chosen.resource,
            resource_name_filter=chosen.name,
            pattern_type_filter=chosen.pattern,
            principal_filter=chosen.principal,
            host_filter=chosen.host,
            operation=chosen.operation,
            permission_type=chosen.permission,
        )
        answer = await self._ask_any(request, DescribeAclsResponse)
        check(answer.error_code, answer.error_message)
        return [
            Acl(
                AclResource(row.resource_type),
                row.resource_name,
                acl.principal,
                AclOperation(acl.operation),
                AclPermission(acl.permission_type),
                acl.host,
                AclPattern(row.pattern_type),
            )
            for row in answer.resources
            for acl in row.acls
        ]

    async def create_acls(self, acls: Iterable[Acl]) -> Results[Acl, None]:
        listed = list(acls)
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=acl.resource,
                    resource_name=acl.name,
                    resource_pattern_type=acl.pattern,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in listed
            ]
        )
        answer = await self._ask_any(request, CreateAclsResponse)
        return {
            acl: failure(row.error_code, row.error_message)
            for acl, row in zip(listed, answer.results, strict=True)
        }

    async def delete_acls(self, filters: Iterable[AclFilter]) -> list[Acl]:
        """Delete what matches any filter; the rules that are gone."""
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=row.resource,
                    resource_name_filter=row.name,
                    pattern_type_filter=row.pattern,
                    principal_filter=row.principal,
                    host_filter=row.host,
                    operation=row.operation,
                    permission_type=row.permission,
                )
                for row in filters
            ]
        )
        answer = await self._ask_any(request, DeleteAclsResponse)
        gone: list[Acl] = []
        for result in answer.filter_results:
            check(result.error_code, result.error_message)
            for acl in result.matching_acls:
                check(acl.error_code, acl.error_message)
                gone.append(
                    Acl(
                        AclResource(acl.resource_type),
                        acl.resource_name,
                        acl.principal,
                        AclOperation(acl.operation),
                        AclPermission(acl.permission_type),
                        acl.host,
                        AclPattern(acl.pattern_type),
                    )
                )
        return gone

    async def describe_quotas(
        self, entity: QuotaEntity = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas of entities that have these parts; `strict`: and no others."""
        request = DescribeClientQuotasRequest(
            components=[
                DescribeClientQuotasComponentData(
                    entity_type=kind, match_type=1 if name is None else 0, match=name
                )
                for kind, name in entity
            ],
            strict=strict,
        )
        answer = await self._ask_any(request, DescribeClientQuotasResponse)
        check(answer.error_code, answer.error_message)
        return {
            tuple((part.entity_type, part.entity_name) for part in entry.entity): {
                value.key: value.value for value in entry.values
            }
            for entry in answer.entries or ()
        }

    async def alter_quotas(
        self,
        entity: QuotaEntity,
        limits: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set these limits of one entity; None removes one."""
        entry = AlterClientQuotasEntryData(
            entity=[
                AlterClientQuotasEntityData(entity_type=kind, entity_name=name)
                for kind, name in entity
            ],
            ops=[
                AlterClientQuotasOpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in limits.items()
            ],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        answer = await self._ask_any(request, AlterClientQuotasResponse)
        for row in answer.entries:
            check(row.error_code, row.error_message)

    async def describe_scram(
        self, users: Iterable[str] | None = None
    ) -> Results[str, dict[ScramMechanism, int]]:
        """The mechanisms users have credentials for, with their iterations."""
        names = None
        if users is not None:
            names = [DescribeUserScramCredentialsUserName(name=user) for user in users]
        request = DescribeUserScramCredentialsRequest(users=names)
        answer = await self._ask_controller(
            request, DescribeUserScramCredentialsResponse, lambda a: [a.error_code]
        )
        check(answer.error_code, answer.error_message)
        return {
            row.user: failure(row.error_code, row.error_message)
            or {ScramMechanism(info.mechanism): info.iterations for info in row.credential_infos}
            for row in answer.results
        }

    async def set_scram(
        self, user: str, password: str, mechanism: ScramMechanism = ScramMechanism.SHA_512
    ) -> None:
        """Give a user a password; only its salted hash leaves this process."""
        salt = secrets.token_bytes(32)
        digest = mechanism.name.replace("_", "").lower()
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, SCRAM_ITERATIONS)
        upsertion = ScramCredentialUpsertion(
            name=user,
            mechanism=mechanism,
            iterations=SCRAM_ITERATIONS,
            salt=salt,
            salted_password=salted,
        )
        await self._alter_scram([], [upsertion])

    async def delete_scram(self, user: str, mechanism: ScramMechanism) -> None:
        await self._alter_scram([ScramCredentialDeletion(name=user, mechanism=mechanism)], [])

    async def _alter_scram(
        self,
        deletions: list[ScramCredentialDeletion],
        upsertions: list[ScramCredentialUpsertion],
    ) -> None:
        request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
        answer = await self._ask_controller(
            request,
            AlterUserScramCredentialsResponse,
            lambda a: [row.error_code for row in a.results],
        )
        for row in answer.results:
            error: KafkaError | None = failure(row.error_code, row.error_message)
            if error is not None:
                raise error
