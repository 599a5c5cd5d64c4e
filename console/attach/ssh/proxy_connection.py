"""One connection of `a4 proxy`: the rank's pod, its host key, the person's key. A known pod costs one file read."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.attach.ssh.config_and_known_hosts import SshHostEntry
    from console.attach.ssh.host_key_check import PodIdentity
    from console.attach.ssh.pod_keys import KeyProbe
    from console.connection_settings import Settings
    from console.kube.client import Client
    from console.kube.login import Login
    from console.kube.port_forward import LivePod


async def ensure_current_pod(login: Login, name: str, target: LivePod) -> None:
    """Verify the rank's current pod and store it in the ssh entry `name`, if that exists. Raises HostKeyChanged."""
    from console.attach.ssh.ssh_folder import SshPaths

    places = SshPaths.locate()
    known = _read_known_uids(places.jobs / f"{name}.json")
    if known is None or known.get(str(target.number)) == target.uid:
        return
    from console.attach.ssh import config_and_known_hosts
    from console.kube.client import Client

    entry = await asyncio.to_thread(config_and_known_hosts.load_entry, places, name)
    if entry is None:
        return
    client = Client(login)
    try:
        await prepare_entry(client, entry, target)
    finally:
        await client.close()


def _read_known_uids(path: Path) -> dict[str, str] | None:
    """By rank the uid of the pod it was last reached in; None if the file has no entry."""
    from console.folders import read_own_file

    try:
        pods = json.loads(read_own_file(path))["pods"]
        return {rank: pod["uid"] for rank, pod in pods.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


async def prepare_entry(
    client: Client, entry: SshHostEntry, target: LivePod, *, identity: PodIdentity | None = None
) -> SshHostEntry:
    """Verify the pod's host key, install the key if `entry.install`; returns the new entry. Raises HostKeyChanged."""
    import msgspec

    from console.attach.ssh import config_and_known_hosts, pod_keys
    from console.attach.ssh.host_key_check import ApiHostKeys, verify_host_keys
    from console.attach.ssh.ssh_folder import SshPaths

    rank = target.number
    identity = identity or await pod_keys.read_pod_identity(client, target.namespace, target.name)
    release = await pod_keys.read_release_keys(client, target.namespace, identity.key_secret)
    probed: KeyProbe | None = None
    if entry.install or not release:
        add = entry.public_key if entry.install else ""
        probed = await pod_keys.probe_keys(client, target.namespace, target.name, container=target.container, add=add)
    keys = ApiHostKeys(identity, release, *((probed.served_keys, probed.file_keys) if probed else ()))
    places = SshPaths.locate()

    def save_pinned_keys() -> SshHostEntry:
        with places.lock():
            newest = config_and_known_hosts.load_entry(places, entry.name) or entry
            kept = {"pods": newest.pods, "release_keys": newest.release_keys, "jobset_uid": newest.jobset_uid}
            made = verify_host_keys(msgspec.structs.replace(entry, **kept), rank, keys)
            config_and_known_hosts.save_entry(places, made)
            return made

    return await asyncio.to_thread(save_pinned_keys)


def pin_kubeconfig(settings: Settings) -> tuple[str, bool]:
    """The kubeconfig path to be written into the ssh config for `a4 proxy`, and whether it lists several files."""
    if settings.kubeconfig:
        return str(settings.kubeconfig.expanduser().absolute()), False
    listed = [Path(each).expanduser().absolute() for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    there = [str(each) for each in listed if each.exists()]
    if there:
        return os.pathsep.join(there), len(there) > 1
    home = Path.home() / ".kube" / "config"
    return (str(home), False) if home.exists() else ("", False)


def a4_command() -> tuple[str, ...]:
    beside = Path(sys.executable).with_name("a4")
    if beside.exists():
        return (str(beside),)
    found = shutil.which("a4")
    return (found,) if found else (sys.executable, "-P", "-m", "screens")
