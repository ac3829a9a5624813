"""TLS, SASL, authorization and delegation tokens.

Settings of `TlsSettings` and `SaslSettings` may be given for one listener alone, as
`listener.name.<name>.<setting>`.
"""

from odradek.protocol.checks import at_least, one_of
from odradek.protocol.settings import (
    Dynamic,
    Importance,
    Settings,
    Synonym,
    boolean,
    integer,
    long,
    optional_text,
    password,
    text,
    words,
)


class TlsSettings(Settings):
    """TLS."""

    ssl_client_auth = text(
        "ssl.client.auth",
        "none",
        "Whether clients must show a certificate.",
        check=one_of("required", "requested", "none", ignore_case=True),
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_keystore_type = text(
        "ssl.keystore.type",
        "JKS",
        "The form of the key store: PEM, PKCS12 or JKS.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_keystore_location = optional_text(
        "ssl.keystore.location",
        "The file with the broker's key and certificate.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_keystore_password = password(
        "ssl.keystore.password", "The password of the key store.", dynamic=Dynamic.PER_BROKER
    )
    ssl_key_password = password(
        "ssl.key.password", "The password of the key itself.", dynamic=Dynamic.PER_BROKER
    )
    ssl_keystore_key = password(
        "ssl.keystore.key", "The broker's key as PEM text.", dynamic=Dynamic.PER_BROKER
    )
    ssl_keystore_certificate_chain = password(
        "ssl.keystore.certificate.chain",
        "The broker's certificates as PEM text.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_truststore_type = text(
        "ssl.truststore.type",
        "JKS",
        "The form of the trust store: PEM, PKCS12 or JKS.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_truststore_location = optional_text(
        "ssl.truststore.location",
        "The file with the certificates that are trusted.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_truststore_password = password(
        "ssl.truststore.password", "The password of the trust store.", dynamic=Dynamic.PER_BROKER
    )
    ssl_truststore_certificates = password(
        "ssl.truststore.certificates",
        "The trusted certificates as PEM text.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_protocol = text(
        "ssl.protocol",
        "TLSv1.3",
        "The newest TLS version that is spoken.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_enabled_protocols = words(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        "The TLS versions that are spoken.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_cipher_suites = words(
        "ssl.cipher.suites",
        (),
        "The cipher suites that are offered; empty means the TLS library's own choice.",
        dynamic=Dynamic.PER_BROKER,
    )
    ssl_endpoint_identification_algorithm = text(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Whether connections to other brokers check the host name in the certificate; empty "
        "means no.",
        dynamic=Dynamic.PER_BROKER,
        importance=Importance.LOW,
    )
    ssl_principal_mapping_rules = text(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How the name in a client's certificate becomes a user name.",
        importance=Importance.LOW,
    )


class SaslSettings(Settings):
    """SASL."""

    sasl_enabled_mechanisms = words(
        "sasl.enabled.mechanisms",
        ("GSSAPI",),
        "The SASL mechanisms that clients may use.",
        dynamic=Dynamic.PER_BROKER,
    )
    sasl_mechanism_inter_broker_protocol = text(
        "sasl.mechanism.inter.broker.protocol",
        "GSSAPI",
        "The SASL mechanism between brokers.",
        dynamic=Dynamic.PER_BROKER,
    )
    sasl_jaas_config = password(
        "sasl.jaas.config",
        "The login of a mechanism in JAAS form, given per listener and mechanism as "
        "listener.name.<name>.<mechanism>.sasl.jaas.config.",
        dynamic=Dynamic.PER_BROKER,
    )
    sasl_server_max_receive_size = integer(
        "sasl.server.max.receive.size",
        512 * 1024,
        "The largest message that is read before a client is authenticated.",
    )
    connections_max_reauth_ms = long(
        "connections.max.reauth.ms",
        0,
        "How long an authentication holds before the client must renew it; 0 is no limit.",
    )


class AccessSettings(Settings):
    """Authorization and delegation tokens."""

    authorizer_class_name = text(
        "authorizer.class.name",
        "",
        "The authorizer: Kafka's AclAuthorizer or StandardAuthorizer by class name; both mean "
        "the broker's own. Empty means everybody may do everything.",
        importance=Importance.LOW,
    )
    super_users = text(
        "super.users", "", "Principals that may do everything, separated by semicolons."
    )
    allow_everyone_if_no_acl_found = boolean(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether a resource without any ACL is open to everybody.",
    )
    delegation_token_secret_key = password(
        "delegation.token.secret.key",
        "The key that signs delegation tokens, the same on all brokers; unset means no tokens.",
        synonyms=(Synonym("delegation.token.master.key"),),
    )
    delegation_token_master_key = password(
        "delegation.token.master.key", "Old name of `delegation.token.secret.key`."
    )
    delegation_token_max_lifetime_ms = long(
        "delegation.token.max.lifetime.ms",
        7 * 24 * 60 * 60 * 1000,
        "How long a delegation token can be renewed.",
        check=at_least(1),
    )
    delegation_token_expiry_time_ms = long(
        "delegation.token.expiry.time.ms",
        24 * 60 * 60 * 1000,
        "How long a delegation token holds before it must be renewed.",
        check=at_least(1),
    )
    delegation_token_expiry_check_interval_ms = long(
        "delegation.token.expiry.check.interval.ms",
        60 * 60 * 1000,
        "How often the broker removes expired delegation tokens.",
        check=at_least(1),
        importance=Importance.LOW,
    )
