"""From a cluster in Google's list to a session with it, without gcloud and without the person's kubeconfig."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from console.errors import BadInput, Unreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from console.cluster.connection import Kubeconfig
    from console.models.gke import GkeCluster

ANSWER = 4.0
"""Seconds in which an address has to take a connection."""
WAYS = ("dns", "ip")
_PLUGIN = "gke-gcloud-auth-plugin"
_UP = frozenset({"RUNNING", "RECONCILING", "DEGRADED"})


def ways(cluster: GkeCluster) -> dict[str, str]:
    """Ways in -> address: "dns" through Google's front end, "ip" to the control plane itself."""
    found = {"dns": cluster.dns_endpoint, "ip": cluster.endpoint}
    return {way: address for way, address in found.items() if address}


def check_ready(cluster: GkeCluster) -> None:
    """BadInput, with the reason, if nobody could be connected to this cluster."""
    if cluster.status not in _UP:
        why = f": {cluster.message.rstrip('.')}" if cluster.message else ""
        words = f"Cluster {cluster.name} is in state {cluster.status.lower()}{why}."
        hints = {"PROVISIONING": "It is being made: try again in a few minutes.", "STOPPING": "It is being deleted."}
        raise BadInput(words, hints.get(cluster.status, "Its control plane does not run: repair it or make another."))
    if not ways(cluster):
        raise BadInput(f"Cluster {cluster.name} has no address yet.", "Try again in a few minutes.")


async def reachable(cluster: GkeCluster, way: str = "") -> str:
    """The way in that answers ("dns" first), or the one asked for; Unreachable, with what to do, if none does."""
    check_ready(cluster)
    known = ways(cluster)
    if way and way not in known:
        missing = {"dns": "its DNS endpoint is switched off", "ip": "it has no IP endpoint"}[way]
        enable = f"gcloud container clusters update {cluster.name} --enable-dns-access --location {cluster.location}"
        raise BadInput(f"Cluster {cluster.name} cannot be reached that way: {missing}.", f"Switch it on: `{enable}`.")
    for each, address in known.items():
        if (not way or each == way) and await _answers(address):
            return each
    if cluster.private and "dns" not in known:
        raise _private(cluster)
    named = " and ".join(known[each] for each in known if not way or each == way)
    raise Unreachable(
        f"Cluster {cluster.name} does not answer at {named}.",
        "See whether this machine is among its authorized networks, and whether a proxy stands between.",
    )


def _private(cluster: GkeCluster) -> Unreachable:
    return Unreachable(
        f"Cluster {cluster.name} is private: {cluster.endpoint} answers only inside its network.",
        "Connect from a machine in that network or over its VPN, or switch its DNS endpoint on: "
        f"`gcloud container clusters update {cluster.name} --enable-dns-access --location {cluster.location} "
        f"--project {cluster.project}`.",
    )


async def _answers(address: str) -> bool:
    parts = urlsplit(f"//{address}")
    try:
        async with asyncio.timeout(ANSWER):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def greet(
    cluster: GkeCluster,
    token: Callable[[], Awaitable[tuple[str, float]]],
    way: str = "",
    *,
    practice: Path | None = None,
) -> tuple[str, str]:
    """Log in to the cluster once; gives the way in that answered, and the version of Kubernetes that it runs."""
    from console.cluster.connection import Connection
    from console.cluster.kubeconfig import Kubeconfig

    chosen = await reachable(cluster, way)
    address = ways(cluster)[chosen]
    kubeconfig = Kubeconfig()
    add(kubeconfig, cluster, address, token, practice=practice)
    connection = Connection(kubeconfig.target(cluster.context))
    try:
        return chosen, await connection.catalogue.build()
    except Unreachable as error:  # a proxy on the way may have taken the connection
        raise (_private(cluster) if cluster.private and chosen == "ip" else error) from error
    finally:
        await connection.close()


def add(
    kubeconfig: Kubeconfig,
    cluster: GkeCluster,
    address: str,
    token: Callable[[], Awaitable[tuple[str, float]]],
    *,
    practice: Path | None = None,
) -> None:
    """Put the cluster into the kubeconfig in memory, with a token that is asked for anew before it ends."""
    from console.cluster.kubeconfig import Context
    from console.cluster.target import Cluster, User

    name = cluster.context
    authority = cluster.authority if address == cluster.endpoint or practice else None
    kubeconfig.clusters[name] = Cluster(
        server=f"https://{address}", certificate_authority_data=authority or None, practice_folder=practice
    )
    kubeconfig.users[name] = User(source=token)
    kubeconfig.contexts[name] = Context(name, name)


def usual_kubeconfig() -> Path:
    """The file that kubectl would write to."""
    from console.cluster import entry

    return entry.usual_file()


async def write_kubeconfig(cluster: GkeCluster, path: Path | None = None, way: str = "") -> tuple[Path, bool]:
    """Put the cluster into a kubeconfig (the usual one); gives the file, and whether it had an entry of that name.

    Who uses it logs in with Google's plug-in where that is installed, else with `a4` itself: no token is written.
    """
    from console.cluster import entry

    check_ready(cluster)
    known = ways(cluster)
    if way and way not in known:
        await reachable(cluster, way)  # says why not
    chosen = way or next(iter(known))
    command, arguments = await asyncio.to_thread(_login_program)
    made = entry.Entry(
        cluster.context,
        f"https://{known[chosen]}",
        cluster.authority if chosen == "ip" else "",
        command,
        arguments,
    )
    target = path or entry.usual_file()
    return target, await asyncio.to_thread(entry.write, target, made)


def _login_program() -> tuple[str, tuple[str, ...]]:
    """The program that gives kubectl a token."""
    if found := shutil.which(_PLUGIN):
        return Path(found).name, ()
    beside = Path(sys.executable).with_name("a4")
    return shutil.which("a4") or str(beside), ("clusters", "token")
