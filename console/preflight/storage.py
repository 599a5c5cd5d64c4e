"""Checks of storage: buckets, NFS, Lustre, drivers, instances, permissions (P09 to P12, P19 to P22)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.errors import ApiDisabled, ConsoleError, NotFound
from console.google.clusters import is_older
from console.kube.objects.meta import ObjectSchema, annotations_of
from console.kube.objects.unwatched_kinds import ClaimSchema, WorkloadControllerSchema
from console.preflight.check import (
    CheckContext,
    CheckVerdict,
    Needed,
    Repair,
    RepairKind,
    Result,
    combine_all,
    combine_verdicts,
    enable_services_repair,
    fail,
    missing_verdict,
    ok,
    skip,
    verdict_of,
    verdict_of_error,
    warn,
)
from console.preflight.cluster import service_account_path

if TYPE_CHECKING:
    from console.google.bucket_paths import Bucket
    from console.google.storage import FilestoreInstance, LustreInstance


LUSTRE_COMMAND = "gcloud container clusters update NAME --enable-lustre-csi-driver"


async def _list_instances(
    context: CheckContext, kind: str, project: str
) -> Sequence[LustreInstance | FilestoreInstance]:
    project = project or (await context.gke()).project
    found: Sequence[LustreInstance | FilestoreInstance] = await context.call_google(
        f"{kind.lower()}: instances of {project}",
        "file_systems",
        lambda api, login: (api.list_lustre if kind == "Lustre" else api.list_filestore)(login, project),
    )
    return found


async def _check_instance(
    context: CheckContext, kind: str, address: str, needed: Needed, project: str, share_name: str = ""
) -> CheckVerdict:
    """Check the Lustre or Filestore instance at that address with that share; an empty address means any."""
    cluster = await context.gke()
    project = project or cluster.project
    try:
        found = await _list_instances(context, kind, project)
    except ApiDisabled as error:
        return missing_verdict(
            needed,
            error.message,
            "No instance can be there.",
            "Enable the service, then make one.",
            repair=enable_services_repair(project, error.service),
        )
    listed = "; ".join(
        f"{each.name} in {each.location}: {each.endpoint or 'no address,'} {each.state}" for each in found
    )
    words = f"{kind} instances of {project}: {listed or 'none'}."
    mine = [each for each in found if not address or each.server == address]
    if not mine:
        return missing_verdict(
            needed, words, f"None has the address {address}." if address else "There is no instance."
        )
    best = next((each for each in mine if each.ready), mine[0])
    if not best.ready:
        return missing_verdict(needed, words, f"{best.name} is {best.state}. {best.why}".strip())
    shares = [each.endpoint.rpartition(":/")[2] for each in mine]
    if share_name and share_name not in shares:
        return fail(words, f"{best.name} has no share {share_name}.", f"Choose {', '.join(shares)}.")
    theirs, ours = (each.rpartition("/")[2] for each in (best.network, cluster.network))
    if theirs == ours:
        return ok(f"{words} Same network as the cluster: {ours}.")
    return missing_verdict(needed, words, f"It lies in network {theirs}, the cluster in {ours}.")


HOST_NETWORK_FROM = (1, 17, 2)  # the first version of the GCS FUSE driver that serves pods with the host network
_DRIVER_TAG = re.compile(r":v(\d+)\.(\d+)\.(\d+)")


async def _check_csi_driver(context: CheckContext, name: str, needed: Needed) -> CheckVerdict:
    if await context.find(f"/apis/storage.k8s.io/v1/csidrivers/{name}", ObjectSchema):
        return ok(f"CSIDriver {name} is there.")
    return missing_verdict(needed, f"There is no CSIDriver {name}.", "Its volumes cannot be mounted.")


async def _check_addon(context: CheckContext, addon: str, sentence: str, needed: Needed) -> CheckVerdict:
    cluster = await context.gke()
    if addon in cluster.addons:
        return ok(f"Google: {sentence} is on.")
    repair = await _enable_addon_repair(context, addon, sentence)
    return missing_verdict(needed, f"Google: {sentence} is off.", "Its volumes cannot be mounted.", repair=repair)


async def _enable_addon_repair(context: CheckContext, addon: str, sentence: str) -> Repair:
    place = await context.cluster_place()
    done = ("GKE changes the cluster for some minutes; running pods go on.",)
    target = (place.project, place.location, place.cluster, addon)
    return Repair(RepairKind.ADDON, target, f"Enable {sentence} in cluster {place.cluster}", done)


async def _check_driver_and_addon(
    context: CheckContext, driver: str, addon: str, sentence: str, needed: Needed
) -> CheckVerdict:
    """Check a CSI driver in the cluster and its GKE add-on; either missing part offers the repair."""
    here = await verdict_of(_check_csi_driver(context, driver, needed))
    there = await verdict_of(_check_addon(context, addon, sentence, needed))
    return _combine_driver_and_addon(driver, here, there)


def _combine_driver_and_addon(
    name: str, driver: CheckVerdict, addon: CheckVerdict, *, sure: bool = False
) -> CheckVerdict:
    """The verdict on driver and add-on; enabling an add-on that is enabled already is not offered as a repair."""
    if driver.result in {Result.FAIL, Result.WARN} and addon.result is Result.OK:
        fix = "Wait some minutes: the add-on is on. If the driver does not come, switch the add-on off and on again."
        driver = replace(driver, fix=fix, command=f"kubectl get csidriver {name}")
    return combine_verdicts(driver, addon, all_required=sure)


async def check_gcs_fuse(context: CheckContext) -> CheckVerdict:
    needed = context.wish.needed(bool(context.wish.buckets))
    if needed is Needed.NO:
        return skip("The launch mounts no bucket.")
    return await _check_driver_and_addon(
        context, "gcsfuse.csi.storage.gke.io", "gcsFuse", "the GCS FUSE CSI driver", needed
    )


async def check_fuse_on_host(context: CheckContext) -> CheckVerdict:
    needed = context.wish.needed(context.wish.flag("network.hostNetwork") and bool(context.wish.buckets))
    if needed is Needed.NO:
        return skip("Only a launch that mounts buckets in the host's network needs it.")
    agent = await context.find(
        "/apis/apps/v1/namespaces/kube-system/daemonsets/gcsfusecsi-node", WorkloadControllerSchema
    )
    if agent is None:
        return missing_verdict(needed, "There is no DaemonSet gcsfusecsi-node.", "Its version is not known.")
    found = next(
        (match for image in agent.images if "gcs-fuse" in image and (match := _DRIVER_TAG.search(image))), None
    )
    if found is None:
        words = f"Its images ({', '.join(agent.images)}) tell no version."
        return warn(words, "It may be too old for the host network.")
    version = tuple(int(each) for each in found.groups())
    words = f"The driver is v{'.'.join(found.groups())}; pods in the host's network are served from v1.17.2."
    if version >= HOST_NETWORK_FROM:
        return ok(words)
    return missing_verdict(needed, words, "Pods in the host's network cannot mount buckets as their own account.")


async def check_bucket_location(context: CheckContext) -> CheckVerdict:
    if not context.wish.buckets:
        return skip("The launch mounts no bucket.") if context.wish.recipe else await _check_any_bucket_near(context)
    return await combine_all(*(_check_location_of(context, name) for name in context.wish.buckets), all_required=True)


async def _check_any_bucket_near(context: CheckContext) -> CheckVerdict:
    place = await context.cluster_place()
    found: tuple[Bucket, ...] = await context.call_google(
        f"storage: buckets of {place.project}",
        "cloud_storage",
        lambda api, login: api.Buckets(login, place.project).list_buckets(),
    )
    listed = ", ".join(f"{each.name} ({each.location})" for each in found[:6]) or "none"
    words = f"Buckets of {place.project}: {listed}{f' and {len(found) - 6} more' if len(found) > 6 else ''}."
    if any(each.is_near(place.region) and each.location_type == "region" for each in found):
        return ok(words)
    return warn(words, f"None lies in {place.region} alone, where the cluster is.")


async def _check_location_of(context: CheckContext, name: str) -> CheckVerdict:
    place = await context.cluster_place()
    try:
        found: Bucket = await context.call_google(
            f"storage: bucket {name}",
            "cloud_storage",
            lambda api, login: api.Buckets(login, place.project).read_bucket(name),
        )
    except NotFound:
        return missing_bucket_verdict(name)
    words = f"gs://{name} lies in {found.location} ({found.location_type}); the cluster in {place.region}."
    if found.is_near(place.region) and found.location_type == "region":
        return ok(words)
    if found.is_near(place.region):
        return warn(words, "It is spread over several regions: slower and dearer than one in the cluster's region.")
    return fail(words, "Every byte crosses regions, slowly and at a price.")


def missing_bucket_verdict(name: str) -> CheckVerdict:
    return fail(
        f"The bucket gs://{name} does not exist.",
        "Pods that mount it do not start.",
        "Name one that is there (a4 buckets lists them), or make it.",
        command=f"gcloud storage buckets create gs://{name} --location=REGION",
    )


# rights

_BUCKET_ROLES = ("roles/storage.objectAdmin", "roles/storage.legacyBucketReader")
_SUFFICIENT_ROLES = {
    _BUCKET_ROLES[0]: (
        "roles/storage.admin",
        "roles/storage.objectAdmin",
        "roles/storage.objectUser",
        "roles/editor",
        "roles/owner",
    ),
    _BUCKET_ROLES[1]: (
        "roles/storage.admin",
        "roles/storage.legacyBucketReader",
        "roles/storage.legacyBucketOwner",
        "roles/storage.bucketViewer",
        "roles/owner",
    ),
}
ALL_USERS = frozenset({"allUsers", "allAuthenticatedUsers"})
_IMPERSONATION_ANNOTATION = "iam.gke.io/gcp-service-account"
"""Annotation of a Kubernetes ServiceAccount: the Google service account that its pods impersonate."""


async def check_bucket_access(context: CheckContext) -> CheckVerdict:
    if not context.wish.buckets:
        return skip("No bucket was named." if not context.wish.recipe else "The launch mounts no bucket.")
    acts_as, who = "", f"{context.wish.namespace}/{context.wish.account}"
    try:
        account = await context.find(service_account_path(context), ObjectSchema)
        acts_as = annotations_of(account.metadata).get(_IMPERSONATION_ANNOTATION, "") if account else ""
        there = ok(f"ServiceAccount {who} is there{f'; its pods act as {acts_as}' if acts_as else ''}.")
        if account is None:
            there = fail(f"There is no ServiceAccount {who}.", "Pods that use it are not created.")
    except ConsoleError as error:
        there = verdict_of_error(error)
    halves = [await verdict_of(_check_access_to(context, name, acts_as)) for name in context.wish.buckets]
    return combine_verdicts(*halves, there, all_required=True)


async def _check_access_to(context: CheckContext, name: str, acts_as: str) -> CheckVerdict:
    cluster = await context.gke()
    wish = context.wish
    who = acts_as or f"ns/{wish.namespace}/sa/{wish.account}"
    mine = _PrincipalNames(cluster.workload_pool, wish.namespace, wish.account, acts_as)
    try:
        policy: Mapping[str, Collection[str]] = await context.call_google(
            f"storage: who may use bucket {name}",
            "cloud_storage",
            lambda api, login: api.Buckets(login, cluster.project).read_role_members(name),
        )
        ours = mine.granted_roles(policy)
    except NotFound:
        return missing_bucket_verdict(name)
    missing = _missing_roles(ours)
    if not missing:
        return ok(f"{who} has {', '.join(sorted(ours))} on gs://{name}.")
    beyond = "The project's policy gives no more."
    try:
        ours |= mine.granted_roles(await context.project_members(cluster.project))
    except ConsoleError as error:
        beyond = f"The project may give it all the same: its policy was not seen ({error.message})"
    if not (missing := _missing_roles(ours)):
        return ok(f"{who} has {', '.join(sorted(ours))} by the policies of gs://{name} and of the project.")
    member = f"serviceAccount:{acts_as}" if acts_as else await _format_principal(context, cluster.project, mine)
    command = f"gcloud storage buckets add-iam-policy-binding gs://{name} --role={missing[0]} --member={member}"
    has = ", ".join(sorted(ours)) or "nothing"
    words = f"gs://{name} gives {who} {has}; what is missing is {', '.join(missing)}."
    return missing_verdict(wish.needed(bool(wish.buckets)), words, beyond, command=command)


def _missing_roles(ours: Collection[str]) -> list[str]:
    return [role for role, enough in _SUFFICIENT_ROLES.items() if not set(ours) & set(enough)]


async def _format_principal(context: CheckContext, project: str, own_names: _PrincipalNames) -> str:
    """The name of the pods' account in an IAM policy, with PROJECT_NUMBER for a number that is unknown."""
    try:
        number = await context.project_number(project)
    except ConsoleError:
        number = "PROJECT_NUMBER"  # the command is to be read before it is run
    pool = f"principal://iam.googleapis.com/projects/{number}/locations/global/workloadIdentityPools/{own_names.pool}"
    return f"{pool}/subject/ns/{own_names.namespace}/sa/{own_names.account}"


class _PrincipalNames:
    """All names by which an IAM policy may refer to the pods' account."""

    def __init__(self, pool: str, namespace: str, account: str, acts_as: str) -> None:
        self.pool, self.namespace, self.account = pool, namespace, account
        self._exact_names = {*ALL_USERS, *([f"serviceAccount:{acts_as}"] if acts_as else [])}
        by_account = f"/subject/ns/{namespace}/sa/{account}", f"{pool}[{namespace}/{account}]"
        self._suffixes = (*by_account, f"/namespace/{namespace}")

    def granted_roles(self, policy: Mapping[str, Collection[str]]) -> set[str]:
        """Roles granted to the account itself, its namespace, its cluster, or everybody."""
        return {role for role, names in policy.items() if any(self._is_own_principal(each) for each in names)}

    def _is_own_principal(self, name: str) -> bool:
        ours = name.endswith((*self._suffixes, f"{self.pool}/*")) or "/kubernetes.cluster/" in name
        return name in self._exact_names or (bool(self.pool) and self.pool in name and ours)


# NFS


async def _check_claim(context: CheckContext, claim: str) -> CheckVerdict:
    namespace = context.wish.namespace
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/persistentvolumeclaims/{quote(claim, safe='')}"
    found = await context.find(path, ClaimSchema)
    if found is None:
        return fail(f"There is no claim {claim} in {namespace}.", "Pods that mount it wait forever.")
    phase = (found.status.phase if found.status else None) or "Pending"
    size = ((found.status.capacity if found.status else None) or {}).get("storage", "")
    words = f"Claim {claim} in {namespace} is {phase}{f', {size}' if size else ''}."
    return ok(words) if phase == "Bound" else fail(words, "Pods that mount it wait until it is bound.")


async def check_nfs(context: CheckContext) -> CheckVerdict:
    needed = context.wish.needed(context.wish.mounts_nfs)
    if needed is Needed.NO:
        return skip("The launch mounts no NFS.")
    claim, server = context.wish.text("storage.nfs.claim") or "nfs-pvc", context.wish.text("storage.nfs.server")
    if server or needed is Needed.UNDECIDED:
        share = context.wish.text("storage.nfs.share") if server else ""
        # Without the name of an instance the address may be that of any NFS server.
        filestore = needed if context.wish.text("storage.nfs.instance") else Needed.UNDECIDED
        halves = [await verdict_of(_check_instance(context, "Filestore", server, filestore, "", share))]
        if needed is Needed.UNDECIDED:
            found = await verdict_of(_check_claim(context, claim))
            halves.append(warn(found.evidence) if found.result.name == "FAIL" else found)
        return combine_verdicts(*halves, all_required=needed is Needed.YES)
    return await _check_claim(context, claim)


async def check_nfs_driver(context: CheckContext) -> CheckVerdict:
    needed = context.wish.needed(bool(context.wish.text("storage.nfs.instance")))
    if needed is Needed.NO:
        return skip("NFS is mounted without the driver." if context.wish.mounts_nfs else "The launch mounts no NFS.")
    return await _check_driver_and_addon(
        context, "filestore.csi.storage.gke.io", "filestore", "the Filestore CSI driver", needed
    )


# Lustre


async def check_lustre_driver(context: CheckContext) -> CheckVerdict:
    needed = context.wish.needed(context.wish.mounts_lustre)
    if needed is Needed.NO:
        return skip("The launch mounts no Lustre.")
    name = "lustre.csi.storage.gke.io"
    here = await verdict_of(_check_csi_driver(context, name, needed))
    there = await verdict_of(_check_lustre_addon(context, needed))
    return _combine_driver_and_addon(name, here, there, sure=True)


NO_LEGACY_PORT_FROM = "1.33.2-gke.4655000"  # the first version of nodes that reach Lustre without the legacy port


async def _check_lustre_addon(context: CheckContext, needed: Needed) -> CheckVerdict:
    """Check Lustre's GKE add-on, with the deprecated legacy port only for old nodes or instances."""
    cluster = await context.gke()
    driver, legacy = "lustre" in cluster.addons, "lustreLegacyPort" in cluster.addons
    if driver and legacy:
        return ok("Google: the Lustre CSI driver is on, with the legacy port.")
    wanting, unread = "", ""
    pools = [pool for pool in cluster.pools if pool.accelerators and is_older(pool.version, NO_LEGACY_PORT_FROM)]
    pools = [pool for pool in cluster.pools if pool.accelerators and is_older(pool.version, NO_LEGACY_PORT_FROM)]
    if old := [f"{pool.name} ({pool.version})" for pool in pools]:
        wanting = f"Nodes older than {NO_LEGACY_PORT_FROM} need the legacy port: {', '.join(old)}."
    else:
        try:
            found = await _list_instances(context, "Lustre", context.wish.text("storage.lustre.project"))
            server = context.wish.text("storage.lustre.server")
            mine = [each for each in found if each.server == server or not server]
            # Of a claim alone the instance is not known: the port is needed for sure if all of them listen there.
            if mine and all(getattr(each, "legacy_port", False) for each in mine):
                named = ", ".join(each.name for each in mine)
                wanting = f"Instances made with GKE support listen on the legacy port only: {named}."
        except ConsoleError as error:
            unread = f" Whether the instance listens on the legacy port only is not known: {error.message}"
    if driver and not wanting:
        return ok(f"Google: the Lustre CSI driver is on; its legacy port is off, as newer nodes do without.{unread}")
    state = "on, its legacy port is off" if driver else "off"
    words = "the Lustre CSI driver" + (" with the legacy port" if wanting else "")
    repair = await _enable_addon_repair(context, "lustreLegacyPort" if wanting else "lustre", words)
    return missing_verdict(
        needed,
        f"Google: the Lustre CSI driver is {state}.",
        wanting or "Its volumes cannot be mounted.",
        "Enable the add-on with the legacy port." if wanting else "",
        command=f"{LUSTRE_COMMAND} --enable-legacy-lustre-port" if wanting else "",
        repair=repair,
    )


async def check_lustre(context: CheckContext) -> CheckVerdict:
    needed = context.wish.needed(context.wish.mounts_lustre)
    if needed is Needed.NO:
        return skip("The launch mounts no Lustre.")
    server, claim = context.wish.text("storage.lustre.server"), context.wish.text("storage.lustre.claim")
    there = await verdict_of(
        _check_instance(context, "Lustre", server, needed, context.wish.text("storage.lustre.project"))
    )
    if needed is Needed.YES and not server:
        if there.result is Result.FAIL:  # a claim that is bound proves more than a list that lacks an instance
            there = warn(there.evidence, there.reason, repair=there.repair)
        return combine_verdicts(await verdict_of(_check_claim(context, claim)), there)
    return there
