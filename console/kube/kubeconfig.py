"""Reads and writes kubeconfigs: one file, a KUBECONFIG list, or the service account of the pod this runs in.

Files of a list are merged as kubectl merges them: the first file that names a cluster, user, context or current context
wins, and paths in a file are relative to it. A new entry leaves all other text of the file unchanged.

The proxy of a server is found as kubectl finds it (Go's httpproxy): HTTPS_PROXY for https, HTTP_PROXY for http, upper
case before lower case; never for this machine itself. NO_PROXY lists names (with subdomains), .suffixes (subdomains
only), *, addresses and address ranges (10.0.0.0/8); all but ranges may have a port. ALL_PROXY, which kubectl ignores,
comes last and counts only as an HTTP proxy, since desktops set it to SOCKS; the other variables may name a SOCKS 5
proxy.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex
from urllib.parse import quote, urlsplit

import msgspec
import yaml
from msgspec import Struct, field

from console.errors import BadKubeconfig
from console.folders import atomic_write, make_private
from console.kube.safe_yaml import MAX_CHARACTERS, load_yaml, safe_loader
from console.kube.snapshot import ContextName

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
    token_source: Callable[[], Awaitable[tuple[str, float]]] | None = None  # gives a bearer token and its end

    def impersonation(self) -> dict[str, list[str]]:
        """Request headers with which the account acts as another user (impersonation)."""
        found = {f"Extra-{quote(name, safe='')}": each for name, each in (self.as_user_extra or {}).items()}
        found |= {"User": [self.impersonate or ""], "Uid": [self.as_uid or ""], "Group": self.as_groups or []}
        return {f"Impersonate-{name}": values for name, values in found.items() if any(values)}


class Target(Masked):
    """One context of a kubeconfig with its cluster and user; all file paths are absolute."""

    context: str
    user_name: str
    namespace: str
    cluster: Cluster
    user: User


DEFAULT_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}  # default ports of proxies
_DEFAULT_SERVER_PORTS = {"http": 80, "https": 443}


def proxy_of(server: str, proxy_text: str | None, environment: Mapping[str, str] = os.environ) -> Secret:
    """The URL of a server's proxy (`proxy_text`: the kubeconfig's) or empty. BadKubeconfig, the password hidden."""
    if proxy_text:
        return _check_proxy_address(proxy_text, "The kubeconfig's proxy-url")
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


SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PRACTICE_EXTENSION = "a4.practice"  # the extension by which a practice cluster's entry tells what it is
_GET_KUBECONFIG = (
    "Name one by --kubeconfig FILE or KUBECONFIG, take one of Google's (`a4 clusters`), or try `a4 --demo`."
)
_REPAIR_FILE = "Repair that file, or name another one by --kubeconfig FILE or KUBECONFIG."


class Context(Masked):
    cluster: str = ""
    user: str | None = None
    namespace: str | None = None


class _NamedEntry(Masked):
    """An entry of `clusters`, `users` or `contexts`; exactly one of the three fields is set."""

    name: str
    cluster: Cluster | None = None
    user: User | None = None
    context: Context | None = None


class _KubeconfigFile(Masked):
    clusters: list[_NamedEntry] | None = None
    users: list[_NamedEntry] | None = None
    contexts: list[_NamedEntry] | None = None
    current_context: str | None = None


class Kubeconfig:
    """The contents of all kubeconfig files, merged."""

    def __init__(self) -> None:
        self.clusters: dict[str, Cluster] = {}
        self.users: dict[str, User] = {}
        self.contexts: dict[str, Context] = {}
        self.current = ""
        self.source = ""

    def merge(self, path: Path) -> None:
        """Add the entries of a file whose names no earlier file has defined."""
        read = _read_file(path)
        for named in read.clusters or ():
            cluster = named.cluster or Cluster()
            practice = any(each.get("name") == PRACTICE_EXTENSION for each in cluster.extensions or ())
            cluster.practice_folder = path.parent if practice else None
            self.clusters.setdefault(named.name, _with_absolute_paths(cluster, path.parent))
        for user in read.users or ():
            self.users.setdefault(user.name, _with_absolute_paths(user.user or User(), path.parent))
        for context in read.contexts or ():
            self.contexts.setdefault(context.name, context.context or Context())
        self.current = self.current or read.current_context or ""

    def context_names(self, chosen: str) -> tuple[ContextName, ...]:
        """All contexts in the order of the files; the one in use, `chosen`, is marked."""
        return tuple(
            ContextName(name, each.cluster, each.namespace or "", current=name == chosen)
            for name, each in self.contexts.items()
        )

    def target(self, name: str = "") -> Target:
        chosen = name or self.current
        known = f"It has: {', '.join(self.contexts)}." if self.contexts else "It has no contexts."
        if not chosen:
            raise BadKubeconfig(f"The kubeconfig {self.source} names no current context.", f"Give --context. {known}")
        context = self.contexts.get(chosen)
        if context is None:
            raise BadKubeconfig(f'The kubeconfig {self.source} has no context "{chosen}".', known)
        cluster, user = self.clusters.get(context.cluster), self.users.get(context.user or "")
        wrong = ""
        if cluster is None or not cluster.server:
            wrong = f'the cluster "{context.cluster}", which {"has no server" if cluster else "is not in it"}'
        elif user is None and context.user:
            wrong = f'the user "{context.user}", which is not in it'
        if cluster is None or wrong:
            why = f'The context "{chosen}" of {self.source} names {wrong}.'
            raise BadKubeconfig(why, "Choose another context, or write the kubeconfig again.")
        try:
            named = "@" in urlsplit(cluster.server).netloc
        except ValueError:
            hint = "Write it as https://HOST:PORT."
            raise BadKubeconfig(f'The server of context "{chosen}" of {self.source} is not a URL.', hint) from None
        if named:
            why = f'The server of context "{chosen}" of {self.source} has a user or a password in its address.'
            raise BadKubeconfig(why, "Write them as username and password of a user of the kubeconfig.")
        user = user or User()
        acts = user.impersonation()
        if any(len(each) > 1 or not each[0].isprintable() for each in acts.values()) or (acts and not user.impersonate):
            why = f'The user "{context.user}" of {self.source} acts as another in a way that a4 does not know.'
            raise BadKubeconfig(why, "Give it `as` with at most one of `as-groups` and one value of each extra.")
        return Target(chosen, context.user or "", context.namespace or "default", cluster, user)


def _with_absolute_paths(entry: Any, folder: Path) -> Any:
    for name in ("certificate_authority", "client_certificate", "client_key", "token_file"):
        written = getattr(entry, name, None)
        if written:
            setattr(entry, name, str(folder / Path(written).expanduser()))
    program = (getattr(entry, "exec", None) or {}).get("command")
    if isinstance(program, str) and "/" in program:  # a mere name is looked for on the PATH
        entry.exec["command"] = str(folder / program)
    return entry


def _read_file(path: Path) -> _KubeconfigFile:
    try:
        data = _load_yaml(path)[1]
        return msgspec.convert(data if data is not None else {}, _KubeconfigFile, strict=False)
    except msgspec.ValidationError as error:
        raise BadKubeconfig(f"The kubeconfig {path} has unexpected contents: {error}.", _REPAIR_FILE) from None


def _load_yaml(path: Path) -> tuple[str, Any]:
    """(text, data) of a kubeconfig. Raises BadKubeconfig with the position only, since the text may be secret."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
        return text, load_yaml(text)
    except OSError as error:
        raise BadKubeconfig(f"The kubeconfig {path} cannot be read: {error.strerror}.", _REPAIR_FILE) from error
    except UnicodeDecodeError as error:
        raise BadKubeconfig(f"The kubeconfig {path} is not a text file.", _REPAIR_FILE) from error
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "syntax error"
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadKubeconfig(f"The kubeconfig {path} cannot be read as YAML: {place}{problem}.", _REPAIR_FILE) from None


def _in_cluster_kubeconfig(folder: Path) -> Kubeconfig:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    found = Kubeconfig()
    found.source = "of the pod's service account"
    found.current = "in-cluster"
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    found.clusters["in-cluster"] = Cluster(server=server, certificate_authority=str(folder / "ca.crt"))
    found.users["service-account"] = User(token_file=str(folder / "token"))
    namespace = folder / "namespace"
    found.contexts["in-cluster"] = Context(
        "in-cluster", "service-account", namespace.read_text().strip() if namespace.exists() else None
    )
    return found


def load(path: Path | None = None, *, service_account: Path = SERVICE_ACCOUNT_FOLDER) -> Kubeconfig:
    """Load the file, else KUBECONFIG's, ~/.kube/config, or the pod's account. Blocking. Raises BadKubeconfig."""
    listed = [Path(each).expanduser() for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    home = Path.home() / ".kube" / "config"
    paths = [path.expanduser()] if path else [each for each in listed if each.exists()] or ([] if listed else [home])
    if path and not paths[0].exists():
        raise BadKubeconfig(f"The kubeconfig {paths[0]} does not exist.", _GET_KUBECONFIG)
    if not path and not any(each.exists() for each in paths):
        if "KUBERNETES_SERVICE_HOST" in os.environ and (service_account / "token").exists():
            return _in_cluster_kubeconfig(service_account)
        named = ", ".join(map(str, listed))
        why = f"KUBECONFIG names {named}, which does not exist" if listed else f"{home} does not exist"
        raise BadKubeconfig(f"No kubeconfig was found: {why}.", _GET_KUBECONFIG)
    found = Kubeconfig()
    found.source = ", ".join(map(str, paths))
    for each in paths:
        found.merge(each)
    return found


class KubeconfigEntry(Struct, frozen=True):
    """A cluster, user and context of one name; the credentials come from a plugin, so it holds no secret."""

    name: str
    server: str
    authority: str  # Base64 of PEM; empty: a certificate that everybody trusts
    command: str
    arguments: tuple[str, ...] = ()

    def sections(self) -> dict[str, dict[str, Any]]:
        """The entry's parts by list name: `clusters`, `users` and `contexts`."""
        cluster = {"server": self.server}
        if self.authority:
            cluster["certificate-authority-data"] = self.authority
        program: dict[str, Any] = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": self.command,
            "interactiveMode": "IfAvailable",
            "provideClusterInfo": True,
        }
        if self.arguments:
            program["args"] = list(self.arguments)
        return {
            "clusters": {"name": self.name, "cluster": cluster},
            "users": {"name": self.name, "user": {"exec": program}},
            "contexts": {"name": self.name, "context": {"cluster": self.name, "user": self.name}},
        }


def default_path() -> Path:
    listed = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(listed[0]).expanduser() if listed else Path.home() / ".kube" / "config"


def write_entry(path: Path, entry: KubeconfigEntry) -> bool:
    """Add or replace the entry at once, for the owner only; True if replaced. Blocking. Raises BadKubeconfig."""
    path = path.expanduser().resolve()  # a link stays a link
    text, config = _load_yaml(path) if path.exists() else ("", None)
    config = {"apiVersion": "v1", "kind": "Config"} if config is None else config
    if not isinstance(config, dict):
        raise BadKubeconfig(f"The file {path} is not a kubeconfig; it was not changed.", "Name another file.")
    parts: dict[str, tuple[int | None, dict[str, Any]]] = {}  # by list: the place of what it replaces, and itself
    for plural, part in entry.sections().items():
        listed = config[plural] = config.get(plural) or []
        if not isinstance(listed, list):
            raise BadKubeconfig(f"In the kubeconfig {path}, {plural} is not a list.", "Fix it, or name another file.")
        at = next(
            (n for n, each in enumerate(listed) if isinstance(each, dict) and each.get("name") == entry.name), None
        )
        if at is None:
            listed.insert(0, part)
        else:
            listed[at] = part = _with_old_namespace(plural, listed[at], part)
        parts[plural] = at, part
    config["current-context"] = config.get("current-context") or entry.name
    edited = _insert_entry(text, entry.name, parts)
    same = edited is not None and load_yaml(edited) == config
    try:
        make_private(path.parent)
        atomic_write(path, (edited if edited and same else _dump_yaml(config)).encode())
    except OSError as error:
        raise BadKubeconfig(f"The kubeconfig {path} cannot be written: {error.strerror}.", _REPAIR_FILE) from None
    return any(at is not None for at, _ in parts.values())


def _dump_yaml(config: Any) -> str:
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=10_000)


def _insert_entry(text: str, name: str, parts: dict[str, tuple[int | None, dict[str, Any]]]) -> str | None:
    """The file's text with the entry added and everything else unchanged; None if the text has an unusual layout."""
    if not text.strip():
        return None
    cuts: list[tuple[int, int, str]] = []
    root = yaml.compose(text, Loader=safe_loader())
    keys = {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}
    for plural, (at, part) in parts.items():
        found = keys.get(plural)
        if not isinstance(found, yaml.SequenceNode) or found.flow_style or not found.value:
            return None
        cuts.append(_entry_edit(text, found, at, part))
    if "current-context" not in keys:
        cuts.append((len(text), len(text), ("" if text.endswith("\n") else "\n") + f"current-context: {name}\n"))
    elif not keys["current-context"].value:
        node = keys["current-context"]
        cuts.append((node.start_mark.index, node.end_mark.index, name))
    for start, end, new in sorted(cuts, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _entry_edit(text: str, entries: yaml.SequenceNode, at: int | None, part: dict[str, Any]) -> tuple[int, int, str]:
    """(start, end, replacement) that puts an entry into a list: over the old one, else before the first."""
    if at is not None:
        node = entries.value[at]
        start, end = node.start_mark.index, node.end_mark.index
        lines = text[start:end].rstrip().split("\n")
        while len(lines) > 1 and not lines[-1].split("#")[0].strip():
            lines.pop()
        new = _dump_yaml(part).rstrip()
        return start, start + len("\n".join(lines)), new.replace("\n", "\n" + " " * node.start_mark.column)
    start = entries.start_mark.index
    margin = " " * entries.start_mark.column
    return start, start, _dump_yaml([part]).rstrip().replace("\n", "\n" + margin) + "\n" + margin


def _with_old_namespace(plural: str, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The new entry; a context keeps the namespace that the person had set in the old one."""
    inside = old.get("context")
    if plural == "contexts" and isinstance(inside, dict):
        return {**old, "context": {**inside, **new["context"]}}
    return new
