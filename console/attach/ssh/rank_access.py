"""SSH access to one inspected rank: which key and name to use, and what must be done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from console.attach.ssh import config, identities, paths
from console.attach.ssh.connect import pin_kubeconfig, program
from console.attach.ssh.editors import SshHost, SshPlan
from console.attach.ssh.identities import fingerprint
from console.attach.ssh.paths import SshPaths
from console.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from console.attach.ssh.config import SshHostEntry
    from console.attach.ssh.identities import Identity
    from console.attach.ssh.pod_facts import PodFacts, Probe
    from console.kube.objects.jobset import JobSet
    from console.kube.rank_address import LivePod
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
            raise BadInput(
                f"All host names for {job} are used by jobs of other clusters.", "Run a4 ssh --undo, then try again."
            )
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
