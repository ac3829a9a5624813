"""Every API by its key: request and response class, and the versions of the headers before them.

Families are imported when one of their APIs is first asked for, so that a process pays only for
the messages it speaks.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from odradek.protocol import messages
from odradek.protocol.errors import ProtocolError
from odradek.protocol.schema import Data, Request, Response, Versioned, Versions

API_VERSIONS_KEY: Final = 18
_CONTROLLED_SHUTDOWN_KEY: Final = 7

# api key -> (name, family module). ListClientMetricsResources was renamed when its v1 came.
_APIS: Final = {
    0: ("Produce", "produce"),
    1: ("Fetch", "fetch"),
    2: ("ListOffsets", "offsets"),
    3: ("Metadata", "metadata"),
    4: ("LeaderAndIsr", "replicas"),
    5: ("StopReplica", "replicas"),
    6: ("UpdateMetadata", "replicas"),
    7: ("ControlledShutdown", "replicas"),
    8: ("OffsetCommit", "group_offsets"),
    9: ("OffsetFetch", "group_offsets"),
    10: ("FindCoordinator", "groups"),
    11: ("JoinGroup", "groups"),
    12: ("Heartbeat", "groups"),
    13: ("LeaveGroup", "groups"),
    14: ("SyncGroup", "groups"),
    15: ("DescribeGroups", "group_admin"),
    16: ("ListGroups", "group_admin"),
    17: ("SaslHandshake", "sasl"),
    18: ("ApiVersions", "versions"),
    19: ("CreateTopics", "topics"),
    20: ("DeleteTopics", "topics"),
    21: ("DeleteRecords", "offsets"),
    22: ("InitProducerId", "transactions"),
    23: ("OffsetForLeaderEpoch", "offsets"),
    24: ("AddPartitionsToTxn", "transactions"),
    25: ("AddOffsetsToTxn", "transactions"),
    26: ("EndTxn", "transactions"),
    27: ("WriteTxnMarkers", "transaction_admin"),
    28: ("TxnOffsetCommit", "transactions"),
    29: ("DescribeAcls", "acls"),
    30: ("CreateAcls", "acls"),
    31: ("DeleteAcls", "acls"),
    32: ("DescribeConfigs", "configs"),
    33: ("AlterConfigs", "configs"),
    34: ("AlterReplicaLogDirs", "log_dirs"),
    35: ("DescribeLogDirs", "log_dirs"),
    36: ("SaslAuthenticate", "sasl"),
    37: ("CreatePartitions", "topics"),
    38: ("CreateDelegationToken", "delegation_tokens"),
    39: ("RenewDelegationToken", "delegation_tokens"),
    40: ("ExpireDelegationToken", "delegation_tokens"),
    41: ("DescribeDelegationToken", "delegation_tokens"),
    42: ("DeleteGroups", "group_admin"),
    43: ("ElectLeaders", "partitions"),
    44: ("IncrementalAlterConfigs", "configs"),
    45: ("AlterPartitionReassignments", "partitions"),
    46: ("ListPartitionReassignments", "partitions"),
    47: ("OffsetDelete", "group_offsets"),
    48: ("DescribeClientQuotas", "quotas"),
    49: ("AlterClientQuotas", "quotas"),
    50: ("DescribeUserScramCredentials", "scram"),
    51: ("AlterUserScramCredentials", "scram"),
    52: ("Vote", "quorum"),
    53: ("BeginQuorumEpoch", "quorum"),
    54: ("EndQuorumEpoch", "quorum"),
    55: ("DescribeQuorum", "quorum"),
    56: ("AlterPartition", "partitions"),
    57: ("UpdateFeatures", "versions"),
    58: ("Envelope", "forwarding"),
    59: ("FetchSnapshot", "quorum_log"),
    60: ("DescribeCluster", "metadata"),
    61: ("DescribeProducers", "transaction_admin"),
    62: ("BrokerRegistration", "kraft_nodes"),
    63: ("BrokerHeartbeat", "kraft_nodes"),
    64: ("UnregisterBroker", "kraft_nodes"),
    65: ("DescribeTransactions", "transaction_admin"),
    66: ("ListTransactions", "transaction_admin"),
    67: ("AllocateProducerIds", "transaction_admin"),
    68: ("ConsumerGroupHeartbeat", "consumer_groups"),
    69: ("ConsumerGroupDescribe", "consumer_groups"),
    70: ("ControllerRegistration", "kraft_nodes"),
    71: ("GetTelemetrySubscriptions", "telemetry"),
    72: ("PushTelemetry", "telemetry"),
    73: ("AssignReplicasToDirs", "log_dirs"),
    74: ("ListConfigResources", "configs"),
    75: ("DescribeTopicPartitions", "metadata"),
    76: ("ShareGroupHeartbeat", "share_groups"),
    77: ("ShareGroupDescribe", "share_groups"),
    78: ("ShareFetch", "share_records"),
    79: ("ShareAcknowledge", "share_records"),
    80: ("AddRaftVoter", "quorum"),
    81: ("RemoveRaftVoter", "quorum"),
    82: ("UpdateRaftVoter", "quorum"),
    83: ("InitializeShareGroupState", "share_state"),
    84: ("ReadShareGroupState", "share_state"),
    85: ("WriteShareGroupState", "share_state"),
    86: ("DeleteShareGroupState", "share_state"),
    87: ("ReadShareGroupStateSummary", "share_state"),
    88: ("StreamsGroupHeartbeat", "streams_groups"),
    89: ("StreamsGroupDescribe", "streams_groups"),
    90: ("DescribeShareGroupOffsets", "share_groups"),
    91: ("AlterShareGroupOffsets", "share_groups"),
    92: ("DeleteShareGroupOffsets", "share_groups"),
}

API_KEYS: Final = tuple(_APIS)
API_NAMES: Final = tuple(name for name, _ in _APIS.values())


@dataclass(frozen=True, slots=True)
class Api:
    key: int
    name: str
    request: type[Request]
    response: type[Response]

    @property
    def versions(self) -> Versions:
        return self.request.versions

    def request_header_version(self, version: int) -> int:
        if self.key == _CONTROLLED_SHUTDOWN_KEY and version == 0:
            return 0
        return 2 if version in self.request.flexible else 1

    def response_header_version(self, version: int) -> int:
        # A client may not know yet what its broker speaks when it reads this one answer.
        if self.key == API_VERSIONS_KEY:
            return 0
        return 1 if version in self.response.flexible else 0


@cache
def api(key: int) -> Api:
    """The API of this key. Raises ProtocolError when there is none."""
    if key not in _APIS:
        raise ProtocolError(f"unknown api key {key}")
    name, family = _APIS[key]
    module = import_module(f"{messages.__name__}.{family}")
    return Api(key, name, getattr(module, name + "Request"), getattr(module, name + "Response"))


def all_messages() -> list[type[Versioned]]:
    """Every declared message: requests and responses by key, then headers and records by name."""
    found: list[type[Versioned]] = []
    for family in iter_modules(messages.__path__, messages.__name__ + "."):
        module = import_module(family.name)
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Versioned)
            and value.__module__ == module.__name__
        ]
    return sorted(found, key=_listing_order)


def _listing_order(message: type[Versioned]) -> tuple[int, str]:
    if issubclass(message, (Request, Response)):
        return message.api_key, message.__name__
    assert issubclass(message, Data)
    return max(API_KEYS) + 1, message.__name__
