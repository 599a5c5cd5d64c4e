"""Stopping jobs: what would go and what would stay, the doing, and what is left of releases that are gone."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from console.errors import ConsoleError, NotFound
from console.models.access import StopReport
from console.models.release import Leftover, StopPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from console.launch import Launcher
    from console.models.job import JobSet
    from console.watched import WatchedCluster


class Stopping:
    """What can be stopped on one cluster, and removed after it."""

    def __init__(self, cluster: WatchedCluster, launcher: Callable[[], Launcher]) -> None:
        self._cluster, self._launcher = cluster, launcher

    async def plan(self, namespace: str, name: str) -> StopPlan:
        """What stopping a job would remove and leave, from Helm's record of its release; NotFound if there is none.

        Raises as `stop` does where the release names objects of others: nobody is asked about those.
        """
        from console.cluster import actions
        from console.cluster.ours import data_of

        jobset, release = await self._found(namespace, name)
        if not release:
            connection = self._cluster.connected
            text = await actions.manifest(connection.client, connection.catalogue, "JobSet", namespace, name)
            return StopPlan(namespace, name, "", (f"JobSet {name}",), data_of((text,)), *self._held(jobset))
        removal = await self._launcher().removal(namespace, release)
        mine = tuple(f"{each} " for each in removal.stays)
        data = tuple(each for each in data_of(removal.manifests) if not each.startswith(mine))
        return StopPlan(namespace, name, release, removal.goes, (*removal.stays, *data), *self._held(jobset))

    async def stop(self, namespace: str, name: str, only: Collection[str] | None = None) -> StopReport:
        """Remove the release that made a job, or the JobSet alone if none of ours did; NotFound if there is neither.

        `only` is what was named when somebody was asked: Conflict if by now more would go.
        """
        from console.cluster import actions

        connection = self._cluster.changing(f"stop {name}")
        jobset, release = await self._found(namespace, name)
        if release:
            gone = await self._launcher().stop(namespace, release, only)
            return StopReport(namespace, name, release, gone)
        assert jobset is not None  # _found
        await actions.delete_jobset(connection.client, connection.catalogue, namespace, name)
        return StopReport(namespace, name, deleted=(f"JobSet {name}",))

    async def _found(self, namespace: str, name: str) -> tuple[JobSet | None, str]:
        """The JobSet, and the release of ours to which it or its name belongs; a job may be gone before its release."""
        from console.cluster import actions

        connection = self._cluster.connected
        jobset: JobSet | None = None
        missing: NotFound | None = None
        try:
            jobset = await actions.read_jobset(connection.client, connection.catalogue, namespace, name)
        except NotFound as error:
            missing = error
        wanted = jobset.release if jobset else name
        if wanted and any(each.name == wanted for each in await self._launcher().releases(namespace)):
            return jobset, wanted
        if missing is not None:
            raise missing
        return jobset, ""

    def _held(self, jobset: JobSet | None) -> tuple[int, int]:
        """Pods of a JobSet, and the GPUs they hold."""
        if jobset is None:
            return 0, 0
        pods = self._cluster.fleet.pods_by_jobset.get(jobset.uid, ())
        return len(pods), 0 if jobset.finished else sum(pod.holds_gpus for pod in pods)

    # what is left of others

    async def leftovers(self, namespace: str = "") -> tuple[tuple[Leftover, ...], tuple[str, ...]]:
        """What releases and people left behind (empty: in all namespaces), and the kinds that may not be listed."""
        from console.cluster.hand_made import hand_made
        from console.cluster.ours import labelled

        found, hidden = await labelled(self._cluster.connected.client, namespace)
        releases = {(each.namespace, each.name): each for each in await self._launcher().releases(namespace)}
        left = [
            Leftover(
                each.kind,
                each.namespace,
                each.name,
                each.release,
                f"Its release {each.release} is gone" + (", it was kept for its data." if each.kept else "."),
                each.kept,
            )
            for each in found
            if each.release and (each.release_namespace, each.release) not in releases
        ]
        running = {(each.release_namespace, each.release) for each in found if each.kind == "JobSet"}
        if "JobSet" not in hidden:
            for key, release in releases.items():
                if key not in running:
                    why, goes = await self._of_release(*key, release.status)
                    left.append(Leftover("Release", *key, key[1], why, goes=goes))
        made, unseen = await hand_made(self._cluster.connected.client, namespace)
        return (*left, *made), tuple(dict.fromkeys((*hidden, *unseen)))

    async def _of_release(self, namespace: str, name: str, status: str) -> tuple[str, tuple[str, ...] | None]:
        """What is left of a release whose job is gone, object by object: in words, and as a list where it is known."""
        try:
            removal = await self._launcher().removal(namespace, name)
        except ConsoleError as error:
            return f"Its job is gone. {error.message}", None
        goes = ", ".join(removal.goes) or "nothing else"
        return f"Its job is gone; Helm calls it {status}. With it goes: {goes}.", removal.goes

    async def remove(self, leftover: Leftover) -> None:
        """Ask a leftover to go."""
        from console.cluster import ours

        client = self._cluster.changing(f"remove {leftover.kind} {leftover.name}").client
        if leftover.kind == "Release":
            with suppress(NotFound):  # somebody else was faster
                await self._launcher().stop(leftover.namespace, leftover.name, leftover.goes)
            return
        await ours.remove(client, leftover.kind, leftover.namespace, leftover.name)
