"""The one broker that all tests of a run share, also those in the worker processes of xdist.

Without xdist the broker lives in the process of the tests. With it, it lives in the process that
hands the tests out, which outlives all workers; they reach it by a socket, ask for the broker when
they first need it, and send the faults of their tests there. Nothing is started that nobody asks
for, except for the socket and its thread.

Questions and answers are small values on a `multiprocessing` connection with a key of its own.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, Protocol

log: Final = logging.getLogger(__name__)

SCOPES: Final = ("topic", "group", "client_id")


class Counts(NamedTuple):
    seen: int
    hits: int


class Owner(Protocol):
    """Whoever can reach the shared broker: in this process, or through the socket."""

    def bootstrap_servers(self) -> str: ...

    def add_fault(self, options: dict[str, Any]) -> int: ...

    def count_fault(self, number: int) -> Counts: ...

    def remove_fault(self, number: int) -> None: ...

    def close(self) -> None: ...


class LocalOwner:
    """Starts the broker when it is first asked for. May be used from any thread."""

    def __init__(self) -> None:
        self._leaving = ExitStack()
        self._starting = Lock()
        self._broker: Any = None
        self._rules: list[Any] = []

    def bootstrap_servers(self) -> str:
        address: str = self._started().bootstrap_servers
        return address

    def add_fault(self, options: dict[str, Any]) -> int:
        rule = self._started().faults.add(**options)
        with self._starting:
            self._rules.append(rule)
            return len(self._rules) - 1

    def count_fault(self, number: int) -> Counts:
        rule = self._rules[number]
        return Counts(rule.seen, rule.hits)

    def remove_fault(self, number: int) -> None:
        self._started().faults.remove(self._rules[number])

    def close(self) -> None:
        self._leaving.close()

    def _started(self) -> Any:
        with self._starting:
            if self._broker is None:
                from odradek.testing.broker import Broker

                self._broker = self._leaving.enter_context(Broker())
            return self._broker


class OwnerService:
    """The owner's end of the socket: one thread for each worker that calls."""

    def __init__(self) -> None:
        self.key = secrets.token_bytes(16)
        self._owner = LocalOwner()
        self._listener = Listener(family="AF_UNIX", authkey=self.key)
        self.address = str(self._listener.address)
        self._is_closing = False
        self._accepting = Thread(target=self._accept, name="odradek-shared-broker", daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while not self._is_closing:
            try:
                worker = self._listener.accept()
            except (AuthenticationError, EOFError, OSError) as error:
                log.warning("a caller of the shared broker was not let in: %r", error)
                continue
            Thread(target=self._serve, args=(worker,), daemon=True).start()

    def _serve(self, worker: "Connection[Any, Any]") -> None:
        with worker:
            while True:
                try:
                    verb, arguments = worker.recv()
                except (EOFError, OSError):
                    return
                worker.send(self._answer(verb, arguments))

    def _answer(self, verb: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        """Whether it went well, and the result or the exception."""
        ask: Callable[..., Any] = getattr(self._owner, verb)
        try:
            return True, ask(*arguments)
        except Exception as error:
            return False, error

    def close(self) -> None:
        """Workers are gone by now; the broker goes as well."""
        self._is_closing = True
        Client(self.address, authkey=self.key).close()  # wakes the thread that accepts
        self._accepting.join()
        self._listener.close()
        self._owner.close()


class RemoteOwner:
    """A worker's end of the socket. Used by one test at a time."""

    def __init__(self, address: str, key: bytes) -> None:
        self._connection: Connection[Any, Any] = Client(address, authkey=key)

    def bootstrap_servers(self) -> str:
        address: str = self._ask("bootstrap_servers")
        return address

    def add_fault(self, options: dict[str, Any]) -> int:
        number: int = self._ask("add_fault", options)
        return number

    def count_fault(self, number: int) -> Counts:
        counts: Counts = self._ask("count_fault", number)
        return counts

    def remove_fault(self, number: int) -> None:
        self._ask("remove_fault", number)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, verb: str, *arguments: Any) -> Any:
        self._connection.send((verb, arguments))
        went_well, result = self._connection.recv()
        if not went_well:
            raise result
        return result


class SharedRule:
    """A fault at the shared broker, and what it has done so far."""

    def __init__(self, owner: Owner, number: int) -> None:
        self._owner = owner
        self._number = number

    @property
    def seen(self) -> int:
        """How many requests the rule was about."""
        return self._owner.count_fault(self._number).seen

    @property
    def hits(self) -> int:
        """How many of them went wrong."""
        return self._owner.count_fault(self._number).hits

    def remove(self) -> None:
        self._owner.remove_fault(self._number)


class SharedFaults:
    """The faults of one test at the shared broker.

    Each must name a topic, a group or a client id: other tests use the same broker at the same
    time. A test that wants more than that has a broker of its own.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._rules: list[SharedRule] = []

    def __iter__(self) -> Iterator[SharedRule]:
        return iter(self._rules)

    @property
    def hits(self) -> int:
        return sum(rule.hits for rule in self._rules)

    def add(self, **options: Any) -> SharedRule:
        """As `odradek.testing.Faults.add`."""
        if not any(options.get(scope) for scope in SCOPES):
            raise ValueError(
                "the broker is shared by all tests: name a topic, a group or a client_id, "
                "or use a broker of your own (odradek.testing.Broker)"
            )
        rule = SharedRule(self._owner, self._owner.add_fault(options))
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        while self._rules:
            self._rules.pop().remove()


class SharedBroker:
    """What tests see of it. It cannot be stopped: others use it, too."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.bootstrap_servers = owner.bootstrap_servers()

    def faults(self) -> SharedFaults:
        return SharedFaults(self._owner)
