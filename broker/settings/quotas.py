"""Quotas: the windows they are measured in, and the keys they are set with."""

from odradek.protocol.checks import at_least
from odradek.protocol.settings import MAX_INT, MAX_LONG, Importance, Settings, double, integer

_SAMPLES = "How many windows are remembered for"
_SECONDS = "The length of a window for"


class QuotaSettings(Settings):
    """Quota windows."""

    quota_window_num = integer(
        "quota.window.num",
        11,
        f"{_SAMPLES} client quotas.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    quota_window_size_seconds = integer(
        "quota.window.size.seconds",
        1,
        f"{_SECONDS} client quotas.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    replication_quota_window_num = integer(
        "replication.quota.window.num",
        11,
        f"{_SAMPLES} replication throttles.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    replication_quota_window_size_seconds = integer(
        "replication.quota.window.size.seconds",
        1,
        f"{_SECONDS} replication throttles.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    alter_log_dirs_replication_quota_window_num = integer(
        "alter.log.dirs.replication.quota.window.num",
        11,
        f"{_SAMPLES} moves between log directories.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    alter_log_dirs_replication_quota_window_size_seconds = integer(
        "alter.log.dirs.replication.quota.window.size.seconds",
        1,
        f"{_SECONDS} moves between log directories.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    controller_quota_window_num = integer(
        "controller.quota.window.num",
        11,
        f"{_SAMPLES} quotas on creating and deleting topics.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    controller_quota_window_size_seconds = integer(
        "controller.quota.window.size.seconds",
        1,
        f"{_SECONDS} quotas on creating and deleting topics.",
        check=at_least(1),
        importance=Importance.LOW,
    )


class ClientQuotas(Settings):
    """Client quotas: what may be set for a user, a client id or an address.

    These are kept per entity in the metadata store and never in the broker's own configuration;
    what is not set is unlimited.
    """

    producer_byte_rate = double(
        "producer_byte_rate", float(MAX_LONG), "Bytes a second a client may produce."
    )
    consumer_byte_rate = double(
        "consumer_byte_rate", float(MAX_LONG), "Bytes a second a client may fetch."
    )
    request_percentage = double(
        "request_percentage",
        float(MAX_INT),
        "Share of the broker's handler time a client may use, in percent.",
    )
    controller_mutation_rate = double(
        "controller_mutation_rate",
        float(MAX_INT),
        "Partitions a second a client may create or delete.",
    )
    connection_creation_rate = integer(
        "connection_creation_rate",
        MAX_INT,
        "Connections a second an address may open.",
        check=at_least(0),
    )
