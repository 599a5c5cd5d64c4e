"""One context of the kubeconfig, connected: the client, what the server offers, and the changes of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.cluster.client import Client
from console.cluster.discovery import Catalogue
from console.cluster.feed import Served, feed
from console.cluster.kubeconfig import Kubeconfig, load
from console.cluster.login import Login
from console.cluster.watch import USUAL, Backoff, Change
from console.parsers.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from console.cluster.target import Target

__all__ = ["Connection", "Kubeconfig", "Served", "load"]


class Connection:
    """A client for one context; nothing is sent before something is asked."""

    def __init__(self, target: Target, backoff: Backoff = USUAL) -> None:
        self.target = target
        self.client = Client(Login(target))
        self.catalogue = Catalogue(self.client)
        self._backoff = backoff

    def feed(self, plural: str, namespace: str) -> AsyncGenerator[Change | Served, None]:
        """Changes of one kind, for ever."""
        kind = next(each for each in KINDS if each.plural == plural)
        return feed(self.client, self.catalogue, kind, namespace, self._backoff)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()


def read_kubeconfig(path: Path | None) -> Kubeconfig:
    """The merged kubeconfig; blocking. Raises BadKubeconfig."""
    return load(path)
