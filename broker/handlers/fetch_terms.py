"""What all fetches of a broker share."""

import asyncio
from dataclasses import dataclass, field

from odradek.broker.fetch_sessions import FetchSessions
from odradek.broker.handlers.shared_reads import SharedReads
from odradek.broker.metadata_cache import MetadataCache
from odradek.replication.replicas import Replicas


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FetchTerms:
    """`reads_near_by`: consumers that say where they are are sent to a replica in their rack, and
    followers hear at once how far such consumers may read."""

    replicas: Replicas
    metadata: MetadataCache
    sessions: FetchSessions
    max_bytes: int
    loop: asyncio.AbstractEventLoop
    reads_near_by: bool = False
    shared_reads: SharedReads = field(default_factory=SharedReads)
