"""Ways into the ranks of a job by SSH: hosts for ssh and editors, the person's key in the pod, the doctor.

A part of the session. `plan` says what would be done, so that the person can be asked; `set_up` does it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from console.attach.ssh import config, editors
from console.attach.ssh.connect import pin_kubeconfig, prepare
from console.attach.ssh.paths import SshPaths
from console.errors import BadInput, ConsoleError, NotAllowed
from console.kube.find_job import find_job
from console.kube.rank_address import RankAddress
from console.kube.snapshot import WatchState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from console.attach.ssh.config import SshHostEntry
    from console.attach.ssh.editors import Editor, SshHost, SshPlan, Step
    from console.attach.ssh.rank_access import RankAccess
    from console.attach.tunnel.engine import PortForwarder
    from console.kube.watched_cluster import WatchedCluster

WAIT = 60.0  # seconds for which a pod that is being replaced is waited for
TIDY = 20.0  # seconds between two looks for hosts of jobs that have ended


class SshAccess:
    def __init__(self, watched: WatchedCluster) -> None:
        self._watched = watched

    @property
    def _reach(self) -> PortForwarder:
        from console.attach.tunnel.engine import PortForwarder

        return PortForwarder(self._watched.current_connection.client.login)

    # hosts

    async def plan(
        self, namespace: str, job: str, rank: int, *, identity: Path | None = None, wait: float = WAIT,
        say: Callable[[str], None] = lambda words: None,
    ) -> SshPlan:  # fmt: skip
        """What would be set up for a rank; reads the pod and changes nothing. Raises what requests and exec raise.

        In read-only mode NotAllowed: nobody need be asked for what cannot be done.
        `identity` is a key file to use instead of the one that would be chosen; `say` hears what is waited for.
        """
        self._watched.connection_for_change(f"set up SSH to {job}")
        made = await self._look(namespace, job, rank, identity, wait, say)
        return made.plan

    async def set_up(
        self, plan: SshPlan, *, identity: Path | None = None, share: bool | None = None, wait: float = WAIT
    ) -> SshHost:
        """Make the host known to ssh, its key checked, and put the person's key into the pod if the plan says so."""
        self._watched.connection_for_change(f"set up SSH to {plan.job}")
        look = await self._look(plan.namespace, plan.job, plan.rank, identity, wait)
        if look.plan.adds_key and not plan.adds_key:
            raise NotAllowed(f"Pod {look.target.pod} lacks the key, and adding it was not confirmed.", "Try again.")
        from console.attach.ssh.rank_access import host_of

        entry, added, note = await asyncio.to_thread(look.write, share)
        entry = await prepare(self._watched.current_connection.client, entry, look.target, facts=look.facts)
        return await asyncio.to_thread(host_of, SshPaths.find(), entry, plan.rank, (*added, *note))

    @staticmethod
    async def undo() -> tuple[str, ...]:
        """Take away all that a4 wrote for ssh, but not its own key pair; what was done, a sentence each."""
        return await asyncio.to_thread(config.undo)

    @staticmethod
    async def hosts() -> tuple[SshHost, ...]:
        def read() -> tuple[SshHost, ...]:
            from console.attach.ssh.rank_access import host_of

            places = SshPaths.find()
            return tuple(host_of(places, each, rank) for each in _entries() for rank in range(each.ranks))

        return await asyncio.to_thread(read)

    async def _look(
        self, namespace: str, job: str, rank: int, identity: Path | None, wait: float,
        say: Callable[[str], None] = lambda words: None,
    ) -> RankAccess:  # fmt: skip
        from console.attach.ssh import pod_facts
        from console.attach.ssh.rank_access import RankAccess

        jobset = find_job(self._watched.fleet, namespace, job)
        client = self._watched.current_connection.client
        target = await self._reach.resolve(RankAddress(namespace, job, rank), limit=wait, say=say)
        facts = await pod_facts.read_pod(client, namespace, target.pod)
        try:
            probed = await pod_facts.probe(client, namespace, target.pod, container=target.container)
        except NotAllowed:
            if not facts.public_key:
                raise
            probed = None  # launched with a key: nothing needs to be put there
        return await asyncio.to_thread(RankAccess, self._watched, jobset, rank, target, facts, probed, identity)

    async def forget(self, namespace: str, job: str) -> tuple[str, ...]:
        """Remove the hosts of a job of this cluster; their names."""
        place = pin_kubeconfig(self._watched.settings)[0], self._watched.context, namespace, job
        return await self._remove(lambda entry: entry.belongs_to(*place))

    @staticmethod
    async def forget_named(job: str, *, context: str = "", namespace: str = "") -> tuple[str, ...]:
        """Remove the hosts of a job by its name alone; their names. BadInput where several jobs have that name."""

        def meant(entry: SshHostEntry) -> bool:
            return entry.job == job and context in {"", entry.context} and namespace in {"", entry.namespace}

        known = await asyncio.to_thread(_entries)
        there = sorted({f"{each.namespace} of {each.context}" for each in known if meant(each)})
        if len(there) > 1:
            raise BadInput(
                f"There is more than one {job}: in {', in '.join(there)}.", "Add --namespace, --context or both."
            )
        return await SshAccess._remove(meant)

    async def tidy(self) -> tuple[str, ...]:
        """Remove hosts of jobs of this cluster that have ended or are gone; their names."""
        where, fleet = pin_kubeconfig(self._watched.settings)[0], self._watched.fleet
        link = fleet.links.get("jobsets")
        known = link is not None and link.state is WatchState.LIVE
        context, sees = self._watched.context, self._watched.is_watched

        def over(entry: SshHostEntry) -> bool:
            if entry.practice and entry.lost:
                return True  # that practice cluster has ended
            if not known or (entry.kubeconfig, entry.context) != (where, context):
                return False
            job = fleet.jobsets.get((entry.namespace, entry.job))
            return sees("jobsets", entry.namespace) and (job is None or job.finished)

        return await self._remove(over)

    async def keep_tidy(self) -> None:
        while True:
            with suppress(ConsoleError, OSError):  # it is tried again, and whoever connects next is told
                await self.tidy()
            await asyncio.sleep(TIDY)

    @staticmethod
    async def _remove(over: Callable[[SshHostEntry], bool]) -> tuple[str, ...]:
        def remove() -> tuple[str, ...]:
            places = SshPaths.find()
            if not _entries():  # then no folder is made for the lock
                return ()
            with places.locked():
                gone = [each for each in config.load_all(places) if over(each)]
                config.remove_entry(places, [each.name for each in gone])
            return tuple(each.host(rank) for each in gone for rank in range(each.ranks))

        return await asyncio.to_thread(remove)

    # editors and the doctor

    async def editors(self, host: SshHost, folder: str = "") -> tuple[Editor, ...]:
        """Editors that work in the pod, those on this machine first; `folder` instead of where the work is."""
        return await asyncio.to_thread(editors.editors, host, folder)

    async def editor(self, name: str, host: SshHost, folder: str = "") -> Editor:
        """One of them; BadInput if there is none of that name."""
        return await asyncio.to_thread(editors.editor, name, host, folder)

    async def start(self, editor: Editor) -> None:
        await asyncio.to_thread(editors.start, editor)

    async def diagnose(self, namespace: str, job: str, rank: int | str) -> AsyncGenerator[Step, None]:
        """Every step from the token to an editor in the pod, as it ends; changes nothing.

        `rank` counts over the whole job, or is REPLICATED/INDEX; raises BadInput.
        """
        from console.attach.ssh.doctor import diagnose

        entry = await asyncio.to_thread(self._entry, namespace, job)
        client = self._watched.current_connection.client
        async for step in diagnose(client, self._reach, RankAddress.parse(namespace, job, str(rank)), entry):
            yield step

    def _entry(self, namespace: str, job: str) -> SshHostEntry | None:
        place = pin_kubeconfig(self._watched.settings)[0], self._watched.context, namespace, job
        return next((each for each in _entries() if each.belongs_to(*place)), None)


def _entries() -> list[SshHostEntry]:
    """Those of all jobs; blocking."""
    places = SshPaths.find()
    return config.load_all(places) if places.jobs.is_dir() else []
