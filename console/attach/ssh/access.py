"""Sets up SSH to ranks: `plan` says what would be done, so that the person can be asked; `set_up` does it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from console.attach.ssh import config, editors, identities, paths
from console.attach.ssh.config import SshHostEntry
from console.attach.ssh.connect import pin_kubeconfig, prepare, program
from console.attach.ssh.editors import Editor, SshHost, SshPlan, Step
from console.attach.ssh.identities import Identity, fingerprint
from console.attach.ssh.paths import SshPaths
from console.errors import BadInput, ConsoleError, NotAllowed
from console.kube.find_job import find_job
from console.kube.rank_address import LivePod, RankAddress
from console.kube.snapshot import WatchState

if TYPE_CHECKING:
    from console.attach.ssh.pod_facts import PodFacts, Probe
    from console.attach.tunnel.engine import PortForwarder
    from console.kube.objects.jobset import JobSet
    from console.kube.watched_cluster import WatchedCluster


class RankAccess:
    def __init__(
        self,
        watched: WatchedCluster,
        jobset: JobSet,
        rank: int,
        target: LivePod,
        facts: PodFacts,
        probed: Probe | None,
        named: Path | None,
    ) -> None:
        """Choose key (the file `named`, if given) and name, and describe the plan; blocking."""
        self._watched = watched
        self.target = target
        self._rank = rank
        self._job = jobset.name
        self._ranks = max(jobset.ranks, rank + 1)
        self.facts = facts
        self._probed = probed
        self._places = SshPaths.find()
        accepted = {self.facts.public_key, *(self._probed.authorized if self._probed else ())} - {""}
        found = [identities.named(named)] if named else identities.find(self._places)
        self._key = key = found[0] if named else identities.choose(found, accepted)
        entry = self._entry = self._named(key)
        self.plan = SshPlan(
            namespace=entry.namespace,
            job=entry.job,
            rank=self._rank,
            ranks=self._ranks,
            pod=self.target.pod,
            host=entry.host(self._rank),
            user=entry.user,
            folder=entry.folder,
            key=key.told if key else "a new ed25519 pair of a4's own",
            makes_key=key is None,
            adds_key=key is None or key.public not in accepted,
            config=str(self._places.user_config),
            adds_line=not config.present(self._places),
            line=config.line(self._places),
            other=f"a4-{entry.job}" if entry.suffix else "",
        )

    def _named(self, key: Identity | None) -> SshHostEntry:
        """The job's updated ssh entry, under its name or the first unused variation."""
        watched, namespace, job = self._watched, self.target.namespace, self._job
        kubeconfig, many = pin_kubeconfig(watched.settings)
        dotted = f".{paths.host(namespace)}"
        suffixes = ("", dotted, f"{dotted}.{paths.host(watched.context)}")
        for suffix in suffixes:
            name = f"a4-{job}{suffix}"
            known = config.load(self._places, name)
            mine = known is None or known.belongs_to(kubeconfig, watched.context, namespace, job)
            if mine or (known is not None and known.lost):
                break
        else:
            hint = "Run a4 ssh --undo, then try again."
            raise BadInput(f"All host names for {job} are used by jobs of other clusters.", hint)
        probed = self._probed
        kept = known if known is not None and mine else None
        return config.SshHostEntry(
            name=name,
            suffix=suffix,
            kubeconfig=kubeconfig,
            many=many,
            context=watched.context,
            namespace=namespace,
            job=job,
            jobset_uid=kept.jobset_uid if kept else "",
            ranks=self._ranks,
            program=program(),
            path=os.environ.get("PATH", "") if watched.current_connection.target.user.exec else "",
            user=(probed.user if probed else "") or "root",
            folder=(probed.folder if probed else "") or "/",
            identity=key.path if key else "",
            public_key=key.line if key else "",
            install=bool(kept and kept.install),
            share=bool(kept and kept.share),
            practice=watched.practice or watched.current_connection.target.cluster.practice_folder is not None,
            release_keys=kept.release_keys if kept else (),
            pods=kept.pods if kept else {},
        )

    def write(self, share: bool | None) -> tuple[SshHostEntry, list[str], list[str]]:
        """Write entry and Include line; returns the entry, what was done, and what failed. Blocking."""
        done, undone = [], []
        places = self._places
        with places.locked():
            key = self._key
            if key is None:
                key = identities.make_own(places)
                done.append(f"Created the key pair {places.own_key}.")
            identities.keep(places, key)
            entry = msgspec.structs.replace(
                self._entry,
                identity=key.path,
                public_key=key.line,
                install=self._entry.install or self.plan.adds_key,
                share=self._entry.share if share is None else share,
            )
            config.save(places, entry)
            try:
                if config.add(places):
                    done.append(f"{places.user_config} begins with `{config.line(places)}`; a4 ssh --undo removes it.")
            except BadInput as error:
                undone.append(str(error))
        if self.plan.adds_key:
            done.append(f"Added {key.told} to {self.target.pod}.")
        return entry, done, undone


def host_of(places: SshPaths, entry: SshHostEntry, rank: int, notes: tuple[str, ...] = ()) -> SshHost:
    """The SshHost of a rank with the ssh command to reach it; blocking."""
    usual = places.user_config if config.present(places) else places.whole_config
    command = ["ssh"] if usual == places.user_config and places.usual else ["ssh", "-F", str(usual)]
    own = entry.pods[str(rank)].keys if str(rank) in entry.pods else ()
    return SshHost(
        namespace=entry.namespace,
        job=entry.job,
        rank=rank,
        host=entry.host(rank),
        user=entry.user,
        folder=entry.folder,
        command=(*command, entry.host(rank)),
        fingerprints=tuple(fingerprint(key) for key in entry.release_keys or own),
        notes=notes,
    )


WAIT = 60.0  # seconds for which a pod that is being replaced is waited for
TIDY = 20.0  # seconds between two looks for hosts of jobs that have ended


class SshAccess:
    def __init__(self, watched: WatchedCluster) -> None:
        self._watched = watched

    @property
    def _reach(self) -> PortForwarder:
        from console.attach.tunnel.engine import PortForwarder

        return PortForwarder(self._watched.current_connection.client.login)

    async def plan(
        self, namespace: str, job: str, rank: int, *, identity: Path | None = None, wait: float = WAIT,
        say: Callable[[str], None] = lambda words: None,
    ) -> SshPlan:  # fmt: skip
        """What `set_up` would do (with the key `identity`); changes nothing. `say` hears waits. NotAllowed."""
        self._watched.connection_for_change(f"set up SSH to {job}")
        made = await self._inspect_rank(namespace, job, rank, identity, wait, say)
        return made.plan

    async def set_up(
        self, plan: SshPlan, *, identity: Path | None = None, share: bool | None = None, wait: float = WAIT
    ) -> SshHost:
        """Write the ssh config entry with the verified host key, and install the person's key if the plan says so."""
        self._watched.connection_for_change(f"set up SSH to {plan.job}")
        look = await self._inspect_rank(plan.namespace, plan.job, plan.rank, identity, wait)
        if look.plan.adds_key and not plan.adds_key:
            raise NotAllowed(f"Pod {look.target.pod} lacks the key, and adding it was not confirmed.", "Try again.")
        entry, added, note = await asyncio.to_thread(look.write, share)
        entry = await prepare(self._watched.current_connection.client, entry, look.target, facts=look.facts)
        return await asyncio.to_thread(host_of, SshPaths.find(), entry, plan.rank, (*added, *note))

    @staticmethod
    async def undo() -> tuple[str, ...]:
        """Remove everything that a4 wrote for ssh except its own key pair; returns a sentence per change."""
        return await asyncio.to_thread(config.undo)

    @staticmethod
    async def hosts() -> tuple[SshHost, ...]:
        def read() -> tuple[SshHost, ...]:
            places = SshPaths.find()
            return tuple(host_of(places, each, rank) for each in _entries() for rank in range(each.ranks))

        return await asyncio.to_thread(read)

    async def _inspect_rank(
        self, namespace: str, job: str, rank: int, identity: Path | None, wait: float,
        say: Callable[[str], None] = lambda words: None,
    ) -> RankAccess:  # fmt: skip
        from console.attach.ssh import pod_facts

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
        """Remove the ssh entries of a job of this cluster; returns the host names."""
        place = pin_kubeconfig(self._watched.settings)[0], self._watched.context, namespace, job
        return await self._remove(lambda entry: entry.belongs_to(*place))

    @staticmethod
    async def forget_named(job: str, *, context: str = "", namespace: str = "") -> tuple[str, ...]:
        """Remove the ssh entries of a job by its name; returns the host names. BadInput if several match."""

        def meant(entry: SshHostEntry) -> bool:
            return entry.job == job and context in {"", entry.context} and namespace in {"", entry.namespace}

        known = await asyncio.to_thread(_entries)
        there = sorted({f"{each.namespace} of {each.context}" for each in known if meant(each)})
        if len(there) > 1:
            hint = "Add --namespace, --context or both."
            raise BadInput(f"There is more than one {job}: in {', in '.join(there)}.", hint)
        return await SshAccess._remove(meant)

    async def tidy(self) -> tuple[str, ...]:
        """Remove the ssh entries of this cluster's ended or deleted jobs; returns the host names."""
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

    async def editors(self, host: SshHost, folder: str = "") -> tuple[Editor, ...]:
        """Editors that can open the pod, installed ones first; `folder` replaces the working folder."""
        return await asyncio.to_thread(editors.editors, host, folder)

    async def editor(self, name: str, host: SshHost, folder: str = "") -> Editor:
        """The editor of that name; BadInput if there is none."""
        return await asyncio.to_thread(editors.editor, name, host, folder)

    async def start(self, editor: Editor) -> None:
        await asyncio.to_thread(editors.start, editor)

    async def diagnose(self, namespace: str, job: str, rank: int | str) -> AsyncGenerator[Step, None]:
        """Yield each step of a connection, from token to editor; `rank` counts over the job, or REPLICATED/INDEX."""
        from console.attach.ssh.doctor import diagnose

        entry = await asyncio.to_thread(self._entry, namespace, job)
        client = self._watched.current_connection.client
        async for step in diagnose(client, self._reach, RankAddress.parse(namespace, job, str(rank)), entry):
            yield step

    def _entry(self, namespace: str, job: str) -> SshHostEntry | None:
        place = pin_kubeconfig(self._watched.settings)[0], self._watched.context, namespace, job
        return next((each for each in _entries() if each.belongs_to(*place)), None)


def _entries() -> list[SshHostEntry]:
    places = SshPaths.find()
    return config.load_all(places) if places.jobs.is_dir() else []
