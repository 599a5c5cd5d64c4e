"""What a launch mounts: buckets, NFS, Lustre; drivers, instances, rights (P09 to P12, P19 to P22)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.errors import ApiDisabled, NotFound
from console.kube.objects.on_demand import ClaimWire, NamedWire, WorkloadControllerWire
from console.preflight.check import (
    Need,
    Repair,
    RepairKind,
    Result,
    Verdict,
    combine,
    enable,
    fail,
    half_verdict,
    missing_verdict,
    ok,
    skip,
    warn,
)
from console.preflight.context import bucket, buckets, filestore_instances, lustre_instances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.google.storage import FilestoreInstance, LustreInstance
    from console.preflight.context import CheckContext


async def _instance(look: CheckContext, kind: str, address: str, need: Need, project: str, share: str = "") -> Verdict:
    """The Lustre or Filestore at that address, with that share; empty: any. Without a project the cluster's counts."""
    cluster = await look.gke()
    project = project or cluster.project
    found: Sequence[LustreInstance | FilestoreInstance]
    try:
        found = await (lustre_instances if kind == "Lustre" else filestore_instances)(look, project)
    except ApiDisabled as error:
        return missing_verdict(need, error.message, "No instance can be there.", "Enable the service, then make one.",
                       repair=enable(project, error.service))  # fmt: skip
    listed = "; ".join(
        f"{each.name} in {each.location}: {each.endpoint or 'no address,'} {each.state}" for each in found
    )
    told = f"{kind} instances of {project}: {listed or 'none'}."
    mine = [each for each in found if not address or each.server == address]
    if not mine:
        return missing_verdict(need, told, f"None has the address {address}." if address else "There is no instance.")
    best = next((each for each in mine if each.ready), mine[0])
    if not best.ready:
        return missing_verdict(need, told, f"{best.name} is {best.state}. {best.why}".strip())
    shares = [each.endpoint.rpartition(":/")[2] for each in mine]
    if share and share not in shares:
        return fail(told, f"{best.name} has no share {share}.", f"Choose {', '.join(shares)}.")
    theirs, ours = (each.rpartition("/")[2] for each in (best.network, cluster.network))
    if theirs == ours:
        return ok(f"{told} Same network as the cluster: {ours}.")
    return missing_verdict(need, told, f"It lies in network {theirs}, the cluster in {ours}.")


HOST_NETWORK_FROM = (1, 17, 2)
"""The first version of the GCS FUSE driver that serves pods with the host network."""
_TAG = re.compile(r":v(\d+)\.(\d+)\.(\d+)")


async def _driver(look: CheckContext, name: str, need: Need, repair: Repair | None = None) -> Verdict:
    if await look.find(f"/apis/storage.k8s.io/v1/csidrivers/{name}", NamedWire):
        return ok(f"CSIDriver {name} is there.")
    return missing_verdict(need, f"There is no CSIDriver {name}.", "Its volumes cannot be mounted.", repair=repair)


async def _addon(look: CheckContext, addon: str, words: str, need: Need) -> Verdict:
    cluster = await look.gke()
    if addon in cluster.addons:
        return ok(f"Google: {words} is on.")
    return missing_verdict(
        need, f"Google: {words} is off.", "Its volumes cannot be mounted.", repair=await _switch(look, addon, words)
    )


async def _switch(look: CheckContext, addon: str, words: str) -> Repair:
    place = await look.place()
    done = ("GKE changes the cluster for some minutes; running pods go on.",)
    return Repair(
        RepairKind.ADDON,
        (place.project, place.location, place.cluster, addon),
        f"Enable {words} in cluster {place.cluster}",
        done,
    )


async def _csi(look: CheckContext, driver: str, addon: str, words: str, need: Need) -> Verdict:
    """Driver in the cluster and add-on at Google: either half that finds it missing brings the repair."""
    return _halves(
        driver, await half_verdict(_driver(look, driver, need)), await half_verdict(_addon(look, addon, words, need))
    )


def _halves(name: str, driver: Verdict, addon: Verdict, *, sure: bool = False) -> Verdict:
    """Both as one; a driver that is missing though its add-on is on is not mended by enabling that."""
    if driver.result in {Result.FAIL, Result.WARN} and addon.result is Result.OK:
        fix = "Wait some minutes: the add-on is on. If the driver does not come, switch the add-on off and on again."
        driver = replace(driver, fix=fix, command=f"kubectl get csidriver {name}")
    return combine(driver, addon, sure=sure)


async def fuse(look: CheckContext) -> Verdict:
    need = look.wish.need(bool(look.wish.buckets))
    if need is Need.NO:
        return skip("The launch mounts no bucket.")
    return await _csi(look, "gcsfuse.csi.storage.gke.io", "gcsFuse", "the GCS FUSE CSI driver", need)


async def fuse_on_host(look: CheckContext) -> Verdict:
    need = look.wish.need(look.wish.flag("network.hostNetwork") and bool(look.wish.buckets))
    if need is Need.NO:
        return skip("Only a launch that mounts buckets in the host's network needs it.")
    agent = await look.find("/apis/apps/v1/namespaces/kube-system/daemonsets/gcsfusecsi-node", WorkloadControllerWire)
    if agent is None:
        return missing_verdict(need, "There is no DaemonSet gcsfusecsi-node.", "Its version is not known.")
    found = next((match for image in agent.images if "gcs-fuse" in image and (match := _TAG.search(image))), None)
    if found is None:
        return warn(
            f"Its images ({', '.join(agent.images)}) tell no version.", "It may be too old for the host network."
        )
    version = tuple(int(each) for each in found.groups())
    told = f"The driver is v{'.'.join(found.groups())}; pods in the host's network are served from v1.17.2."
    if version >= HOST_NETWORK_FROM:
        return ok(told)
    return missing_verdict(need, told, "Pods in the host's network cannot mount buckets as their own account.")


async def bucket_near(look: CheckContext) -> Verdict:
    if not look.wish.buckets:
        return skip("The launch mounts no bucket.") if look.wish.recipe else await _any_near(look)
    return combine(*[await half_verdict(_near(look, name)) for name in look.wish.buckets], sure=True)


async def _any_near(look: CheckContext) -> Verdict:
    place = await look.place()
    found = await buckets(look, place.project)
    listed = ", ".join(f"{each.name} ({each.location})" for each in found[:6]) or "none"
    told = f"Buckets of {place.project}: {listed}{f' and {len(found) - 6} more' if len(found) > 6 else ''}."
    if any(each.near(place.region) and each.location_type == "region" for each in found):
        return ok(told)
    return warn(told, f"None lies in {place.region} alone, where the cluster is.")


async def _near(look: CheckContext, name: str) -> Verdict:
    place = await look.place()
    try:
        found = await bucket(look, name)
    except NotFound:
        return no_bucket(name)
    told = f"gs://{name} lies in {found.location} ({found.location_type}); the cluster in {place.region}."
    if found.near(place.region) and found.location_type == "region":
        return ok(told)
    if found.near(place.region):
        return warn(told, "It is spread over several regions: slower and dearer than one in the cluster's region.")
    return fail(told, "Every byte crosses regions, slowly and at a price.")


def no_bucket(name: str) -> Verdict:
    return fail(f"The bucket gs://{name} does not exist.", "Pods that mount it do not start.",
                "Name one that is there (B, or a4 buckets, lists them), or make it.",
                command=f"gcloud storage buckets create gs://{name} --location=REGION")  # fmt: skip


# NFS


async def _claim(look: CheckContext, claim: str) -> Verdict:
    namespace = look.wish.namespace
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/persistentvolumeclaims/{quote(claim, safe='')}"
    found = await look.find(path, ClaimWire)
    if found is None:
        return fail(f"There is no claim {claim} in {namespace}.", "Pods that mount it wait forever.")
    phase = (found.status.phase if found.status else None) or "Pending"
    size = ((found.status.capacity if found.status else None) or {}).get("storage", "")
    told = f"Claim {claim} in {namespace} is {phase}{f', {size}' if size else ''}."
    return ok(told) if phase == "Bound" else fail(told, "Pods that mount it wait until it is bound.")


async def nfs(look: CheckContext) -> Verdict:
    need = look.wish.need(look.wish.mounts_nfs)
    if need is Need.NO:
        return skip("The launch mounts no NFS.")
    claim, server = look.wish.text("storage.nfs.claim") or "nfs-pvc", look.wish.text("storage.nfs.server")
    if server or need is Need.OPEN:
        share = look.wish.text("storage.nfs.share") if server else ""
        # Without the name of an instance the address may be that of any NFS server.
        filestore = need if look.wish.text("storage.nfs.instance") else Need.OPEN
        halves = [await half_verdict(_instance(look, "Filestore", server, filestore, "", share))]
        if need is Need.OPEN:
            found = await half_verdict(_claim(look, claim))
            halves.append(warn(found.evidence) if found.result.name == "FAIL" else found)
        return combine(*halves, sure=need is Need.YES)
    return await _claim(look, claim)


async def nfs_driver(look: CheckContext) -> Verdict:
    need = look.wish.need(bool(look.wish.text("storage.nfs.instance")))
    if need is Need.NO:
        return skip("NFS is mounted without the driver." if look.wish.mounts_nfs else "The launch mounts no NFS.")
    return await _csi(look, "filestore.csi.storage.gke.io", "filestore", "the Filestore CSI driver", need)


# Lustre


async def lustre_driver(look: CheckContext) -> Verdict:
    need = look.wish.need(look.wish.mounts_lustre)
    if need is Need.NO:
        return skip("The launch mounts no Lustre.")
    name = "lustre.csi.storage.gke.io"
    return _halves(
        name, await half_verdict(_driver(look, name, need)), await half_verdict(_lustre_addon(look, need)), sure=True
    )


async def _lustre_addon(look: CheckContext, need: Need) -> Verdict:
    cluster = await look.gke()
    words = "the Lustre CSI driver with the legacy port"
    if "lustre" not in cluster.addons:
        switch = await _switch(look, "lustreLegacyPort", words)
        return missing_verdict(
            need, "Google: the Lustre CSI driver is off.", "Its volumes cannot be mounted.", repair=switch
        )
    if "lustreLegacyPort" not in cluster.addons:
        switch = await _switch(look, "lustreLegacyPort", words)
        told = "Google: the Lustre CSI driver is on, its legacy port is off."
        reason = "Instances made with GKE support listen on the legacy port only."
        return missing_verdict(need, told, reason, repair=switch)
    return ok("Google: the Lustre CSI driver is on, with the legacy port.")


async def lustre(look: CheckContext) -> Verdict:
    need = look.wish.need(look.wish.mounts_lustre)
    if need is Need.NO:
        return skip("The launch mounts no Lustre.")
    server, claim = look.wish.text("storage.lustre.server"), look.wish.text("storage.lustre.claim")
    there = await half_verdict(_instance(look, "Lustre", server, need, look.wish.text("storage.lustre.project")))
    if need is Need.YES and not server:
        if there.result is Result.FAIL:  # a claim that is bound proves more than a list that lacks an instance
            there = warn(there.evidence, there.reason, repair=there.repair)
        return combine(await half_verdict(_claim(look, claim)), there)
    return there
