"""The Google login, the cluster's project and location, and connecting to GKE; works without a cluster too."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from console.errors import BadInput, ConsoleError, NotAllowed, NotFound, Unreachable, Unreadable, read_only_error
from console.google.api import import_google
from console.google.clusters import ClusterList, ClusterPlace, GkeCluster, Project

if TYPE_CHECKING:
    from console.google.api.calls import GoogleSession
    from console.google.api.container import Gke
    from console.kube.kubeconfig import Kubeconfig
    from console.kube.watched_cluster import WatchedCluster


AnswerT = TypeVar("AnswerT")
ClientT = TypeVar("ClientT")
PRACTICE_PATH = "/practice/google"
MAX_CONCURRENT_PROJECTS = 8  # projects that are asked at the same time
_GKE_CONTEXT_NAME = re.compile(r"^gke_([^_]+)_([^_]+)_(.+)$")
_GCE_PROVIDER_ID = re.compile(r"^gce://([^/]+)/([^/]+)/")


class GoogleAccount:
    """One login's access to Google Cloud, for the connected cluster or without any cluster."""

    def __init__(self, cluster: WatchedCluster | None = None, *, read_only: bool = False) -> None:
        self._cluster = cluster
        self._read_only = read_only
        self.project = ""  # the project that was named; counts while no cluster is connected
        self.region = os.environ.get("GOOGLE_CLOUD_REGION") or os.environ.get("CLOUDSDK_COMPUTE_REGION", "")
        """The region for calls without a connected cluster, at first the environment's; empty if unset."""
        self._sessions: dict[str, GoogleSession] = {}
        self._places: dict[str, ClusterPlace] = {}
        self._open_lock = asyncio.Lock()

    async def close(self) -> None:
        reaches, self._sessions = list(self._sessions.values()), {}
        for reach in reaches:
            await reach.close()

    @property
    def practice(self) -> bool:
        return self.practice_folder is not None

    @property
    def practice_folder(self) -> Path | None:
        """The practice cluster's folder if its imitation of Google is used; None for the real Google."""
        return self._cluster.current_connection.target.cluster.practice_folder if self._cluster else None

    async def open_session(self) -> GoogleSession:
        """A session with the login, or with the practice cluster's services. Raises NotLoggedIn at once."""
        folder = str(self.practice_folder or "")
        async with self._open_lock:
            if folder not in self._sessions:
                kind = (await import_google("console.google.api.calls")).GoogleSession
                made = kind.from_practice(await self._read_practice_endpoints()) if folder else await kind.from_login()
                self._sessions[folder] = made
            reach = self._sessions[folder]
        await reach.token()
        return reach

    async def _read_practice_endpoints(self) -> dict[str, str]:
        assert self._cluster is not None
        client = self._cluster.current_connection.client
        answer: dict[str, str] = json.loads(await client.request("GET", PRACTICE_PATH, action="reach practice Google"))
        self._places[str(self.practice_folder)] = ClusterPlace(answer["project"], answer["location"], answer["cluster"])
        return answer

    async def call(self, module: str, send: Callable[[Any, GoogleSession], Awaitable[AnswerT]]) -> AnswerT:
        """Import a module of `console.google.api` and return the result of `send(module, session)`."""
        return await send(await import_google(f"console.google.api.{module}"), await self.open_session())

    async def client(self, module: str, build: Callable[[Any, GoogleSession], ClientT]) -> ClientT:
        """The client that `build` builds from a module of `console.google.api` and the login's session."""
        return build(await import_google(f"console.google.api.{module}"), await self.open_session())

    async def connected_cluster(self) -> tuple[Gke, GkeCluster]:
        place, gke = await self.cluster_place(), await self.gke()
        return gke, await gke.read_cluster(place.project, place.location, place.cluster)

    async def gke(self) -> Gke:
        return await self.client("container", lambda api, login: api.Gke(login))

    async def cluster_place(self) -> ClusterPlace:
        """Project and location of the connected cluster. Raises NotFound without one, or if it is not on GKE."""
        if self._cluster is None:
            raise NotFound("No cluster is connected.", "Connect to one: `a4 clusters` lists them.")
        context = self._cluster.context
        if self.practice:
            await self.open_session()
            return self._places[str(self.practice_folder)]
        if context not in self._places:
            self._places[context] = parse_context_name(context) or await self._find_place_by_node(context)
        return self._places[context]

    async def _find_place_by_node(self, context: str) -> ClusterPlace:
        """The place of a renamed context's cluster, by its nodes and address. Raises NotFound or Unreadable."""
        assert self._cluster is not None
        connection = self._cluster.current_connection
        answer = await connection.client.request(
            "GET", "/api/v1/nodes", params={"limit": "1"}, action="find the location of the cluster"
        )
        try:
            items: Sequence[dict[str, Any]] = json.loads(answer).get("items") or ()
            named = _GCE_PROVIDER_ID.match(items[0].get("spec", {}).get("providerID", "")) if items else None
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
            raise Unreadable("The API server's list of nodes cannot be read.") from error
        if named is None:
            hint = "Node pools, operations and Google checks need a GKE cluster."
            raise NotFound(f"The cluster of context {context} is not a GKE cluster, judging by its nodes.", hint)
        server = connection.target.cluster.server.removeprefix("https://").rstrip("/")
        authority = connection.target.cluster.certificate_authority_data
        for each in (await (await self.gke()).list_clusters(named[1])).clusters:
            if server in (each.endpoint, each.dns_endpoint) or (authority and authority == each.authority):
                return ClusterPlace(each.project, each.location, each.name)
        words = f"Project {named[1]} has no cluster with the address {server}."
        raise NotFound(words, "Name the context gke_PROJECT_LOCATION_NAME.")

    async def projects(self) -> AsyncGenerator[Project, None]:
        found: AsyncGenerator[Project, None] = await self.client(
            "projects", lambda api, login: api.search_projects(login)
        )
        async with aclosing(found):
            async for each in found:
                yield each

    async def list_clusters(self, projects: Sequence[str] = ()) -> ClusterList:
        """All clusters of these projects, else of all visible ones; unreadable projects are listed in the result."""
        gke, known = await self.gke(), ClusterList(())
        pending: set[asyncio.Task[ClusterList]] = set()
        try:
            async with aclosing(self._iter_project_ids(projects)) as names:
                name: str | None = ""
                while name is not None or pending:
                    if name is not None and len(pending) < MAX_CONCURRENT_PROJECTS:
                        if name := await anext(names, None):
                            pending.add(asyncio.create_task(_read_clusters(gke, name)))
                    else:
                        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                        for task in done:
                            known = known.merge(task.result())
            return known
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _iter_project_ids(self, projects: Sequence[str]) -> AsyncGenerator[str, None]:
        for each in projects:
            yield each
        if projects:
            return
        try:
            async with aclosing(self.projects()) as found:
                async for project in found:
                    yield project.id
        except NotAllowed as error:
            usual = await self.default_project()
            if not usual:
                raise BadInput(error.message, "Name the projects: --project ID.") from error
            yield usual

    async def default_project(self) -> str:
        """The project of the connected cluster, else of the configuration, the login or the environment."""
        try:
            return (await self.cluster_place()).project
        except NotFound:
            return self.project or (await self.open_session()).project or os.environ.get("GOOGLE_CLOUD_PROJECT", "")

    async def find_cluster(self, name: str, projects: Sequence[str] = ()) -> GkeCluster:
        """The cluster with that name, context or PROJECT/LOCATION/NAME; NotFound, or BadInput if several match."""
        place = parse_context_name(name) or (ClusterPlace(*name.split("/")) if name.count("/") == 2 else None)
        if place is not None:
            return await (await self.gke()).read_cluster(place.project, place.location, place.cluster)
        return (await self.list_clusters(projects)).find_by_name(name)

    async def fetch_server_version(self, cluster: GkeCluster, endpoint: str = "") -> str:
        """The Kubernetes version of a cluster, from its "dns" or "ip" endpoint, else from the first that answers."""
        from console.kube.client import Connection
        from console.kube.kubeconfig import Kubeconfig

        token = (await self.open_session()).token
        chosen = await find_reachable_endpoint(cluster, endpoint)
        kubeconfig = Kubeconfig()
        add_to_kubeconfig(
            kubeconfig, cluster, cluster_endpoints(cluster)[chosen], token, practice_folder=self.practice_folder
        )
        connection = Connection(kubeconfig.target(cluster.context))
        try:
            return await connection.discovery.server_version()
        except Unreachable as error:  # a proxy on the way may have taken the connection
            raise (_private_endpoint_error(cluster) if cluster.private and chosen == "ip" else error) from error
        finally:
            await connection.close()

    @staticmethod
    async def write_kubeconfig(cluster: GkeCluster, path: Path | None = None, endpoint: str = "") -> tuple[Path, bool]:
        """Write the cluster, without a token, to a kubeconfig: (path, whether it replaced an entry)."""
        from console.kube import kubeconfig

        require_cluster_ready(cluster)
        known = cluster_endpoints(cluster)
        if endpoint and endpoint not in known:
            await find_reachable_endpoint(cluster, endpoint)  # says why not
        chosen = endpoint or next(iter(known))
        command, arguments = await asyncio.to_thread(_credential_plugin)
        authority = cluster.authority if chosen == "ip" else ""
        made = kubeconfig.KubeconfigEntry(cluster.context, f"https://{known[chosen]}", authority, command, arguments)
        target = path or kubeconfig.default_path()
        return target, await asyncio.to_thread(kubeconfig.write_entry, target, made)

    async def enable_service(self, project: str, service: str) -> None:
        """Enable a Google API in a project and wait until it is enabled."""
        self.require_writable(f"enable {service}")
        await self.call("projects", lambda api, login: api.enable_service(login, project, service))

    def require_writable(self, action: str) -> None:
        """Raise NotAllowed, naming `action`, in read-only mode."""
        if self._cluster is not None:
            self._cluster.connection_for_change(action)
        elif self._read_only:
            raise read_only_error(action)


def parse_context_name(context: str) -> ClusterPlace | None:
    """Project, location and cluster in gcloud's context name gke_PROJECT_LOCATION_NAME; None for other names."""
    named = _GKE_CONTEXT_NAME.match(context)
    return ClusterPlace(*named.groups()) if named else None


async def _read_clusters(gke: Gke, project: str) -> ClusterList:
    try:
        return await gke.list_clusters(project)
    except ConsoleError as error:
        return ClusterList((), ((project, error),))


async def kubeconfig_from_google(context: str) -> Kubeconfig:
    """An in-memory kubeconfig with the cluster of that context (gke_PROJECT_LOCATION_NAME), read from Google."""
    from console.kube.kubeconfig import Kubeconfig

    cloud = GoogleAccount()
    try:
        found = await cloud.find_cluster(context)
        token = (await cloud.open_session()).token
        made = Kubeconfig()
        made.source, made.current = "of Google's list of clusters", found.context
        add_to_kubeconfig(made, found, cluster_endpoints(found)[await find_reachable_endpoint(found)], token)
        return made
    finally:
        await cloud.close()


CONNECT_TIMEOUT = 4.0  # seconds in which an address has to take a connection
_GKE_LOGIN_PLUGIN = "gke-gcloud-auth-plugin"
_RUNNING_STATES = frozenset({"RUNNING", "RECONCILING", "DEGRADED"})


def cluster_endpoints(cluster: GkeCluster) -> dict[str, str]:
    """The cluster's endpoints by kind: "dns" through Google's front end, "ip" directly to the control plane."""
    found = {"dns": cluster.dns_endpoint, "ip": cluster.endpoint}
    return {way: address for way, address in found.items() if address}


def require_cluster_ready(cluster: GkeCluster) -> None:
    """Raise BadInput, with the reason, if the cluster is in a state that allows no connection."""
    if cluster.status not in _RUNNING_STATES:
        why = f": {cluster.message.rstrip('.')}" if cluster.message else ""
        words = f"Cluster {cluster.name} is in state {cluster.status.lower()}{why}."
        hints = {"PROVISIONING": "It is being made: try again in a few minutes.", "STOPPING": "It is being deleted."}
        raise BadInput(words, hints.get(cluster.status, "Its control plane does not run: repair it or make another."))
    if not cluster_endpoints(cluster):
        raise BadInput(f"Cluster {cluster.name} has no address yet.", "Try again in a few minutes.")


async def find_reachable_endpoint(cluster: GkeCluster, endpoint: str = "") -> str:
    """The endpoint that answers ("dns" before "ip"), or `endpoint`. Raises Unreachable, BadInput if it is disabled."""
    require_cluster_ready(cluster)
    known = cluster_endpoints(cluster)
    if endpoint and endpoint not in known:
        missing = {"dns": "its DNS endpoint is disabled", "ip": "it has no IP endpoint"}[endpoint]
        enable = f"gcloud container clusters update {cluster.name} --enable-dns-access --location {cluster.location}"
        words = f"Cluster {cluster.name} cannot be reached through that endpoint: {missing}."
        raise BadInput(words, f"Enable it: `{enable}`.")
    for each, address in known.items():
        if (not endpoint or each == endpoint) and await _is_reachable(address):
            return each
    if cluster.private and "dns" not in known:
        raise _private_endpoint_error(cluster)
    named = " and ".join(known[each] for each in known if not endpoint or each == endpoint)
    hint = "Check that this machine is in its authorized networks, and whether a proxy is in between."
    raise Unreachable(f"Cluster {cluster.name} does not answer at {named}.", hint)


def _private_endpoint_error(cluster: GkeCluster) -> Unreachable:
    return Unreachable(
        f"Cluster {cluster.name} is private: {cluster.endpoint} answers only inside its network.",
        "Connect from a machine in that network or over its VPN, or enable its DNS endpoint: "
        f"`gcloud container clusters update {cluster.name} --enable-dns-access --location {cluster.location} "
        f"--project {cluster.project}`.",
    )


async def _is_reachable(address: str) -> bool:
    parts = urlsplit(f"//{address}")
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def add_to_kubeconfig(
    kubeconfig: Kubeconfig,
    cluster: GkeCluster,
    address: str,
    token: Callable[[], Awaitable[tuple[str, float]]],
    *,
    practice_folder: Path | None = None,
) -> None:
    """Add a cluster to an in-memory kubeconfig; `token` returns a token and its expiry (epoch seconds)."""
    from console.kube.kubeconfig import Cluster, Context, User

    name = cluster.context
    authority = cluster.authority if address == cluster.endpoint or practice_folder else None
    kubeconfig.clusters[name] = Cluster(
        server=f"https://{address}", certificate_authority_data=authority or None, practice_folder=practice_folder
    )
    kubeconfig.users[name] = User(token_source=token)
    kubeconfig.contexts[name] = Context(name, name)


def _credential_plugin() -> tuple[str, tuple[str, ...]]:
    if found := shutil.which(_GKE_LOGIN_PLUGIN):
        return Path(found).name, ()
    beside = Path(sys.executable).with_name("a4")
    return shutil.which("a4") or str(beside), ("clusters", "token")
