"""What kafka-python's fixtures import and its source package leaves out: how a server is run.

The suite is only ever pointed at a server that runs already, so nothing here starts one.
"""


class ExternalService:
    """A server that somebody else looks after."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def dump_logs(self) -> None:
        pass

    def wait_for(self, pattern: object, timeout: float = 0) -> bool:
        return True


class SpawnedService:
    """A server that the suite would start for itself: not here."""

    def __init__(self, args: object = None, env: object = None) -> None:
        raise RuntimeError(f"the suite must not start servers: {args}")
