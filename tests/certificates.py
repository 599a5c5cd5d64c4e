"""Certificates of servers that tests start."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_certificate(folder: Path, *, days: float) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS with a certificate that ends in so many days, and the file to trust it by."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=9))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("api.example")]), False
        )
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority, pair = folder / "ca.crt", folder / "pair.pem"
    authority.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pair.write_bytes(authority.read_bytes() + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    return context, authority


@cache
def usual_certificate() -> tuple[ssl.SSLContext, str]:
    """A server's TLS, and the authority to trust it by, as PEM; made once."""
    with tempfile.TemporaryDirectory() as folder:
        context, authority = make_certificate(Path(folder), days=1)
        return context, authority.read_text()
