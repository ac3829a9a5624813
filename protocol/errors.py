"""The one table of Kafka error codes, and the two exceptions that carry failures.

A member of `Errors` is its code on the wire (an int, so it can be written as it is); beside it
stand the sentence shown to people and whether the same request may succeed when sent again.
Codes are Kafka's for good: a row is added for each new one and never changed or removed.
"""

from enum import IntEnum
from typing import Self

# The mark of a row whose failure may pass by itself: a client that repeats the request, after
# refreshing its metadata where that applies, may well succeed.
RETRIABLE = True


class Errors(IntEnum):
    message: str
    retriable: bool

    def __new__(cls, code: int, message: str, retriable: bool = False) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    @classmethod
    def of(cls, code: int) -> "Errors":
        """The row of a code received from a peer; a code of the future reads as unknown."""
        return _BY_CODE.get(code, Errors.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = -1, "The broker failed in a way it did not expect."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The partition holds no record at this offset."
    CORRUPT_MESSAGE = (
        2,
        "The record batch is damaged, or lacks a key that its compacted topic needs.",
        RETRIABLE,
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This broker does not have this topic or partition.", RETRIABLE
    INVALID_FETCH_SIZE = 4, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", RETRIABLE
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "This broker is not the leader, or not a replica, of the partition.",
        RETRIABLE,
    )
    REQUEST_TIMED_OUT = 7, "The request did not finish in time.", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available on this broker.", RETRIABLE
    MESSAGE_TOO_LARGE = 10, "The record batch is larger than the topic accepts."
    STALE_CONTROLLER_EPOCH = 11, "A newer controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata text committed with the offset is too long."
    NETWORK_EXCEPTION = 13, "The connection broke before the answer came.", RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still loading its state.", RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", RETRIABLE
    NOT_COORDINATOR = 16, "This broker is not the coordinator asked for.", RETRIABLE
    INVALID_TOPIC_EXCEPTION = (
        17,
        "The topic name is not valid, or the topic may not be used this way.",
    )
    RECORD_LIST_TOO_LARGE = 18, "The record batch is larger than a log segment."
    NOT_ENOUGH_REPLICAS = 19, "Too few replicas are in sync, so nothing was written.", RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The records were written, but to fewer in-sync replicas than required.",
        RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "The acks of a produce request must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, "The generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member shares no protocol with the group, or names none."
    INVALID_GROUP_ID = 24, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, "The group does not know this member."
    INVALID_SESSION_TIMEOUT = (
        26,
        "The session timeout lies outside the range that the broker allows.",
    )
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing; the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The committed offsets do not fit into one record batch."
    TOPIC_AUTHORIZATION_FAILED = 29, "The principal may not do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, "The principal may not do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "The principal may not do this with the cluster."
    INVALID_TIMESTAMP = (
        32,
        "The timestamp of a record is further from the broker's clock than the topic allows.",
    )
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, "The broker does not support this version of the request."
    TOPIC_ALREADY_EXISTS = 36, "A topic with this name exists already."
    INVALID_PARTITIONS = 37, "The number of partitions is not valid."
    INVALID_REPLICATION_FACTOR = (
        38,
        "The replication factor is below 1 or above the number of live brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "The assignment of replicas to brokers is not valid."
    INVALID_CONFIG = 40, "A setting or its value is not valid."
    NOT_CONTROLLER = 41, "This broker is not the controller.", RETRIABLE
    INVALID_REQUEST = 42, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The stored record format cannot serve this request."
    POLICY_VIOLATION = 44, "The request breaks a policy of the broker."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "A batch of the producer is missing before this one."
    DUPLICATE_SEQUENCE_NUMBER = (
        46,
        "The batch was written before and is no longer remembered in detail.",
    )
    INVALID_PRODUCER_EPOCH = 47, "The producer's epoch is older than the one the broker knows."
    INVALID_TXN_STATE = 48, "The transaction's state does not allow this operation."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is larger than the broker allows."
    CONCURRENT_TRANSACTIONS = (
        51,
        "Another operation on the same transaction has not finished yet.",
        RETRIABLE,
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        "The marker comes from a broker that no longer coordinates the transaction.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "The principal may not use the transactional id."
    SECURITY_DISABLED = 54, "The broker runs without an authorizer."
    OPERATION_NOT_ATTEMPTED = (
        55,
        "The broker did not try this part because another part of the request failed.",
    )
    KAFKA_STORAGE_ERROR = 56, "A log file could not be read or written.", RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "The SASL authentication failed."
    UNKNOWN_PRODUCER_ID = (
        59,
        "The broker remembers nothing of this producer; its records may have been deleted.",
    )
    REASSIGNMENT_IN_PROGRESS = 60, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "The broker does not know this delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        "The principal neither owns the delegation token nor may renew it.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "Delegation tokens cannot be managed over this kind of connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        "The principal may not do this with the delegation token.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The broker does not support this type of principal."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no group with this id."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The broker does not know this fetch session.", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = (
        71,
        "The epoch is not the next one of the fetch session.",
        RETRIABLE,
    )
    LISTENER_NOT_FOUND = (
        72,
        "The leader has no listener of the name on which the request came.",
        RETRIABLE,
    )
    TOPIC_DELETION_DISABLED = 73, "The broker is configured not to delete topics."
    FENCED_LEADER_EPOCH = (
        74,
        "The leader epoch in the request is older than the broker's.",
        RETRIABLE,
    )
    UNKNOWN_LEADER_EPOCH = (
        75,
        "The leader epoch in the request is newer than the broker's.",
        RETRIABLE,
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        "This version of the request cannot carry the compression in use.",
    )
    STALE_BROKER_EPOCH = 77, "The broker epoch in the request is not the current one."
    OFFSET_NOT_AVAILABLE = (
        78,
        "The new leader does not know yet which of its records are committed.",
        RETRIABLE,
    )
    MEMBER_ID_REQUIRED = 79, "The member has to join again with the member id it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The group has as many members as the broker allows."
    FENCED_INSTANCE_ID = 82, "Another member has taken over this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (
        83,
        "No replica that could lead the partition is available.",
        RETRIABLE,
    )
    ELECTION_NOT_NEEDED = 84, "The partition needs no leader election.", RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        "The offsets cannot be deleted while the group subscribes to the topic.",
    )
    INVALID_RECORD = 87, "The record was refused by the broker's checks."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        "A transaction that commits these offsets is still open.",
        RETRIABLE,
    )
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up for now.", RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the broker's requirements."
    INCONSISTENT_VOTER_SET = 94, "The sender or the receiver is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, "The version to update to is not valid."
    FEATURE_UPDATE_FAILED = 96, "The finalized features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97,
        "The principal of a forwarded request could not be decoded.",
    )
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This broker does not have a topic with this id.", RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "Another live broker uses this broker id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker with this id is registered."
    INCONSISTENT_TOPIC_ID = (
        103,
        "The topic id in the request is not the one of the stored log.",
        RETRIABLE,
    )
    INCONSISTENT_CLUSTER_ID = 104, "The cluster id in the request is not the one of this cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        "The fetch session began with topic names and went on with ids, or the reverse.",
        RETRIABLE,
    )
    INELIGIBLE_REPLICA = 107, "A replica of the proposed ISR may not be in it."
    NEW_LEADER_ELECTED = 108, "The partition was changed as asked, and has a new leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset lies in tiered storage."
    FENCED_MEMBER_EPOCH = (
        110,
        "The member is fenced; it has to give up its partitions and join again.",
    )
    UNRELEASED_INSTANCE_ID = 111, "Another member still holds this group instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = (
        113,
        "The member epoch is out of date; the next heartbeat brings the new one.",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The broker does not support this kind of endpoint."
    UNKNOWN_CONTROLLER_ID = 116, "There is no controller with this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription id is unknown or out of date."
    TELEMETRY_TOO_LARGE = 118, "The pushed telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The controller refused the registration of the broker."
    TRANSACTION_ABORTABLE = (
        120,
        "The transaction failed; once aborted, the transactional id can be used on.",
    )
    INVALID_RECORD_STATE = 121, "The record is not in a state in which it could be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, "The broker does not know this share session.", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = (
        123,
        "The epoch is not the next one of the share session.",
        RETRIABLE,
    )
    FENCED_STATE_EPOCH = 124, "The state epoch of the share group is not the current one."
    INVALID_VOTER_KEY = 125, "The voter key is not the one of the receiving replica."
    DUPLICATE_VOTER = 126, "The voter is in the set of voters already."
    VOTER_NOT_FOUND = 127, "The voter is not in the set of voters."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = (
        129,
        "The client's metadata is too old; it has to start again from its bootstrap servers.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the topology is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, "The epoch of the topology is out of date."
    SHARE_SESSION_LIMIT_REACHED = (
        133,
        "The broker holds as many share sessions as it allows.",
        RETRIABLE,
    )


_BY_CODE: dict[int, Errors] = {int(error): error for error in Errors}


class KafkaError(Exception):
    """A failure a peer may be told of: one error code and, where it helps, a sentence.

    `message` is what this one failure adds to its row, None when the row says it all.
    """

    def __init__(self, error: Errors, message: str | None = None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message

    def __str__(self) -> str:
        return f"{self.error.name}: {self.message or self.error.message}"


class ProtocolError(Exception):
    """Bytes that cannot be decoded. The connection they came from is closed."""
