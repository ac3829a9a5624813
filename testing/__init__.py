"""Real brokers for tests, inside the test's own process.

    import odradek.testing

    with odradek.testing.Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

`Broker` is one, `Cluster` several; `broker.faults` lets requests go wrong. The pytest fixtures in
`plugin` rest on them. This package imports nothing until it is used: pytest loads it in every run
of every project that has it installed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.faults import Faults, Rule
    from odradek.testing.broker import Broker
    from odradek.testing.cluster import Cluster

__all__ = ["Broker", "Cluster", "Faults", "Rule"]

_HOMES = {
    "Broker": "odradek.testing.broker",
    "Cluster": "odradek.testing.cluster",
    "Faults": "odradek.broker.faults",
    "Rule": "odradek.broker.faults",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
