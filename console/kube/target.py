"""One kubeconfig context with its cluster and user entries, and the proxy by which its server is reached.

The environment is read as kubectl reads it (Go's httpproxy): HTTPS_PROXY for https, HTTP_PROXY for http, upper case
before lower case; never for this machine itself; NO_PROXY has names (subdomains too), .suffixes (subdomains only), *,
addresses and their ranges (10.0.0.0/8), and all but ranges may name a port. ALL_PROXY, which kubectl leaves alone,
comes last, if it is an HTTP proxy: what desktops put there is SOCKS, and what kubectl reaches without it is so here.
Elsewhere a SOCKS 5 proxy is taken too.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex
from urllib.parse import quote, urlsplit

from msgspec import Struct, field

from console.errors import BadKubeconfig

if TYPE_CHECKING:
    Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Secret(str):
    """A string that may be passed on but not shown: its repr hides it, also in crash reports."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(hidden)"

    def __getitem__(self, key: SupportsIndex | slice) -> Secret:
        return Secret(super().__getitem__(key))


class Masked(Struct, rename="kebab"):
    """A part of a kubeconfig that may hold a secret: its repr hides the values."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # crash reports print what locals hold
        return []


class Cluster(Masked):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[dict[str, Any]] | None = None
    practice_folder: Path | None = None  # where a practice cluster keeps what goes with it; None: it is a real one


class User(Masked):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    impersonate: str | None = field(default=None, name="as")  # as whom the account acts, with the next three
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None
    source: Callable[[], Awaitable[tuple[str, float]]] | None = None  # gives a bearer token and its end

    def impersonation(self) -> dict[str, list[str]]:
        """Headers by which the account acts as another."""
        found = {f"Extra-{quote(name, safe='')}": each for name, each in (self.as_user_extra or {}).items()}
        found |= {"User": [self.impersonate or ""], "Uid": [self.as_uid or ""], "Group": self.as_groups or []}
        return {f"Impersonate-{name}": values for name, values in found.items() if any(values)}


class Target(Masked):
    """One context with its cluster and user; all file paths are absolute."""

    context: str
    user_name: str
    namespace: str
    cluster: Cluster
    user: User


DEFAULT_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}  # default ports of proxies
_DEFAULT_SERVER_PORTS = {"http": 80, "https": 443}


def proxy_of(server: str, given: str | None, environment: Mapping[str, str] = os.environ) -> Secret:
    """URL of a server's proxy (`given`: the kubeconfig's), empty if none; BadKubeconfig, without its password."""
    if given:
        return _check_proxy_address(given, "The kubeconfig's proxy-url")
    try:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port or _DEFAULT_SERVER_PORTS.get(parts.scheme, 0)
    except ValueError:
        return Secret()  # the request to such a server fails with the reason
    if not port or is_loopback(host):
        return Secret()
    name, address = _read_variable(environment, f"{parts.scheme}_proxy")
    if not address:
        name, address = _read_variable(environment, "all_proxy")
        if not _with_scheme(address).startswith(("http:", "https:")):
            return Secret()
    left_out = (each.strip().lower() for each in _read_variable(environment, "no_proxy")[1].split(","))
    if any(_matches_no_proxy(each, host.lower(), _parse_ip_address(host), port) for each in left_out if each):
        return Secret()
    return _check_proxy_address(address, name)


def is_loopback(host: str) -> bool:
    address = _parse_ip_address(host)
    return address.is_loopback if address else host == "localhost"


def _read_variable(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """The name as it is spelled in the environment, and the value; upper case counts before lower case."""
    return next(((each, environment[each]) for each in (name.upper(), name) if environment.get(each)), ("", ""))


def _with_scheme(address: str) -> str:
    """The address with http:// in front if it has no scheme, as in "proxy.example:3128"."""
    address = address.strip()
    return address if not address or "://" in address else f"http://{address}"


def _check_proxy_address(address: str, where: str) -> Secret:
    whole = _with_scheme(address)
    try:
        parts = urlsplit(whole)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0) and " " not in whole
        named = named and whole.isprintable()  # urlsplit has such in a name, or leaves it out
    except ValueError:
        parts, named = None, False
    if parts is None or not named:
        # What cannot be read may hold a password anywhere, so it is not repeated.
        raise BadKubeconfig(f"{where} is not the address of a proxy.", "Write it as http://HOST:PORT.")
    if parts.scheme not in DEFAULT_PROXY_PORTS:
        hint = "Give an http:// or socks5:// one."
        raise BadKubeconfig(f"{where} names a proxy of an unsupported scheme ({parts.scheme}).", hint)
    return Secret("socks5h" + whole[len("socks5") :] if parts.scheme == "socks5" else whole)


def _matches_no_proxy(entry: str, host: str, address: Address | None, port: int) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _is_in_network(address, entry)
    name, only = _without_port(entry)
    if only and only != str(port):
        return False
    known = _parse_ip_address(name)
    if known is not None or address is not None:
        return known == address
    suffix = name.removeprefix("*")
    return host.endswith(suffix) if suffix.startswith(".") else host == suffix or host.endswith(f".{suffix}")


def _without_port(entry: str) -> tuple[str, str]:
    """Split a NO_PROXY entry into host and port: "x.example:443", "10.0.0.1", "[fd00::1]:443", "fd00::1"."""
    if entry.startswith("["):
        name, _, port = entry[1:].partition("]")
        return name, port.removeprefix(":")
    name, _, port = entry.partition(":")
    return (entry, "") if ":" in port else (name, port)


def _is_in_network(address: Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _parse_ip_address(host: str) -> Address | None:
    """Parse an IP address; an IPv4-mapped IPv6 address becomes the IPv4 one. None for a host name."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found
