"""How a client protects its connections and says who it is: TLS contexts and SASL exchanges.

An exchange is a generator: it yields the tokens to send and is sent the server's answers, so it
knows nothing of sockets. SCRAM follows RFC 5802 and also proves the server to the client.
"""

import base64
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Generator
from dataclasses import dataclass

from odradek.client.settings import ConnectionSettings
from odradek.protocol.endpoints import SecurityProtocol
from odradek.protocol.errors import Errors, KafkaError

Exchange = Generator[bytes, bytes, None]

MIN_SCRAM_ITERATIONS = 4096


@dataclass(frozen=True, slots=True)
class Credentials:
    mechanism: str
    username: str
    password: str

    def exchange(self) -> Exchange:
        if self.mechanism == "PLAIN":
            return plain_exchange(self.username, self.password)
        return scram_exchange(self.mechanism, self.username, self.password, secrets.token_hex(16))


@dataclass(frozen=True, slots=True)
class Security:
    """None of both: PLAINTEXT."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


PLAINTEXT = Security()


def security_of(settings: ConnectionSettings) -> Security:
    protocol = SecurityProtocol[settings.security_protocol.upper()]
    credentials = None
    if protocol.uses_sasl:
        if settings.sasl_username is None or settings.sasl_password is None:
            raise KafkaError(
                Errors.SASL_AUTHENTICATION_FAILED, "sasl.username and sasl.password are not set"
            )
        credentials = Credentials(
            settings.sasl_mechanism, settings.sasl_username, settings.sasl_password
        )
    return Security(tls_context(settings) if protocol.uses_tls else None, credentials)


def tls_context(settings: ConnectionSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ssl_ca_location)
    context.check_hostname = settings.ssl_endpoint_identification_algorithm.lower() == "https"
    if settings.ssl_certificate_location is not None:
        context.load_cert_chain(
            settings.ssl_certificate_location,
            settings.ssl_key_location,
            settings.ssl_key_password,
        )
    return context


def plain_exchange(username: str, password: str) -> Exchange:
    yield f"\0{username}\0{password}".encode()


def scram_exchange(mechanism: str, username: str, password: str, nonce: str) -> Exchange:
    digest = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    name = username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={name},r={nonce}"
    server_first = (yield f"n,,{first_bare}".encode()).decode()
    told = attributes(server_first)
    iterations = int(told.get("i", "0"))
    if not told.get("r", "").startswith(nonce) or iterations < MIN_SCRAM_ITERATIONS:
        raise refused("the server's first SCRAM message is not acceptable")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(told["s"]), iterations)
    without_proof = f"c=biws,r={told['r']}"
    signed = f"{first_bare},{server_first},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    server_final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", digest)
    expected = base64.b64encode(hmac.digest(server_key, signed, digest)).decode()
    if not hmac.compare_digest(attributes(server_final.decode()).get("v", ""), expected):
        raise refused("the server could not prove that it knows the password")


def attributes(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)


def refused(why: str) -> KafkaError:
    return KafkaError(Errors.SASL_AUTHENTICATION_FAILED, why)
