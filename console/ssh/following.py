"""What happens between "this is the rank's pod now" and the first byte of SSH.

`a4 proxy` calls `follow` for every connection, so a pod that is known costs one small file to read and nothing else
is imported. A new pod has its host key checked and, where the person agreed, gets the key.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from console.cluster.client import Client
    from console.cluster.login import Login
    from console.models.tunnel import LivePod
    from console.ssh.entries import Entry
    from console.ssh.pod_facts import PodFacts, Probe


async def follow(login: Login, name: str, target: LivePod) -> None:
    """Make sure that what ssh will check against is this pod's; raises HostKeyChanged and what requests raise.

    `name` is the entry's; one that is no longer there means that the person took it away, and ssh will say so.
    """
    from console.ssh.places import Places

    places = Places.find()
    known = _known(places.jobs / f"{name}.json")
    if known is None or known.get(str(target.number)) == target.uid:
        return
    from console.cluster.client import Client
    from console.ssh import entries

    entry = await asyncio.to_thread(entries.load, places, name)
    if entry is None:
        return
    client = Client(login)
    try:
        await prepare(client, entry, target)
    finally:
        await client.close()


def _known(path: Path) -> dict[str, str] | None:
    """The pods that were seen, by rank; None without an entry."""
    try:
        pods = json.loads(path.read_bytes())["pods"]
        return {rank: pod["uid"] for rank, pod in pods.items()}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


async def prepare(
    client: Client, entry: Entry, target: LivePod, *, probed: Probe | None = None, facts: PodFacts | None = None
) -> Entry:
    """Check the host key of that pod, put the key there if that was agreed on, and keep what was found."""
    import msgspec

    from console.ssh import entries, pod_facts
    from console.ssh.host_keys import Told, judge
    from console.ssh.places import Places

    rank = target.number
    facts = facts or await pod_facts.read_pod(client, target.namespace, target.pod)
    release = await pod_facts.release_keys(client, target.namespace, facts.secret)
    if probed is None and (entry.install or not release):
        add = entry.public_key if entry.install else ""
        probed = await pod_facts.probe(client, target.namespace, target.pod, container=target.container, add=add)
    told = Told(facts, release, *((probed.served, probed.kept) if probed else ()))
    places = Places.find()

    def keep() -> Entry:
        with places.locked():
            newest = entries.load(places, entry.name) or entry
            kept = {"pods": newest.pods, "release_keys": newest.release_keys, "jobset_uid": newest.jobset_uid}
            made = judge(msgspec.structs.replace(entry, **kept), rank, told)
            entries.save(places, made)
            return made

    return await asyncio.to_thread(keep)
