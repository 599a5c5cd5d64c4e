"""Authentication and authorization of the practice cluster: certificates, accounts with tokens, rules."""

from __future__ import annotations

import base64
import ipaddress
import secrets
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from console.folders import make_private
from practice.api.paths_and_versions import ApiPath
from practice.objects.api_error import ApiError, Object

_LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A permission: verbs on kinds (``pods``, ``pods/exec``, ``jobs.batch``); ``*`` is any."""

    verbs: frozenset[str]
    resources: frozenset[str]

    def allows(self, verb: str, resource: str) -> bool:
        return bool(self.verbs & {verb, "*"}) and bool(self.resources & {resource, "*"})


@dataclass(frozen=True, slots=True)
class Account:
    """A user, the token that proves it, and its rules."""

    name: str
    rules: tuple[AccessRule, ...]
    groups: tuple[str, ...] = ("system:authenticated",)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    denied: set[tuple[str, str]] = field(default_factory=set)
    """(verb, kind) pairs that the account may not use, whatever its rules allow."""

    def is_allowed(self, verb: str, group: str, resource: str) -> bool:
        """Whether a verb on ``pods`` or ``pods/exec`` of a group is allowed."""
        kind, slash, subresource = resource.partition("/")
        qualified = (f"{kind}.{group}" if group else kind) + slash + subresource
        if (verb, qualified) in self.denied:
            return False
        return any(rule.allows(verb, qualified) for rule in self.rules)


def admin_account() -> Account:
    everything = AccessRule(frozenset("*"), frozenset("*"))
    return Account("practice-admin", (everything,), ("system:masters", "system:authenticated"))


def reader_account(*kinds: str, name: str = "practice-reader") -> Account:
    """Return an account that may only read some kinds; by default pods, nodes, logs and JobSets."""
    kinds = kinds or ("pods", "pods/log", "nodes", "jobs.batch", "jobsets.jobset.x-k8s.io", "events")
    return Account(name, (AccessRule(frozenset({"get", "list", "watch"}), frozenset(kinds)),))


ANONYMOUS = Account("system:anonymous", (), ("system:unauthenticated",), token="")
"""The account of requests without a token, which is allowed nothing."""


def check_access(account: Account, verb: str, target: ApiPath) -> None:
    """Raise ApiError 403, worded as by RBAC, if the account lacks the permission."""
    resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    if account.is_allowed(verb, target.group, resource):
        return
    scope = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    qualified = f"{target.plural}.{target.group}" if target.group else target.plural
    subject = f'{qualified} "{target.name}"' if target.name else qualified
    text = f'{subject} is forbidden: User "{account.name}" cannot {verb} resource "{resource}" '
    text += f'in API group "{target.group}" {scope}'
    details: Object = {"name": target.name, "group": target.group, "kind": target.plural}
    raise ApiError(403, "Forbidden", text, {key: value for key, value in details.items() if value})


class Certificates:
    """A certificate authority and the server certificate it signed, in a private folder."""

    def __init__(self, host: str) -> None:
        authority_key = ec.generate_private_key(ec.SECP256R1())
        authority = _make_certificate("practice-ca", authority_key.public_key(), "practice-ca", authority_key, host="")
        key = ec.generate_private_key(ec.SECP256R1())
        server = _make_certificate("practice-apiserver", key.public_key(), "practice-ca", authority_key, host=host)
        self.authority = authority.public_bytes(serialization.Encoding.PEM)
        self._server = server.public_bytes(serialization.Encoding.PEM)
        self._key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with TemporaryDirectory() as folder:
            chain = Path(folder, "server.pem")
            chain.touch(mode=0o600)
            chain.write_bytes(self._key + self._server)
            context.load_cert_chain(chain)
        return context


def _make_certificate(
    name: str, key: ec.EllipticCurvePublicKey, issuer: str, signer: ec.EllipticCurvePrivateKey, *, host: str
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=not host, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_key_usage(authority=not host), critical=True)
    )
    if host:
        names = [x509.DNSName("localhost"), x509.DNSName("kubernetes"), x509.IPAddress(ipaddress.ip_address(host))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def write_kubeconfig(path: Path, url: str, authority: bytes, account: Account, namespace: str) -> None:
    """Write a kubeconfig that only its owner can read, with one context: ``practice``."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "practice",
        "clusters": [
            {
                "name": "practice",
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(authority).decode(),
                    "extensions": [{"name": "a4.practice", "extension": {"kind": "Practice"}}],
                },
            }
        ],
        "users": [{"name": account.name, "user": {"token": account.token}}],
        "contexts": [
            {"name": "practice", "context": {"cluster": "practice", "user": account.name, "namespace": namespace}}
        ],
    }
    make_private(path.parent)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
