"""All groups of broker settings, joined, and those that a single listener may set for itself."""

from odradek.broker.settings.coordinators import GroupSettings, OffsetSettings, TransactionSettings
from odradek.broker.settings.identity import IdentitySettings
from odradek.broker.settings.logs import (
    CleanerSettings,
    LogSettings,
    TopicDefaultSettings,
    TopicSettings,
)
from odradek.broker.settings.network import AcceptorSettings, ListenerSettings, NetworkSettings
from odradek.broker.settings.quotas import QuotaSettings
from odradek.broker.settings.replication import LeadershipSettings, ReplicationSettings
from odradek.broker.settings.security import AccessSettings, SaslSettings, TlsSettings


class BrokerSettings(
    IdentitySettings,
    ListenerSettings,
    AcceptorSettings,
    NetworkSettings,
    TopicSettings,
    LogSettings,
    TopicDefaultSettings,
    CleanerSettings,
    ReplicationSettings,
    LeadershipSettings,
    GroupSettings,
    OffsetSettings,
    TransactionSettings,
    TlsSettings,
    SaslSettings,
    AccessSettings,
    QuotaSettings,
):
    """Every setting of a broker."""


class ListenerScope(AcceptorSettings, TlsSettings, SaslSettings):
    """What may be set for one listener alone, as `listener.name.<name>.<setting>`."""
