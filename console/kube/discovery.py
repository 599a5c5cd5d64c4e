"""One connected context: which kinds the server offers, in which version, and the changes of each.

Only the list of groups and the groups of JobSet and Kueue are asked for. Both come from the API server itself, so an
aggregated API whose server is down neither slows this nor breaks it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import msgspec

from console.errors import NotAllowed, NotFound, Unreadable
from console.kube.client import Client
from console.kube.kinds import KINDS
from console.kube.kubeconfig import Kubeconfig, load
from console.kube.login import Login
from console.kube.objects.meta import UNREADABLE, Wire
from console.kube.watch import USUAL, Backoff, Change, Served, watch_kind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from console.kube.kinds import Kind
    from console.kube.target import Target


_T = TypeVar("_T")


class _Version(Wire):
    version: str = ""


class _Group(Wire):
    name: str = ""
    versions: list[_Version] | None = None


class _Groups(Wire):
    groups: list[_Group] | None = None


class _Resource(Wire):
    name: str = ""


class _Resources(Wire):
    resources: list[_Resource] | None = None


class _Build(Wire):
    git_version: str = ""


_BUILT_IN = frozenset({"", "batch"})


class ApiDiscovery:
    """The API groups and versions that a server offers; asked once, and again after `clear_cache`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asking = asyncio.Lock()
        self._groups: dict[str, tuple[str, ...]] | None = None
        self._resources: dict[str, frozenset[str]] = {}

    def clear_cache(self) -> None:
        """Ask the server again the next time, since an operator may have been installed or removed."""
        self._groups = None
        self._resources.clear()

    async def version(self, kind: Kind) -> str:
        """The best version of that kind that the server offers; empty if it offers none."""
        if kind.group in _BUILT_IN:
            return kind.versions[0]
        async with self._asking:
            if self._groups is None:
                self._groups = await self._list_groups()
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
        return _decode(body, _Build).git_version

    async def _list_groups(self) -> dict[str, tuple[str, ...]]:
        body = await self._client.request("GET", "/apis", doing="list the APIs of the server")
        return {
            group.name: tuple(each.version for each in group.versions or ())
            for group in _decode(body, _Groups).groups or ()
        }

    async def _plurals(self, group_version: str) -> frozenset[str]:
        if group_version not in self._resources:
            try:
                body = await self._client.request(
                    "GET", f"/apis/{group_version}", doing=f"list the resources of {group_version}"
                )
                names = frozenset(each.name for each in _decode(body, _Resources).resources or ())
            except (NotFound, NotAllowed):
                names = frozenset()
            self._resources[group_version] = names
        return self._resources[group_version]


def _decode(body: bytes, type_: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=type_)
    except UNREADABLE as error:
        raise Unreadable(f"The server's answer is not that of a Kubernetes API: {error}.") from error


__all__ = ["Connection", "Kubeconfig", "Served", "load"]


class Connection:
    """A client and the API discovery for one context; it sends nothing until it is used."""

    def __init__(self, target: Target, backoff: Backoff = USUAL) -> None:
        self.target = target
        self.client = Client(Login(target))
        self.catalogue = ApiDiscovery(self.client)
        self._backoff = backoff

    def feed(self, plural: str, namespace: str) -> AsyncGenerator[Change | Served, None]:
        kind = next(each for each in KINDS if each.plural == plural)
        return watch_kind(self.client, self.catalogue, kind, namespace, self._backoff)

    async def close(self) -> None:
        await self.client.close()


def read_kubeconfig(path: Path | None) -> Kubeconfig:
    """The merged kubeconfig; blocking. Raises BadKubeconfig."""
    return load(path)
