"""Sets up SSH to ranks: `plan_setup` lists the changes, for the person to confirm; `set_up` makes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from console.attach.ssh import config_and_known_hosts, editors, identities, ssh_folder
from console.attach.ssh.config_and_known_hosts import SshHostEntry
from console.attach.ssh.editors import Editor, SetupStep, SshHost, SshPlan
from console.attach.ssh.identities import Identity, fingerprint
from console.attach.ssh.proxy_connection import a4_command, pin_kubeconfig, prepare_entry
from console.attach.ssh.ssh_folder import SshPaths
from console.errors import BadInput, ConsoleError, NotAllowed
from console.kube.find_job import find_job
from console.kube.pod_address import PodAddress
from console.kube.port_forward import LivePod
from console.kube.snapshot import WatchState

if TYPE_CHECKING:
    from console.attach.ssh.host_key_check import PodIdentity
    from console.attach.ssh.pod_keys import KeyProbe
    from console.attach.tunnel.local_forward import PortForwarder
    from console.kube.objects.jobset import JobSet
    from console.kube.watched_cluster import WatchedCluster


class RankAccess:
    def __init__(
        self,
        cluster: WatchedCluster,
        jobset: JobSet,
        rank: int,
        target: LivePod,
        identity: PodIdentity,
        key_probe: KeyProbe | None,
        named: Path | None,
    ) -> None:
        """Choose key (file `named`, if given) and host name; `key_probe` None: probing is not permitted. Blocking."""
        self._cluster = cluster
        self.target = target
        self._rank = rank
        self._job = jobset.name
        self._ranks = max(jobset.ranks, rank + 1)
        self.identity = identity
        self._key_probe = key_probe
        self._ssh_paths = SshPaths.locate()
        accepted = {self.identity.public_key, *(self._key_probe.authorized_keys if self._key_probe else ())} - {""}
        found = [identities.read_named_key(named)] if named else identities.find_identities(self._ssh_paths)
        self._key = key = found[0] if named else identities.choose_identity(found, accepted)
        entry = self._entry = self._host_entry(key)
        self.plan = SshPlan(
            namespace=entry.namespace,
            job=entry.job,
            rank=self._rank,
            ranks=self._ranks,
            pod=self.target.name,
            host=entry.host(self._rank),
            user=entry.user,
            key_text=key.description if key else "a new ed25519 pair of a4's own",
            makes_key=key is None,
            adds_key=key is None or key.public_key not in accepted,
            config_path=str(self._ssh_paths.user_config),
            adds_include=not config_and_known_hosts.is_included(self._ssh_paths),
            include_line=config_and_known_hosts.include_line(self._ssh_paths),
            other_job=f"a4-{entry.job}" if entry.suffix else "",
        )

    def _host_entry(self, key: Identity | None) -> SshHostEntry:
        """The job's ssh entry under the first free name; `key` None: not created yet. BadInput if no name is free."""
        watched, namespace, job = self._cluster, self.target.namespace, self._job
        kubeconfig, many = pin_kubeconfig(watched.settings)
        dotted = f".{ssh_folder.host_name(namespace)}"
        suffixes = ("", dotted, f"{dotted}.{ssh_folder.host_name(watched.context)}")
        for suffix in suffixes:
            name = f"a4-{job}{suffix}"
            known = config_and_known_hosts.load_entry(self._ssh_paths, name)
            mine = known is None or known.belongs_to(kubeconfig, watched.context, namespace, job)
            if mine or (known is not None and known.is_unreachable):
                break
        else:
            hint = "Run a4 ssh --undo, then try again."
            raise BadInput(f"All host names for {job} are used by jobs of other clusters.", hint)
        probed = self._key_probe
        kept = known if known is not None and mine else None
        return config_and_known_hosts.SshHostEntry(
            name=name,
            suffix=suffix,
            kubeconfig=kubeconfig,
            many=many,
            context=watched.context,
            namespace=namespace,
            job=job,
            jobset_uid=kept.jobset_uid if kept else "",
            ranks=self._ranks,
            program=a4_command(),
            path=os.environ.get("PATH", "") if watched.current_connection.target.user.exec else "",
            user=(probed.user if probed else "") or "root",
            folder=(probed.working_folder if probed else "") or "/",
            identity=key.path if key else "",
            public_key=key.public_line if key else "",
            install=bool(kept and kept.install),
            share=bool(kept and kept.share),
            practice=watched.practice or watched.current_connection.target.cluster.practice_folder is not None,
            release_keys=kept.release_keys if kept else (),
            pods=kept.pods if kept else {},
        )

    def write(self, share: bool | None) -> tuple[SshHostEntry, list[str], list[str]]:
        """Write ssh config entry and Include line: (entry, sentences on changes, sentences on failures). Blocking.

        `share`: whether connections are shared (ControlMaster); None keeps the entry's setting.
        """
        done, undone = [], []
        places = self._ssh_paths
        with places.lock():
            key = self._key
            if key is None:
                key = identities.create_own_key(places)
                done.append(f"Created the key pair {places.own_key}.")
            identities.save_public_key(places, key)
            entry = msgspec.structs.replace(
                self._entry,
                identity=key.path,
                public_key=key.public_line,
                install=self._entry.install or self.plan.adds_key,
                share=self._entry.share if share is None else share,
            )
            config_and_known_hosts.save_entry(places, entry)
            try:
                if config_and_known_hosts.add_include(places):
                    line = config_and_known_hosts.include_line(places)
                    done.append(f"{places.user_config} begins with `{line}`; a4 ssh --undo removes it.")
            except BadInput as error:
                undone.append(str(error))
        if self.plan.adds_key:
            done.append(f"Added {key.description} to {self.target.name}.")
        return entry, done, undone


def ssh_host(ssh_paths: SshPaths, entry: SshHostEntry, rank: int, notes: tuple[str, ...] = ()) -> SshHost:
    """The SshHost of a rank with the ssh command to reach it; blocking."""
    usual = ssh_paths.user_config if config_and_known_hosts.is_included(ssh_paths) else ssh_paths.whole_config
    command = ["ssh"] if usual == ssh_paths.user_config and ssh_paths.is_default else ["ssh", "-F", str(usual)]
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


POD_WAIT_SECONDS = 60.0  # seconds for which a pod that is being replaced is waited for
SECONDS_BETWEEN_CLEANUPS = 20.0  # seconds between two looks for hosts of jobs that have ended


class SshAccess:
    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster

    @property
    def _port_forwarder(self) -> PortForwarder:
        from console.attach.tunnel.local_forward import PortForwarder

        return PortForwarder(self._cluster.current_connection.client.login)

    async def plan_setup(
        self,
        namespace: str,
        job: str,
        rank: int,
        *,
        identity_file: Path | None = None,
        wait: float = POD_WAIT_SECONDS,
        report: Callable[[str], None] = lambda words: None,
        needs_server: bool = False,
    ) -> SshPlan:
        """Plan the setup of SSH, changing nothing, once the pod is up (within `wait` s); `needs_server`: sshd too."""
        self._cluster.connection_for_change(f"set up SSH to {job}")
        made = await self._inspect_rank(namespace, job, rank, identity_file, wait, report)
        if needs_server:
            from console.attach.ssh.doctor import require_server

            await require_server(self._port_forwarder, made.target)
        return made.plan

    async def set_up(
        self, plan: SshPlan, *, identity: Path | None = None, share: bool | None = None, wait: float = POD_WAIT_SECONDS
    ) -> SshHost:
        """Write the ssh entry with the verified host key, add the key as planned; NotAllowed if it was not planned."""
        self._cluster.connection_for_change(f"set up SSH to {plan.job}")
        look = await self._inspect_rank(plan.namespace, plan.job, plan.rank, identity, wait)
        if look.plan.adds_key and not plan.adds_key:
            raise NotAllowed(f"Pod {look.target.name} lacks the key, and adding it was not confirmed.", "Try again.")
        entry, added, note = await asyncio.to_thread(look.write, share)
        entry = await prepare_entry(self._cluster.current_connection.client, entry, look.target, identity=look.identity)
        return await asyncio.to_thread(ssh_host, SshPaths.locate(), entry, plan.rank, (*added, *note))

    @staticmethod
    async def remove_ssh_setup() -> tuple[str, ...]:
        """Remove everything that a4 wrote for ssh except its own key pair; returns a sentence per change."""
        return await asyncio.to_thread(config_and_known_hosts.remove_ssh_entries)

    @staticmethod
    async def list_hosts() -> tuple[SshHost, ...]:
        def read() -> tuple[SshHost, ...]:
            places = SshPaths.locate()
            return tuple(ssh_host(places, each, rank) for each in _load_entries() for rank in range(each.ranks))

        return await asyncio.to_thread(read)

    async def _inspect_rank(
        self,
        namespace: str,
        job: str,
        rank: int,
        identity_file: Path | None,
        wait: float,
        report: Callable[[str], None] = lambda words: None,
    ) -> RankAccess:
        from console.attach.ssh import pod_keys

        jobset = find_job(self._cluster.fleet, namespace, job)
        client = self._cluster.current_connection.client
        target = await self._port_forwarder.wait_for_pod(PodAddress(namespace, job, rank), limit=wait, report=report)
        facts = await pod_keys.read_pod_identity(client, namespace, target.name)
        try:
            probed = await pod_keys.probe_keys(client, namespace, target.name, container=target.container)
        except NotAllowed:
            if not facts.public_key:
                raise
            probed = None  # launched with a key: nothing needs to be put there
        return await asyncio.to_thread(RankAccess, self._cluster, jobset, rank, target, facts, probed, identity_file)

    async def remove_job(self, namespace: str, job: str) -> tuple[str, ...]:
        """Remove the ssh entries of a job of this cluster; returns the host names."""
        place = pin_kubeconfig(self._cluster.settings)[0], self._cluster.context, namespace, job
        return await self._remove_entries(lambda entry: entry.belongs_to(*place))

    @staticmethod
    async def remove_named_job(job: str, *, context: str = "", namespace: str = "") -> tuple[str, ...]:
        """Remove a job's ssh entries (empty: any context, namespace); returns host names. BadInput if ambiguous."""

        def is_named(entry: SshHostEntry) -> bool:
            return entry.job == job and context in {"", entry.context} and namespace in {"", entry.namespace}

        known = await asyncio.to_thread(_load_entries)
        there = sorted({f"{each.namespace} of {each.context}" for each in known if is_named(each)})
        if len(there) > 1:
            hint = "Add --namespace, --context or both."
            raise BadInput(f"There is more than one {job}: in {', in '.join(there)}.", hint)
        return await SshAccess._remove_entries(is_named)

    async def remove_ended(self) -> tuple[str, ...]:
        """Remove the ssh entries of this cluster's ended or deleted jobs; returns the host names."""
        where, fleet = pin_kubeconfig(self._cluster.settings)[0], self._cluster.fleet
        link = fleet.links.get("jobsets")
        known = link is not None and link.state is WatchState.LIVE
        context, sees = self._cluster.context, self._cluster.is_watched

        def is_ended(entry: SshHostEntry) -> bool:
            if entry.practice and entry.is_unreachable:
                return True  # that practice cluster has ended
            if not known or (entry.kubeconfig, entry.context) != (where, context):
                return False
            job = fleet.jobsets.get((entry.namespace, entry.job))
            return sees("jobsets", entry.namespace) and (job is None or job.finished)

        return await self._remove_entries(is_ended)

    async def remove_ended_periodically(self) -> None:
        while True:
            with suppress(ConsoleError, OSError):  # the next connection tries again, and fails with the reason
                await self.remove_ended()
            await asyncio.sleep(SECONDS_BETWEEN_CLEANUPS)

    @staticmethod
    async def _remove_entries(is_removed: Callable[[SshHostEntry], bool]) -> tuple[str, ...]:
        def remove() -> tuple[str, ...]:
            places = SshPaths.locate()
            if not _load_entries():  # then no folder is made for the lock
                return ()
            with places.lock():
                gone = [each for each in config_and_known_hosts.load_entries(places) if is_removed(each)]
                config_and_known_hosts.remove_entry(places, [each.name for each in gone])
            return tuple(each.host(rank) for each in gone for rank in range(each.ranks))

        return await asyncio.to_thread(remove)

    async def list_editors(self, host: SshHost, folder: str = "") -> tuple[Editor, ...]:
        """Editors that can open the pod, installed ones first; `folder` replaces the working folder."""
        return await asyncio.to_thread(editors.list_editors, host, folder)

    async def find_editor(self, name: str, host: SshHost, folder: str = "") -> Editor:
        """An editor that opens `folder` (empty: the host's own). Raises BadInput if it or the folder is unknown."""
        return await asyncio.to_thread(editors.find_editor, name, host, folder)

    async def start_editor(self, editor: Editor) -> None:
        await asyncio.to_thread(editors.start_editor, editor)

    async def diagnose(self, namespace: str, job: str, rank: int | str) -> AsyncGenerator[SetupStep, None]:
        """Yield each diagnosis step of a connection, from token to editor; `rank`: of the job, or REPLICATED/INDEX."""
        from console.attach.ssh.doctor import diagnose

        entry = await asyncio.to_thread(self._find_entry, namespace, job)
        client = self._cluster.current_connection.client
        async for step in diagnose(client, self._port_forwarder, PodAddress.parse(namespace, job, str(rank)), entry):
            yield step

    def _find_entry(self, namespace: str, job: str) -> SshHostEntry | None:
        place = pin_kubeconfig(self._cluster.settings)[0], self._cluster.context, namespace, job
        return next((each for each in _load_entries() if each.belongs_to(*place)), None)


def _load_entries() -> list[SshHostEntry]:
    places = SshPaths.locate()
    return config_and_known_hosts.load_entries(places) if places.jobs.is_dir() else []
