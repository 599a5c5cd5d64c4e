"""Whether a host key that the API names may replace the one that is known.

The API server is what we trust. Its word is believed the first time, and again when something happened that changes
keys: another JobSet of the same name, or, for keys that are each pod's own, another pod or another run of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from console.attach.ssh.config import PodKeys
from console.attach.ssh.identities import fingerprint
from console.errors import HostKeyChanged, NotFound

if TYPE_CHECKING:
    from console.attach.ssh.config import Entry
    from console.attach.ssh.pod_facts import PodFacts


@dataclass(frozen=True, slots=True)
class Told:
    """What the API says now: keys of the whole release, or of this pod alone."""

    facts: PodFacts
    release: tuple[str, ...] = ()
    served: tuple[str, ...] = ()  # shown by its sshd inside the pod
    kept: tuple[str, ...] = ()  # in its files

    @property
    def pod(self) -> tuple[str, ...]:
        return self.served or self.kept


def judge(entry: Entry, rank: int, told: Told) -> Entry:
    """The entry with the keys that hold now; raises HostKeyChanged for a change that nothing explains."""
    facts = told.facts
    if not (told.release or told.pod):
        raise NotFound(
            f"The host key of {entry.job} pod {rank} cannot be read: its release has none and its pod shows none.",
            f"Is sshd running there? a4 doctor {entry.job} {rank}",
        )
    if told.release and told.served and not set(told.release) & set(told.served):
        raise changed(entry, rank, told.release, told.served, "its release has no other")
    same_job = bool(entry.jobset_uid) and entry.jobset_uid == facts.jobset_uid
    if not same_job:
        entry = msgspec.structs.replace(entry, jobset_uid=facts.jobset_uid, release_keys=(), pods={})
    if entry.release_keys:
        now = told.release or told.pod
        if not set(now) & set(entry.release_keys):
            raise changed(entry, rank, entry.release_keys, now, "the release is the same")
    known = entry.pods.get(str(rank))
    same_run = known is not None and (known.uid, known.restarts) == (facts.uid, facts.restarts)
    if same_run and known is not None and known.keys and not set(known.keys) & set(told.pod or told.release):
        raise changed(entry, rank, known.keys, told.pod or told.release, "its pod is the same")
    keys = () if told.release or entry.release_keys else told.pod
    pods = {**entry.pods, str(rank): PodKeys(facts.uid, facts.restarts, keys)}
    release = told.release or entry.release_keys
    return msgspec.structs.replace(entry, pods=pods, release_keys=release)


def changed(entry: Entry, rank: int, before: tuple[str, ...], now: tuple[str, ...], why: str) -> HostKeyChanged:
    """A refusal that names both keys."""
    was, is_ = (" or ".join(map(fingerprint, keys)) or "none" for keys in (before, now))
    return HostKeyChanged(
        f"The host key of {entry.job} pod {rank} is now {is_}; it was {was}, and {why}.",
        f"If you know who changed it: a4 ssh --forget {entry.job}, then connect again.",
    )
