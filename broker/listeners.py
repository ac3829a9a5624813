"""The listeners of a broker, from the texts of its configuration.

`listeners` says what is opened, `advertised.listeners` what clients are told, and
`listener.security.protocol.map` how each is protected; one of them serves the other brokers and
one, often the same, the controller. Pure: nothing here opens a socket or looks up a host. An
advertised host that is empty and an advertised port that is 0 are known only once the sockets
are open, and `advertised_at` fills them in.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from odradek.broker.settings.network import ListenerSettings
from odradek.protocol.endpoints import Endpoint, SecurityProtocol, parse_endpoint
from odradek.protocol.settings import SettingsError


@dataclass(frozen=True, slots=True)
class Listeners:
    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: str
    control_plane: str

    def advertised_at(self, host: str, ports: Mapping[str, int]) -> tuple[Endpoint, ...]:
        """What to advertise on `host`, once the listeners are open on `ports` (by name)."""
        return tuple(
            replace(
                endpoint,
                host=endpoint.host or host,
                port=endpoint.port or ports[endpoint.listener],
            )
            for endpoint in self.advertised
        )


def read_listeners(config: ListenerSettings) -> Listeners:
    """Raises SettingsError with every problem found."""
    protocols = _protocol_map(config.listener_security_protocol_map)
    hidden = {name.upper() for name in _parts(config.controller_listener_names or "")}
    bound = _endpoints("listeners", config.listeners, protocols, hidden)
    advertised = bound
    if config.advertised_listeners is not None:
        advertised = _endpoints(
            "advertised.listeners", config.advertised_listeners, protocols, hidden
        )
    inter_broker = _inter_broker_name(config, advertised)
    listeners = Listeners(
        bound,
        advertised,
        inter_broker,
        (config.control_plane_listener_name or inter_broker).upper(),
    )
    problems = [
        *_clashes(bound),
        *_advertised_problems(listeners),
        *_role_problems(listeners, config),
    ]
    if problems:
        raise SettingsError(problems)
    return listeners


def _protocol_map(text: str) -> dict[str, SecurityProtocol]:
    protocols: dict[str, SecurityProtocol] = {}
    problems: list[str] = []
    for pair in _parts(text):
        name, colon, protocol = (part.strip().upper() for part in pair.rpartition(":"))
        if not colon or not name:
            problems.append(f"listener.security.protocol.map: {pair!r} is not NAME:PROTOCOL")
        elif protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            problems.append(f"listener.security.protocol.map: {protocol!r} is not one of {known}")
        elif name in protocols:
            problems.append(f"listener.security.protocol.map names {name} twice")
        else:
            protocols[name] = SecurityProtocol[protocol]
    if problems:
        raise SettingsError(problems)
    return protocols


def _endpoints(
    setting: str, text: str, protocols: Mapping[str, SecurityProtocol], hidden: set[str]
) -> tuple[Endpoint, ...]:
    endpoints: list[Endpoint] = []
    problems: list[str] = []
    for part in _parts(text):
        try:
            name, host, port = parse_endpoint(part)
        except ValueError as error:
            problems.append(f"{setting}: {error}")
            continue
        if name in hidden:
            continue
        if name not in protocols:
            problems.append(f"{setting}: listener.security.protocol.map does not name {name}")
            continue
        endpoints.append(Endpoint(name, protocols[name], host, port))
    if not endpoints and not problems:
        problems.append(f"{setting} must name at least one listener")
    counts = Counter(endpoint.listener for endpoint in endpoints)
    problems += [f"{setting} names {name} twice" for name, count in counts.items() if count > 1]
    if problems:
        raise SettingsError(problems)
    return tuple(endpoints)


def _inter_broker_name(config: ListenerSettings, advertised: tuple[Endpoint, ...]) -> str:
    if config.inter_broker_listener_name is None:
        wanted = SecurityProtocol[config.security_inter_broker_protocol]
        # Kafka takes the protocol's name for the listener's; any other listener that speaks the
        # protocol will do here, so that one renamed listener needs no second setting.
        speakers = [endpoint.listener for endpoint in advertised if endpoint.security is wanted]
        return wanted.name if wanted.name in speakers or not speakers else speakers[0]
    unchosen = ListenerSettings.security_inter_broker_protocol.default
    if config.security_inter_broker_protocol != unchosen:
        raise SettingsError(
            ["Only one of inter.broker.listener.name and security.inter.broker.protocol may be set"]
        )
    return config.inter_broker_listener_name.upper()


def _clashes(bound: tuple[Endpoint, ...]) -> list[str]:
    """Two listeners on one port, unless one is for IPv4 and the other for IPv6."""
    problems: list[str] = []
    ports = [endpoint.port for endpoint in bound if endpoint.port]
    for port in sorted({port for port in ports if ports.count(port) > 1}):
        hosts = [endpoint.host for endpoint in bound if endpoint.port == port]
        if sorted(":" in host for host in hosts) != [False, True] or "" in hosts:
            problems.append(f"listeners: port {port} is used twice")
    return problems


def _advertised_problems(listeners: Listeners) -> list[str]:
    names = {endpoint.listener for endpoint in listeners.bound}
    problems: list[str] = []
    for endpoint in listeners.advertised:
        if endpoint.listener not in names:
            problems.append(f"advertised.listeners: {endpoint.listener} is not in listeners")
        if endpoint.host in ("0.0.0.0", "::"):
            problems.append(
                f"{endpoint} cannot be advertised, because {endpoint.host} is no address to "
                "connect to: set advertised.listeners to what clients can reach"
            )
    return problems


def _role_problems(listeners: Listeners, config: ListenerSettings) -> list[str]:
    problems: list[str] = []
    if listeners.inter_broker not in {e.listener for e in listeners.advertised}:
        problems.append(
            f"The listener between brokers, {listeners.inter_broker}, is not advertised: set "
            "inter.broker.listener.name to one that is"
        )
    if config.control_plane_listener_name is None:
        return problems
    if listeners.control_plane not in {e.listener for e in listeners.bound}:
        problems.append(
            f"control.plane.listener.name: {listeners.control_plane} is not in listeners"
        )
    if listeners.control_plane == listeners.inter_broker:
        problems.append(
            "control.plane.listener.name and the listener between brokers must not be the same"
        )
    return problems


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
