"""What the nodes of the store hold about security: ACLs and delegation tokens, in Kafka's JSON.

Same rules as `znodes`: small values with `encode` and `decode`, `BadNode` for anything else. Pure.
"""

from dataclasses import dataclass

from odradek.controller.fields import Fields, encode


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One rule: `permission` is Allow or Deny, `operation` as in Read, Write, All."""

    principal: str
    permission: str
    operation: str
    host: str = "*"


def encode_acls(entries: list[AclEntry]) -> bytes:
    """/kafka-acl/TYPE/NAME and /kafka-acl-extended/prefixed/TYPE/NAME."""
    rows = [
        {
            "principal": entry.principal,
            "permissionType": entry.permission,
            "operation": entry.operation,
            "host": entry.host,
        }
        for entry in entries
    ]
    return encode({"version": 1, "acls": rows})


def decode_acls(data: bytes) -> list[AclEntry]:
    if not data:
        return []
    return [
        AclEntry(
            principal=row.text("principal"),
            permission=row.text("permissionType"),
            operation=row.text("operation"),
            host=row.text("host"),
        )
        for row in Fields.parse(data).objects("acls")
    ]


def encode_literal_acl_change(resource_type: str, name: str) -> bytes:
    """/kafka-acl-changes/acl_changes_N: plain text."""
    return f"{resource_type}:{name}".encode()


def decode_literal_acl_change(data: bytes) -> tuple[str, str]:
    resource_type, _, name = data.decode(errors="replace").partition(":")
    return resource_type, name


@dataclass(frozen=True, slots=True)
class AclChange:
    """/kafka-acl-extended-changes/acl_changes_N: a resource whose rules changed."""

    resource_type: str
    name: str
    pattern_type: str

    def encode(self) -> bytes:
        resource = {"resourceType": self.resource_type, "name": self.name}
        return encode({"version": 1, **resource, "patternType": self.pattern_type})

    @classmethod
    def decode(cls, data: bytes) -> "AclChange":
        fields = Fields.parse(data)
        return cls(fields.text("resourceType"), fields.text("name"), fields.text("patternType"))


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """/delegation_token/tokens/ID; principals as in User:alice."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def encode(self) -> bytes:
        return encode(
            {
                "version": 3,
                "owner": self.owner,
                "tokenRequester": self.requester,
                "renewers": list(self.renewers),
                "issueTimestamp": self.issue_ms,
                "maxTimestamp": self.max_ms,
                "expiryTimestamp": self.expiry_ms,
                "tokenId": self.token_id,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "DelegationToken":
        fields = Fields.parse(data)
        owner = fields.text("owner")
        return cls(
            token_id=fields.text("tokenId"),
            owner=owner,
            # Before version 3 everyone asked for tokens of their own.
            requester=fields.text("tokenRequester", owner),
            renewers=fields.texts("renewers"),
            issue_ms=fields.long("issueTimestamp"),
            max_ms=fields.long("maxTimestamp"),
            expiry_ms=fields.long("expiryTimestamp"),
        )
