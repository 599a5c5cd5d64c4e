"""One connection to a context: which kinds and API versions the server offers, and a watch of each kind.

Only the list of groups and the groups of JobSet and Kueue are asked for. Both come from the API server itself, so an
aggregated API whose server is down neither slows this nor breaks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from console.errors import NotAllowed, NotFound
from console.kube.client import Client
from console.kube.kinds import Kind, kind_named
from console.kube.login import Login
from console.kube.objects.meta import Wire
from console.kube.objects.on_demand import BuildWire, GroupWire, read_object
from console.kube.objects.pod import NamedWire
from console.kube.target import Target
from console.kube.watch import DEFAULT_BACKOFF, Backoff, Change, Served, watch_kind


class _Groups(Wire):
    groups: list[GroupWire] | None = None


class _Resources(Wire):
    resources: list[NamedWire] | None = None


_BUILT_IN = frozenset({"", "batch"})


class ApiDiscovery:
    """The API groups and versions that a server offers; requested once, and again after `clear_cache`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asking = asyncio.Lock()
        self._groups: dict[str, tuple[str, ...]] | None = None
        self._resources: dict[str, frozenset[str]] = {}

    def clear_cache(self) -> None:
        """Forget the API groups: an operator may have been installed or removed."""
        self._groups = None
        self._resources.clear()

    async def version(self, kind: Kind) -> str:
        """The best version of that kind that the server offers; empty if it offers none."""
        if kind.group in _BUILT_IN:
            return kind.versions[0]
        async with self._asking:
            if self._groups is None:
                body = await self._client.request("GET", "/apis", doing="list the APIs of the server")
                self._groups = {group.name or "": group.names for group in read_object(body, _Groups).groups or ()}
            served = self._groups.get(kind.group)
            if served is None:
                return ""
            for version in kind.versions:
                if version in served and kind.plural in await self._plurals(f"{kind.group}/{version}"):
                    return version
        return ""

    async def server_version(self) -> str:
        """The server's version, such as "v1.36.4-gke.1000000"."""
        body = await self._client.request("GET", "/version", doing="read the version of the server")
        return read_object(body, BuildWire).git_version or ""

    async def _plurals(self, group_version: str) -> frozenset[str]:
        if group_version not in self._resources:
            try:
                body = await self._client.request(
                    "GET", f"/apis/{group_version}", doing=f"list the resources of {group_version}"
                )
                names = frozenset(each.name or "" for each in read_object(body, _Resources).resources or ())
            except (NotFound, NotAllowed):
                names = frozenset()
            self._resources[group_version] = names
        return self._resources[group_version]


class Connection:
    """A client and the API discovery for one context; it sends nothing until it is used."""

    def __init__(self, target: Target, backoff: Backoff = DEFAULT_BACKOFF) -> None:
        self.target = target
        self.client = Client(Login(target))
        self.catalogue = ApiDiscovery(self.client)
        self._backoff = backoff

    def feed(self, plural: str, namespace: str) -> AsyncGenerator[Change | Served, None]:
        return watch_kind(self.client, self.catalogue, kind_named(plural), namespace, self._backoff)

    async def close(self) -> None:
        await self.client.close()
