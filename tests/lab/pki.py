"""Certificates of one lab: an authority, what it signs, and the kubeconfig that carries them."""

from __future__ import annotations

import base64
import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.kubeconfigs import write_kubeconfig

LOOPBACK = ("localhost", "127.0.0.1")
WEBHOOKS = (
    "kueue-webhook-service.kueue-system.svc",
    "kueue-visibility-server.kueue-system.svc",
    "jobset-webhook-service.jobset-system.svc",
)
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates into one folder; valid for a month."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name
    since: datetime.datetime

    @classmethod
    def create(cls, folder: Path) -> Authority:
        folder.mkdir(parents=True, exist_ok=True)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab-ca")])
        since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        authority = cls(folder, ec.generate_private_key(ec.SECP256R1()), name, since)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        certificate = (
            authority._builder(name, authority.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(authority.key, hashes.SHA256())
        )
        (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return authority

    def issue(self, stem: str, common_name: str, group: str = "", hosts: tuple[str, ...] = ()) -> None:
        """Write `<stem>.crt` and `<stem>.key`, for a client of that group or a server under those hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        builder = self._builder(x509.Name(attributes), key).add_extension(purposes, critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self.key, hashes.SHA256())
        (self.folder / f"{stem}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(self.folder / f"{stem}.key", key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.since)
            .not_valid_after(self.since + datetime.timedelta(days=30))
        )


def _host(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)


def _write_key(path: Path, key: PrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def create_certificates(folder: Path) -> None:
    """Everything the processes of one lab show each other."""
    authority = Authority.create(folder)
    (folder / "webhook").mkdir()
    authority.issue("apiserver", "kube-apiserver", hosts=(*LOOPBACK, "kubernetes.default.svc", "10.96.0.1"))
    authority.issue("admin", "admin", group="system:masters")
    authority.issue("reader", "reader", group="readers")
    authority.issue("front", "front-proxy-client")
    authority.issue("kwok", "kwok", hosts=LOOPBACK)
    authority.issue("webhook/tls", "webhook", hosts=(*LOOPBACK, *WEBHOOKS))
    tokens = rsa.generate_private_key(65537, 2048)
    _write_key(folder / "sa.key", tokens)
    public = tokens.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "sa.pub").write_bytes(public)


def write_client_kubeconfig(path: Path, pki: Path, server: str, user: str) -> None:
    """A kubeconfig for one of the clients issued above."""

    def encoded(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    login = {"client-certificate-data": encoded(f"{user}.crt"), "client-key-data": encoded(f"{user}.key")}
    cluster = {"server": server, "certificate-authority-data": encoded("ca.crt")}
    write_kubeconfig(path, cluster, login, who=user, contexts=(("lab", "default"),))
