"""One line in the log for a peer that misbehaves, however often it does so.

A port scanner, or a client with the wrong settings that reconnects for ever, must not fill the
disk. A host is written about once in `QUIET_SECONDS`; the next line says how often it happened
meanwhile.
"""

import logging
from typing import Final

from odradek.protocol.clock import Clock

QUIET_SECONDS: Final = 10.0
# Beyond this many hosts at once, the oldest is forgotten and may be written about again.
_MAX_HOSTS: Final = 1000


class Complaints:
    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        # host -> (when it was last written about, how often it was not)
        self._hosts: dict[str, tuple[float, int]] = {}

    def write(self, host: str, text: str) -> None:
        now = self._clock.monotonic()
        written_at, unwritten = self._hosts.pop(host, (-QUIET_SECONDS, 0))
        if now - written_at < QUIET_SECONDS:
            self._hosts[host] = (written_at, unwritten + 1)
            return
        if len(self._hosts) >= _MAX_HOSTS:
            del self._hosts[next(iter(self._hosts))]
        self._hosts[host] = (now, 0)
        before = f" ({unwritten} more like this before)" if unwritten else ""
        self._log.warning("%s%s", text, before)
