"""Google Cloud around the cluster: as whom it is asked, where the cluster lies, and which clusters there are.

Works without a cluster too, for whoever has nothing but Google credentials. Google's libraries are loaded, in a thread,
by the first question.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from console.errors import BadInput, ConsoleError, NotAllowed, NotFound, Unreadable, in_read_only_mode
from console.google import loaded
from console.models.gke import Clusters, Place

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from console.cluster.kubeconfig import Kubeconfig
    from console.gke import Gke
    from console.google.reach import Reach
    from console.models.gke import GkeCluster, Project
    from console.models.node_pools import PoolsPicture
    from console.watched import WatchedCluster

PRACTICE_PATH = "/practice/google"
AT_ONCE = 8
"""Projects that are asked at the same time."""
REDRAW = 0.25
"""Seconds between two pictures of a list that grows."""
_CONTEXT = re.compile(r"^gke_([^_]+)_([^_]+)_(.+)$")
_PROVIDER = re.compile(r"^gce://([^/]+)/([^/]+)/")


class Cloud:
    """Google Cloud as one login sees it, around the cluster one is connected to (`watched`) or, without one, alone."""

    def __init__(self, watched: WatchedCluster | None = None, *, read_only: bool = False) -> None:
        self._watched = watched
        self._read_only = read_only
        self.project = ""
        """The project that was named; counts while no cluster is connected."""
        self.region = os.environ.get("GOOGLE_CLOUD_REGION") or os.environ.get("CLOUDSDK_COMPUTE_REGION", "")
        """The same for the region; the environment may name one."""
        self._reaches: dict[str, Reach] = {}
        self._places: dict[str, Place] = {}
        self._opening = asyncio.Lock()
        self.pools_seen: dict[str, PoolsPicture] = {}
        """By context: what was last seen of the pools of its cluster."""

    async def close(self) -> None:
        """End all connections to Google."""
        reaches, self._reaches = list(self._reaches.values()), {}
        for reach in reaches:
            await reach.close()

    @property
    def practice(self) -> bool:
        """Whether it is practice Google."""
        return self.practice_folder is not None

    @property
    def practice_folder(self) -> Path | None:
        """Where the practice cluster beside this Google keeps its files; None: it is the real Google."""
        return self._watched.connected.target.cluster.practice_folder if self._watched else None

    async def reach(self) -> Reach:
        """The login and its clients: practice Google beside a practice cluster, else the real one; NotLoggedIn.

        A login that has ended is told of here: gRPC would take it for a service that is away, and try again for long.
        """
        folder = str(self.practice_folder or "")
        async with self._opening:
            if folder not in self._reaches:
                kind = (await loaded("console.google.reach")).Reach
                if folder:
                    self._reaches[folder] = kind.practice(await self._practice_answer())
                else:
                    self._reaches[folder] = await kind.real()
            reach = self._reaches[folder]
        await reach.token()
        return reach

    async def _practice_answer(self) -> dict[str, str]:
        assert self._watched is not None
        client = self._watched.connected.client
        answer: dict[str, str] = json.loads(await client.request("GET", PRACTICE_PATH, doing="reach practice Google"))
        self._places[str(self.practice_folder)] = Place(answer["project"], answer["location"], answer["cluster"])
        return answer

    async def gke(self) -> Gke:
        """The clusters' own service."""
        module = await loaded("console.gke")
        found: Gke = module.Gke(await self.reach())
        return found

    # where

    async def place(self) -> Place:
        """Where the connected cluster lies; NotFound if it is none of GKE's, or there is none."""
        if self._watched is None:
            raise NotFound("No cluster is connected.", "Connect to one: `a4 clusters` lists them.")
        context = self._watched.context
        if self.practice:
            await self.reach()
            return self._places[str(self.practice_folder)]
        if context not in self._places:
            self._places[context] = place_in(context) or await self._place_by_node(context)
        return self._places[context]

    async def _place_by_node(self, context: str) -> Place:
        """The place of a cluster whose context was renamed: its machines name the project, its address the rest."""
        assert self._watched is not None
        connection = self._watched.connected
        answer = await connection.client.request(
            "GET", "/api/v1/nodes", params={"limit": "1"}, doing="see where the cluster lies"
        )
        try:
            items: Sequence[dict[str, Any]] = json.loads(answer).get("items") or ()
            named = _PROVIDER.match(items[0].get("spec", {}).get("providerID", "")) if items else None
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
            raise Unreadable("The API server's list of nodes cannot be read.") from error
        if named is None:
            raise NotFound(
                f"The cluster of context {context} is none of GKE's, as far as its nodes tell.",
                "Google's pools, operations and checks are for clusters of GKE.",
            )
        server = connection.target.cluster.server.removeprefix("https://").rstrip("/")
        authority = connection.target.cluster.certificate_authority_data
        for each in (await (await self.gke()).clusters_of(named[1])).clusters:
            if server in (each.endpoint, each.dns_endpoint) or (authority and authority == each.authority):
                return Place(each.project, each.location, each.name)
        raise NotFound(
            f"Project {named[1]} has no cluster with the address {server}.",
            "Name the context gke_PROJECT_LOCATION_NAME.",
        )

    # what there is

    async def projects(self) -> AsyncGenerator[Project, None]:
        """Projects that the login may see, as they come."""
        module = await loaded("console.google.projects")
        async with aclosing(module.projects(await self.reach())) as found:
            async for each in found:
                yield each

    async def clusters(self, projects: Sequence[str] = ()) -> Clusters:
        """All clusters of these projects, else of all that can be seen; what could not be read is named."""
        latest = Clusters(())
        async with aclosing(self.growing(projects)) as pictures:
            async for picture in pictures:
                latest = picture
        return latest

    async def growing(self, projects: Sequence[str] = ()) -> AsyncGenerator[Clusters, None]:
        """The same while it is read: every quarter of a second what is known by then, at last all of it."""
        gke = await self.gke()
        pending: set[asyncio.Task[Clusters]] = set()
        known = Clusters(())
        shown = time.monotonic()
        try:
            async with aclosing(self._asked(projects)) as names:
                async for name in names:
                    pending.add(asyncio.create_task(_read(gke, name)))
                    if len(pending) >= AT_ONCE:
                        known, pending = await _some(known, pending)
                    if time.monotonic() > shown + REDRAW:
                        shown = time.monotonic()
                        yield known
            while pending:
                known, pending = await _some(known, pending)
                if pending and time.monotonic() > shown + REDRAW:
                    shown = time.monotonic()
                    yield known
            yield known
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _asked(self, projects: Sequence[str]) -> AsyncGenerator[str, None]:
        """Names of the projects to look into."""
        if projects:
            for each in projects:
                yield each
            return
        try:
            async with aclosing(self.projects()) as found:
                async for project in found:
                    yield project.id
        except NotAllowed as error:
            usual = await self.usual_project()
            if not usual:
                raise BadInput(error.message, "Name the projects: --project ID.") from error
            yield usual

    async def usual_project(self) -> str:
        """The project of the connected cluster, else the one that was named, the login's own, the environment's."""
        try:
            return (await self.place()).project
        except NotFound:
            return self.project or (await self.reach()).project or os.environ.get("GOOGLE_CLOUD_PROJECT", "")

    async def find(self, name: str, projects: Sequence[str] = ()) -> GkeCluster:
        """The cluster of that name, context, or PROJECT/LOCATION/NAME; NotFound, or BadInput if there are several."""
        place = place_in(name) or (Place(*name.split("/")) if name.count("/") == 2 else None)
        if place is not None:
            return await (await self.gke()).cluster(place.project, place.location, place.cluster)
        return (await self.clusters(projects)).named(name)

    # going there

    async def greet(self, cluster: GkeCluster, way: str = "") -> str:
        """Log in to a cluster once ("dns" or "ip", else what answers first); gives its version of Kubernetes."""
        from console import connecting

        token = (await self.reach()).token
        return (await connecting.greet(cluster, token, way, practice=self.practice_folder))[1]

    async def enter(self, cluster: GkeCluster, way: str = "") -> None:
        """Go there with the session that this belongs to; whatever fails leaves it where it is. No file is written."""
        from console import connecting

        assert self._watched is not None
        token, practice = (await self.reach()).token, self.practice_folder
        chosen, _ = await connecting.greet(cluster, token, way, practice=practice)
        address = connecting.ways(cluster)[chosen]
        connecting.add(self._watched.kubeconfig, cluster, address, token, practice=practice)
        await self._watched.switch(context=cluster.context)

    @staticmethod
    def usual_kubeconfig() -> Path:
        """The file that kubectl would write to."""
        from console import connecting

        return connecting.usual_kubeconfig()

    @staticmethod
    async def write_kubeconfig(cluster: GkeCluster, path: Path | None = None, way: str = "") -> tuple[Path, bool]:
        """Put the cluster into a kubeconfig (the usual one); gives the file, and whether it had such an entry."""
        from console import connecting

        return await connecting.write_kubeconfig(cluster, path, way)

    async def enable_service(self, project: str, service: str) -> None:
        """Enable a service of Google's in a project and wait until it is."""
        self.check_may(f"enable {service}")
        module = await loaded("console.google.services")
        await module.enable(await self.reach(), project, service)

    def check_may(self, what: str) -> None:
        """NotAllowed, naming `what`, in read-only mode."""
        if self._watched is not None:
            self._watched.changing(what)
        elif self._read_only:
            raise in_read_only_mode(what)


def place_in(context: str) -> Place | None:
    """The place that the name of a context tells, if it is one that gcloud made: gke_PROJECT_LOCATION_NAME."""
    named = _CONTEXT.match(context)
    return Place(*named.groups()) if named else None


async def _read(gke: Gke, project: str) -> Clusters:
    try:
        return await gke.clusters_of(project)
    except ConsoleError as error:
        return Clusters((), ((project, error),))


async def _some(known: Clusters, pending: set[asyncio.Task[Clusters]]) -> tuple[Clusters, set[asyncio.Task[Clusters]]]:
    """What is known once at least one more has answered, and those that have not."""
    done, waiting = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        known = known.joined(task.result())
    return known, waiting


async def from_google(context: str) -> Kubeconfig:
    """A kubeconfig in memory with the one cluster of that context, gke_PROJECT_LOCATION_NAME; asks Google for it."""
    from console import connecting
    from console.cluster.kubeconfig import Kubeconfig

    cloud = Cloud()
    try:
        found = await cloud.find(context)
        token = (await cloud.reach()).token
        made = Kubeconfig()
        made.source, made.current = "of Google's list of clusters", found.context
        connecting.add(made, found, connecting.ways(found)[await connecting.reachable(found)], token)
        return made
    finally:
        await cloud.close()
