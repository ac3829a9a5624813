"""How many connections there may be: in all, from one address, and new ones in a second.

Pure bookkeeping. A connection over a cap is closed as soon as it is accepted; one over the rate
stays in the backlog of its listener until its turn comes, as in Kafka.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.protocol.settings import MAX_INT, SettingsError


@dataclass(frozen=True, slots=True)
class ConnectionCaps:
    total: int = MAX_INT
    per_host: int = MAX_INT
    creations_per_second: int = MAX_INT
    overrides: Mapping[str, int] = field(default_factory=dict)
    """`per_host` of single hosts, by their address."""


class ConnectionLimits:
    """The count of a broker, or of one of its listeners within the limits of its broker."""

    def __init__(
        self, caps: ConnectionCaps, now: float, within: "ConnectionLimits | None" = None
    ) -> None:
        self.caps = caps
        """Replaced when the configuration changes; connections that are there stay."""
        self._within = within
        self._hosts: Counter[str] = Counter()
        self._total = 0
        # A bucket of one second's worth of connections, filled as time goes by.
        self._tokens = float(caps.creations_per_second)
        self._filled_at = now

    @property
    def total(self) -> int:
        return self._total

    def enter(self, host: str) -> str | None:
        """Count a new connection; or say why it cannot be had."""
        if self._total >= self.caps.total:
            return f"there are {self._total} connections already (max.connections)"
        count = self._hosts.get(host, 0)
        if count >= self.caps.overrides.get(host, self.caps.per_host):
            return f"it has {count} connections already (max.connections.per.ip)"
        if self._within is not None and (refusal := self._within.enter(host)):
            return refusal
        self._hosts[host] = count + 1
        self._total += 1
        return None

    def leave(self, host: str) -> None:
        self._total -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]
        if self._within is not None:
            self._within.leave(host)

    def delay(self, now: float) -> float:
        """How many seconds to wait before another connection is accepted; counts it if none."""
        rate = self.caps.creations_per_second
        self._tokens = min(float(rate), self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now
        if self._tokens < 1:
            return 1.0 if not rate else (1 - self._tokens) / rate
        wait = 0.0 if self._within is None else self._within.delay(now)
        if not wait:
            self._tokens -= 1
        return wait


def parse_overrides(text: str) -> dict[str, int]:
    """The counts in `host:count,host:count`. Raises SettingsError."""
    counts: dict[str, int] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        host, _, count = pair.rpartition(":")
        if not host or not count.isdecimal():
            problem = f"max.connections.per.ip.overrides: {pair!r} is not of the form host:count"
            raise SettingsError([problem])
        counts[host.strip("[]")] = int(count)
    return counts
