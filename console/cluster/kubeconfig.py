"""The kubeconfig: one file, a KUBECONFIG list, or the account of the pod this runs in.

Files of a list are merged as kubectl merges them: the first to name a cluster, user, context or current context wins,
and paths inside a file are relative to it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import yaml

from console.cluster.target import Cluster, Target, User
from console.errors import BadKubeconfig
from console.models.access import ContextName
from console.models.plain_yaml import load_yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PRACTICE = "a4.console/practice"
"""The extension by which a practice cluster's entry tells what it is."""
_GET_ONE = "ctrl+g (`a4 clusters`): Google's clusters need none. Or `a4 --demo`."


class Masked(msgspec.Struct, rename="kebab"):
    """Something that may hold a secret: it never shows what it holds."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # crash reports print what locals hold
        return []


class _ClusterWire(Masked):
    """How to reach an API server, as it is written."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[dict[str, Any]] | None = None


class _UserWire(Masked):
    """How to prove who one is, as it is written."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None


class Context(Masked):
    """A cluster, a user and a namespace."""

    cluster: str = ""
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(Masked):
    name: str
    cluster: _ClusterWire | None = None


class _NamedUser(Masked):
    name: str
    user: _UserWire | None = None


class _NamedContext(Masked):
    name: str
    context: Context | None = None


class _File(Masked):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


class Kubeconfig:
    """What the files say, merged."""

    def __init__(self) -> None:
        self.clusters: dict[str, Cluster] = {}
        self.users: dict[str, User] = {}
        self.contexts: dict[str, Context] = {}
        self.current = ""
        self.source = ""

    def merge(self, path: Path) -> None:
        """Add what a file says and no file before it said."""
        read = _read(path)
        for cluster in read.clusters or ():
            self.clusters.setdefault(cluster.name, _absolute(_cluster(cluster.cluster, path.parent), path.parent))
        for user in read.users or ():
            self.users.setdefault(user.name, _absolute(_user(user.user), path.parent))
        for context in read.contexts or ():
            self.contexts.setdefault(context.name, context.context or Context())
        self.current = self.current or read.current_context or ""

    def names(self, chosen: str) -> tuple[ContextName, ...]:
        """All contexts, in the order of the files; `chosen` is the one in use."""
        return tuple(
            ContextName(name, each.cluster, each.namespace or "", current=name == chosen)
            for name, each in self.contexts.items()
        )

    def target(self, name: str = "") -> Target:
        """The context of that name, or the current one."""
        chosen = name or self.current
        known = f"It has: {', '.join(self.contexts)}." if self.contexts else "It has no contexts."
        if not chosen:
            raise BadKubeconfig(f"The kubeconfig {self.source} names no current context.", f"Give --context. {known}")
        context = self.contexts.get(chosen)
        if context is None:
            raise BadKubeconfig(f'The kubeconfig {self.source} has no context "{chosen}".', known)
        cluster = self.clusters.get(context.cluster)
        if cluster is None or not cluster.server:
            missing = "has no server" if cluster else "is not in it"
            raise BadKubeconfig(
                f'The context "{chosen}" of {self.source} names the cluster "{context.cluster}", which {missing}.',
                "Choose another context, or write the kubeconfig again.",
            )
        try:
            named = "@" in urlsplit(cluster.server).netloc
        except ValueError:
            raise BadKubeconfig(
                f'The server of context "{chosen}" of {self.source} is no address.', "Write it as https://HOST:PORT."
            ) from None
        if named:
            raise BadKubeconfig(
                f'The server of context "{chosen}" of {self.source} has a user or a password in its address.',
                "Write them as username and password of a user of the kubeconfig.",
            )
        user = self.users.get(context.user or "")
        if user is None and context.user:
            raise BadKubeconfig(
                f'The context "{chosen}" of {self.source} names the user "{context.user}", which is not in it.',
                "Choose another context, or write the kubeconfig again.",
            )
        return Target(chosen, context.user or "", context.namespace or "default", cluster, user or User())


def _cluster(wire: _ClusterWire | None, folder: Path) -> Cluster:
    written = msgspec.structs.asdict(wire) if wire else {}
    practice = any(each.get("name") == PRACTICE for each in written.pop("extensions", None) or ())
    return Cluster(**written, practice_folder=folder if practice else None)


def _user(wire: _UserWire | None) -> User:
    return User(**msgspec.structs.asdict(wire)) if wire else User()


def _absolute(entry: Any, folder: Path) -> Any:
    """The same entry with its file names made absolute."""
    for name in ("certificate_authority", "client_certificate", "client_key", "token_file"):
        written = getattr(entry, name, None)
        if written:
            setattr(entry, name, str(folder / Path(written).expanduser()))
    return entry


def _read(path: Path) -> _File:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadKubeconfig(f"The kubeconfig {path} cannot be read: {error.strerror}.", _GET_ONE) from error
    except UnicodeDecodeError as error:
        raise BadKubeconfig(f"The kubeconfig {path} is no text.", _GET_ONE) from error
    try:
        data = load_yaml(text)
        # A broken file may hold secrets, so only the place and the kind of the mistake are repeated, never its text.
        return msgspec.convert(data if data is not None else {}, _File, strict=False)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadKubeconfig(
            f"The kubeconfig {path} is no valid YAML: {place}{error.problem or 'syntax error'}.", _GET_ONE
        ) from None
    except yaml.YAMLError:
        raise BadKubeconfig(f"The kubeconfig {path} is no valid YAML.", _GET_ONE) from None
    except msgspec.ValidationError as error:
        raise BadKubeconfig(f"The kubeconfig {path} is not written as one: {error}.", _GET_ONE) from None


def _in_cluster(folder: Path) -> Kubeconfig:
    """The service account of the pod this runs in."""
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


def load(path: Path | None = None, *, service_account: Path = SERVICE_ACCOUNT) -> Kubeconfig:
    """That file; without one, those of KUBECONFIG, else ~/.kube/config, else the pod's service account.

    Blocking: call it in a thread. Raises BadKubeconfig.
    """
    listed = [Path(each).expanduser() for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    home = Path.home() / ".kube" / "config"
    paths = [path.expanduser()] if path else [each for each in listed if each.exists()] or ([] if listed else [home])
    if path and not paths[0].exists():
        raise BadKubeconfig(f"The kubeconfig {paths[0]} does not exist.", _GET_ONE)
    if not path and not any(each.exists() for each in paths):
        if "KUBERNETES_SERVICE_HOST" in os.environ and (service_account / "token").exists():
            return _in_cluster(service_account)
        named = ", ".join(map(str, listed))
        why = f"KUBECONFIG names {named}, which does not exist" if listed else f"{home} does not exist"
        raise BadKubeconfig(f"No kubeconfig was found: {why}.", _GET_ONE)
    found = Kubeconfig()
    found.source = ", ".join(map(str, paths))
    for each in paths:
        found.merge(each)
    return found
