"""Compares the host keys of a pod's sshd with those known from before and those in the API."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from console.attach.ssh.config_and_known_hosts import PodKeys, SshHostEntry
from console.attach.ssh.identities import fingerprint
from console.errors import HostKeyChanged, NotFound


@dataclass(frozen=True, slots=True)
class PodIdentity:
    uid: str
    jobset_uid: str
    restarts: int
    key_secret: str  # the Secret with the keys of its release; empty if it has none
    public_key: str  # the key that was given at launch (SSH_PUBLIC_KEY), "type base64"; empty if none was


@dataclass(frozen=True, slots=True)
class ApiHostKeys:
    """The host keys that a pod must have according to the API: those of its release, or of the pod itself."""

    identity: PodIdentity
    release: tuple[str, ...] = ()
    served: tuple[str, ...] = ()  # shown by its sshd inside the pod
    file_keys: tuple[str, ...] = ()  # in its files

    @property
    def pod(self) -> tuple[str, ...]:
        return self.served or self.file_keys


def verify_host_keys(entry: SshHostEntry, rank: int, published: ApiHostKeys) -> SshHostEntry:
    """The entry with the pod's host keys. HostKeyChanged if they differ without a reason, NotFound if none is known."""
    facts = published.identity
    if not (published.release or published.pod):
        why = f"The host key of {entry.job} pod {rank} cannot be read: its release has none and its pod shows none."
        raise NotFound(why, f"Is sshd running there? a4 doctor {entry.job} {rank}")
    if published.release and published.served and not set(published.release) & set(published.served):
        raise host_key_changed_error(entry, rank, published.release, published.served, "its release has no other")
    same_job = bool(entry.jobset_uid) and entry.jobset_uid == facts.jobset_uid
    if not same_job:
        entry = msgspec.structs.replace(entry, jobset_uid=facts.jobset_uid, release_keys=(), pods={})
    if entry.release_keys:
        now = published.release or published.pod
        if not set(now) & set(entry.release_keys):
            raise host_key_changed_error(entry, rank, entry.release_keys, now, "the release is the same")
    known = entry.pods.get(str(rank))
    same_run = known is not None and (known.uid, known.restarts) == (facts.uid, facts.restarts)
    if same_run and known is not None and known.keys and not set(known.keys) & set(published.pod or published.release):
        raise host_key_changed_error(entry, rank, known.keys, published.pod or published.release, "its pod is the same")
    keys = () if published.release or entry.release_keys else published.pod
    pods = {**entry.pods, str(rank): PodKeys(facts.uid, facts.restarts, keys)}
    release = published.release or entry.release_keys
    return msgspec.structs.replace(entry, pods=pods, release_keys=release)


def host_key_changed_error(
    entry: SshHostEntry, rank: int, known_keys: tuple[str, ...], current_keys: tuple[str, ...], why: str
) -> HostKeyChanged:
    was, is_ = (" or ".join(map(fingerprint, keys)) or "none" for keys in (known_keys, current_keys))
    words = f"The host key of {entry.job} pod {rank} is now {is_}; it was {was}, and {why}."
    return HostKeyChanged(words, f"If you know who changed it: a4 ssh --forget {entry.job}, then connect again.")
