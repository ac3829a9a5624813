"""Where everything lies in the metadata store: Kafka's own ZooKeeper paths.

Names that people choose (groups, users, client ids) are URL-encoded before they become part of a
path; topic names need no encoding because illegal ones never get here. What the nodes hold is in
`znodes` and `znodes_security`.
"""

from typing import Final
from urllib.parse import quote, unquote

from odradek.protocol.types import TopicPartition

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CLUSTER_ID: Final = "/cluster/id"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
CONSUMERS: Final = "/consumers"
ACL_LITERAL: Final = "/kafka-acl"
ACL_EXTENDED: Final = "/kafka-acl-extended"
ACL_CHANGE_PREFIX: Final = "/kafka-acl-changes/acl_changes_"
ACL_EXTENDED_CHANGE_PREFIX: Final = "/kafka-acl-extended-changes/acl_changes_"
DELEGATION_TOKENS: Final = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGE_PREFIX: Final = "/delegation_token/token_changes/token_change_"

CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")
DEFAULT_ENTITY: Final = "<default>"

# Made by every broker at start, so that watches and creations find their parents.
PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"/config/{kind}" for kind in CONFIG_TYPES),
)


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(where: TopicPartition) -> str:
    return f"{TOPICS}/{where.topic}/partitions/{where.partition}"


def partition_state(where: TopicPartition) -> str:
    return f"{TOPICS}/{where.topic}/partitions/{where.partition}/state"


def deletion(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def config(entity_path: str) -> str:
    """`entity_path` as change notifications name it: topics/T, users/U/clients/C."""
    return f"/config/{entity_path}"


def group_offset(group: str, where: TopicPartition) -> str:
    return f"{CONSUMERS}/{escape(group)}/offsets/{where.topic}/{where.partition}"


def acl(resource_type: str, name: str, *, pattern: str = "literal") -> str:
    root = ACL_LITERAL if pattern == "literal" else f"{ACL_EXTENDED}/{pattern.lower()}"
    return f"{root}/{resource_type}/{escape_resource(name)}"


def delegation_token(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{escape(token_id)}"


def escape(name: str) -> str:
    """A name as one path element: Java's URL encoding, with %20 for spaces and %2A for stars.

    Dots pass it, so the two names that paths themselves use are spelt out.
    """
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return quote(name, safe="-_.").replace("~", "%7E")


def unescape(element: str) -> str:
    return unquote(element)


def escape_resource(name: str) -> str:
    """ACL resources are stored under their plain names unless that would not be a path."""
    plain = name not in ("", ".", "..") and not any(c in name for c in "/\0%")
    return name if plain else escape(name)
