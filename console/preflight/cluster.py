"""Checks of the cluster, its queues, and the objects that a launch names (P01 to P03, P14 to P18, P33 to P36)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from functools import partial
from urllib.parse import quote

from console.errors import NotFound
from console.google.clusters import is_gke, is_older, parse_version
from console.kube.nested_values import get_path as value_at
from console.kube.objects import unwatched_kinds
from console.kube.objects.meta import GPU, ObjectSchema
from console.kube.objects.queue import ClusterQueue, LocalQueue
from console.kube.snapshot import Fleet
from console.kube.watched_kinds import JOBSET_GROUP, KUEUE_GROUP, ListSchema, kind_named
from console.preflight.check import (
    KUBERNETES,
    CheckContext,
    CheckVerdict,
    Needed,
    Repair,
    RepairKind,
    Result,
    combine_all,
    combine_verdicts,
    combined_check,
    fail,
    missing_verdict,
    ok,
    skip,
    verdict_of,
    warn,
)

MIN_GKE_VERSION = "1.31.7-gke.1265000"  # as the guides for the recipes ask for
RECOMMENDED_GKE_VERSION = "1.32.4-gke.1236000"  # as GKE's guide for A4 asks for
_JOBSET_GROUP = "jobset.x-k8s.io"
_LAUNCH_PERMISSIONS = (
    ("create", "jobsets", _JOBSET_GROUP, ""),
    ("create", "services", "", ""),
    ("create", "configmaps", "", ""),
    ("create", "secrets", "", ""),
    ("create", "persistentvolumeclaims", "", ""),
    ("get", "pods", "", "log"),
    ("create", "pods", "", "exec"),
    ("create", "pods", "", "portforward"),
)
_ADMIN_PERMISSIONS = (
    "container.clusters.create",
    "resourcemanager.projects.setIamPolicy",
    "iam.serviceAccounts.create",
    "compute.reservations.create",
)


async def check_api_server(context: CheckContext) -> CheckVerdict:
    running = (await context.get("/version", unwatched_kinds.GitVersionSchema)).git_version or "of an unknown version"
    server = context.cluster.watch.current_connection.target.cluster.server
    found = ok(f"The API server {running} at {server} answers (context {context.cluster.watch.context}).")
    return combine_verdicts(
        combine_verdicts(found, await verdict_of(_check_nodes_listed(context))),
        await verdict_of(_check_cluster_status(context)),
    )


async def _check_nodes_listed(context: CheckContext) -> CheckVerdict:
    fleet = await context.wait_for_kinds("nodes")
    return ok(f"It has {len(fleet.nodes)} nodes.") if fleet.nodes else warn("It has no node.", "Nothing can run yet.")


async def _check_cluster_status(context: CheckContext) -> CheckVerdict:
    cluster = await context.gke()
    found = f"Google calls it {cluster.path}: {cluster.status}."
    if cluster.status == "RUNNING":
        return ok(found)
    reason = cluster.message or f"Google says {cluster.status}."
    return (fail if cluster.status in {"ERROR", "STOPPING"} else warn)(found, reason, "Wait, or see `a4 clusters`.")


async def _check_version_in_cluster(context: CheckContext) -> CheckVerdict:
    plane = (await context.get("/version", unwatched_kinds.GitVersionSchema)).git_version or ""
    kubelets = sorted(
        {node.version for node in (await context.wait_for_kinds("nodes")).nodes.values() if node.version},
        key=parse_version,
    )
    oldest = kubelets[0] if kubelets else ""
    evidence = f"Control plane {plane}" + (f", oldest node {oldest}." if oldest else ".")
    return _judge_versions(evidence, [each for each in (plane, oldest) if each])


async def _check_version_at_google(context: CheckContext) -> CheckVerdict:
    cluster = await context.gke()
    pools = ", ".join(f"{pool.name} {pool.version}" for pool in cluster.pools)
    evidence = f"Google: {cluster.version}" + (f"; pools {pools}." if pools else ".")
    return _judge_versions(evidence, [cluster.version, *(pool.version for pool in cluster.pools)])


check_version = combined_check(_check_version_in_cluster, _check_version_at_google)


def _judge_versions(evidence: str, versions: list[str]) -> CheckVerdict:
    upgrade = "Upgrade the control plane, then the node pools."
    if any(is_older(each, MIN_GKE_VERSION) for each in versions):
        return fail(evidence, f"The recipes need {MIN_GKE_VERSION} or newer.", upgrade)
    if any(is_older(each, RECOMMENDED_GKE_VERSION) for each in versions):
        return warn(evidence, f"GKE's guide for A4 asks for {RECOMMENDED_GKE_VERSION} or newer.", upgrade)
    if not all(map(is_gke, versions)):
        return warn(evidence, "It is not a GKE version: only its first numbers were compared.")
    return ok(evidence)


async def check_regional(context: CheckContext) -> CheckVerdict:
    cluster = await context.gke()
    where = f"{cluster.location} is a {'region' if cluster.regional else 'zone'}"
    evidence = f"{where}; the cluster is {'Autopilot' if cluster.autopilot else 'Standard'}."
    if cluster.autopilot:
        return fail(evidence, "Autopilot offers no reserved A4 node pools to be set up as the recipes need.")
    if not cluster.regional:
        return warn(evidence, "The control plane of a zonal cluster is away while it is upgraded.")
    return ok(evidence)


async def check_permissions(context: CheckContext) -> CheckVerdict:
    namespace = context.wish.namespace

    async def ask_permission(verb: str, resource: str, group: str, part: str, where: str) -> tuple[str, bool]:
        name, watch = f"{verb} {resource}{'/' + part if part else ''}", context.cluster.watch
        what = f"may I {name}{' in ' + where if where else ''}"
        asked = partial(watch.is_allowed, verb, resource, group=group, namespace=where, subresource=part)
        return name, await context.send_request(KUBERNETES, what, asked)

    asked = [ask_permission(*right, namespace) for right in _LAUNCH_PERMISSIONS]
    asked.append(ask_permission("create", "persistentvolumes", "", "", ""))
    answers = await asyncio.gather(*asked)
    refused = [name for name, allowed in answers if not allowed]
    evidence = f"{len(answers) - len(refused)} of {len(answers)} rights in namespace {namespace} are there."
    if not refused:
        return ok(evidence)
    missing = f"No permission to {', '.join(refused)}."
    if refused == ["create persistentvolumes"] and not context.wish.text("storage.nfs.server"):
        return warn(evidence, missing, "Only new volumes of a launch need it; existing claims do not.")
    return fail(evidence, missing)


async def check_name_free(context: CheckContext) -> CheckVerdict:
    name, namespace = context.wish.name, context.wish.namespace
    if not name:
        return skip("No launch was named.")
    where = quote(namespace, safe="")

    async def check_no_release() -> CheckVerdict:
        path, selector = f"/api/v1/namespaces/{where}/secrets", f"owner=helm,name={name}"
        if await context.list_names(path, "Helm releases", 1, labelSelector=selector):
            return fail(f"A Helm release {name} exists in {namespace}.", "A name belongs to one release.")
        return ok(f"No Helm release in {namespace} is called {name}.")

    async def check_no_job() -> CheckVerdict:
        path = f"/apis/{_JOBSET_GROUP}/v1alpha2/namespaces/{where}/jobsets/{quote(name, safe='')}"
        if await context.find(path, ObjectSchema):
            return fail(f"A JobSet {name} exists in {namespace}.", "A name belongs to one job.")
        return ok(f"No JobSet there is called {name}.")

    return await combine_all(check_no_release(), check_no_job(), all_required=True)


async def check_builder_roles(context: CheckContext) -> CheckVerdict:
    project = (await context.cluster_place()).project
    held = await context.granted_permissions(project, _ADMIN_PERMISSIONS)
    missing = [each for each in _ADMIN_PERMISSIONS if each not in held]
    if not missing:
        return ok(f"This account may create clusters in {project}.")
    return CheckVerdict(
        Result.NOT_APPLICABLE,
        f"This account lacks {', '.join(missing)} in {project}.",
        "Only who creates clusters needs these rights; launches do not.",
    )


async def check_named_objects(context: CheckContext) -> CheckVerdict:
    return await combine_all(*_named_object_checks(context), all_required=True)


def _named_object_checks(context: CheckContext) -> Iterator[Awaitable[CheckVerdict]]:
    wish = context.wish
    yield _check_object_exists(
        context, "namespace", f"/api/v1/namespaces/{quote(wish.namespace, safe='')}", wish.namespace
    )
    yield check_service_account(context)
    for secret in _secret_names(context):
        yield _check_listed(context, "Secret", "secrets", secret, "Its pods do not start without it.")
    claims = value_at(context.wish.values, "storage.pvc")
    for claim in claims if isinstance(claims, Mapping) else ():
        yield _check_listed(context, "claim", "persistentvolumeclaims", claim, "Pods that mount it wait forever.")
    if wish.text("priorityClass") and wish.demand.queue:
        yield _check_priority_class(context, wish.text("priorityClass"))


async def check_service_account(context: CheckContext) -> CheckVerdict:
    name = context.wish.account
    return await _check_object_exists(
        context, "ServiceAccount", service_account_path(context), name, "The API server refuses pods that use it."
    )


def service_account_path(context: CheckContext) -> str:
    namespace, name = (quote(each, safe="") for each in (context.wish.namespace, context.wish.account))
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"


async def _check_object_exists(
    context: CheckContext, kind: str, path: str, name: str, reason: str = ""
) -> CheckVerdict:
    where = "" if name == context.wish.namespace else f" in {context.wish.namespace}"
    if await context.find(path, ObjectSchema) is None:
        return fail(f"There is no {kind} {name}{where}.", reason)
    return ok(f"{kind[:1].upper()}{kind[1:]} {name} is there.")


async def _check_listed(context: CheckContext, kind: str, plural: str, name: str, reason: str) -> CheckVerdict:
    """Check that a named object exists; only its metadata is read, no content of a Secret."""
    namespace = context.wish.namespace
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/{plural}"
    if await context.list_names(path, f"{kind}s", 1, fieldSelector=f"metadata.name={name}"):
        return ok(f"{kind[:1].upper()}{kind[1:]} {name} is there.")
    return fail(f"There is no {kind} {name} in {namespace}.", reason)


async def _check_priority_class(context: CheckContext, name: str) -> CheckVerdict:
    group = await context.find(f"/apis/{KUEUE_GROUP}", unwatched_kinds.ApiGroupSchema)
    version = next(iter(group.names), "") if group else ""
    path = f"/apis/{KUEUE_GROUP}/{version}/workloadpriorityclasses/{quote(name, safe='')}"
    found = await context.find(path, ObjectSchema) if version else None
    if found is not None:
        return ok(f"WorkloadPriorityClass {name} is there.")
    return fail(f"There is no WorkloadPriorityClass {name}.", "Kueue refuses jobs that use it.")


def _secret_names(context: CheckContext) -> list[str]:
    """Names of Secrets in the values `secrets` (NAME=secret/key) and `imagePullSecrets`, without duplicates."""
    references = value_at(context.wish.values, "secrets")
    named = [str(each).partition("/")[0] for each in references.values()] if isinstance(references, Mapping) else []
    pulling = value_at(context.wish.values, "imagePullSecrets")
    return list(dict.fromkeys([*named, *(map(str, pulling) if isinstance(pulling, list | tuple) else ())]))


_CHART_JOBSET_VERSION = "v1alpha2"  # the version of JobSet's API that the chart writes
_READABLE_KUEUE_VERSIONS = ("v1beta2", "v1beta1")  # versions of Kueue's API that the console reads
OPERATOR_TITLES = {JOBSET_GROUP: "JobSet", KUEUE_GROUP: "Kueue"}
_KUEUE_KINDS = ("workloads", "localqueues", "clusterqueues", "resourceflavors")


async def check_jobset(context: CheckContext) -> CheckVerdict:
    served = await _check_kinds_served(context, JOBSET_GROUP, ("jobsets",), Needed.YES, (_CHART_JOBSET_VERSION,))
    return combine_verdicts(
        served, await verdict_of(_check_controller(context, JOBSET_GROUP, context.wish.needed(True)))
    )


async def check_kueue(context: CheckContext) -> CheckVerdict:
    needed = context.wish.needed(bool(context.wish.demand.queue))
    if needed is Needed.NO:
        return skip("The launch names no queue.")
    served = await _check_kinds_served(context, KUEUE_GROUP, _KUEUE_KINDS, needed, _READABLE_KUEUE_VERSIONS)
    return combine_verdicts(served, await verdict_of(_check_controller(context, KUEUE_GROUP, needed)))


async def _check_kinds_served(
    context: CheckContext, group: str, plurals: tuple[str, ...], needed: Needed, known: tuple[str, ...]
) -> CheckVerdict:
    """Whether the cluster serves all these kinds in a version supported here."""
    versions = {plural: await _served_version(context, group, plural) for plural in plurals}
    absent = [plural for plural, version in versions.items() if not version]
    name = OPERATOR_TITLES[group]
    if absent:
        evidence = f"The cluster does not serve {', '.join(absent)} of {group}."
        return missing_verdict(needed, evidence, f"{name} is not installed.")
    served = await context.find(f"/apis/{group}", unwatched_kinds.ApiGroupSchema)
    there = served.names if served else tuple(sorted(set(versions.values())))
    evidence = f"{', '.join(plurals)} of {group} are served in {', '.join(there)}."
    if not set(there) & set(known):
        reason = f"Recipes and console speak {' or '.join(known)}."
        return missing_verdict(needed, evidence, reason, f"Install a {name} that serves it.")
    return ok(evidence)


async def _served_version(context: CheckContext, group: str, plural: str) -> str:
    kind = kind_named(plural)

    async def question() -> str:
        return await context.cluster.watch.current_connection.discovery.version(kind)

    return await context.send_request(KUBERNETES, f"discovery of {plural}.{group}", question)


async def _check_controller(context: CheckContext, group: str, needed: Needed) -> CheckVerdict:
    word, title = group.partition(".")[0], OPERATOR_TITLES[group]
    wanted = ListSchema[unwatched_kinds.WorkloadControllerSchema]
    found = (await context.get("/apis/apps/v1/deployments", wanted, limit="500")).items or []
    mine = [each for each in found if _is_controller_of(each, word)]
    if not mine:
        evidence = f"None of {len(found)} Deployments is the controller of {title}, by name or image."
        reason = "Nothing that can be seen reacts to its objects; only a controller outside the cluster would."
        return missing_verdict(needed, evidence, reason, f"Install {title}, or ask the cluster administrator.")
    best = next((each for each in mine if each.available), mine[0])
    tag = next((image.rpartition(":")[2] for image in best.images if ":" in image), "")
    state = "available" if best.available else "not available"
    evidence = f"{best.metadata.namespace}/{best.name}{f' ({tag})' if tag else ''} is {state}."
    if best.available:
        return ok(evidence)
    return missing_verdict(needed, evidence, "Nothing reacts to its objects.", "See its pods and events.")


def _is_controller_of(controller: unwatched_kinds.WorkloadControllerSchema, plural: str) -> bool:
    by_image = any(f"/{plural}:" in image or f"/{plural}@" in image for image in controller.images)
    return by_image or ("controller" in controller.name and plural in controller.name)


async def check_local_queue(context: CheckContext) -> CheckVerdict:
    queue, namespace = context.wish.demand.queue, context.wish.namespace
    if context.wish.recipe and not queue:
        return skip("The launch names no queue.")
    try:
        fleet = await context.wait_for_kinds("localqueues", "clusterqueues")
    except NotFound as error:
        reason = "There is no queue to go through."
        return missing_verdict(context.wish.needed(True), error.message, reason, "Install Kueue.")
    here = sorted(name for where, name in fleet.local_queues if where == namespace)
    listed = f"LocalQueues of {namespace}: {', '.join(here) or 'none'}."
    if not queue:
        if here:
            return _check_queues_active(listed, fleet, [fleet.local_queues[namespace, name] for name in here])
        return warn(
            listed, "A launch there has no queue to go through.", repair=_local_queue_repair(fleet, namespace, "")
        )
    door = fleet.local_queues.get((namespace, queue))
    if door is None:
        make = _local_queue_repair(fleet, namespace, queue)
        fix = f"Choose one of {', '.join(here)}." if here else ""
        return fail(listed, f"{namespace} has no LocalQueue {queue}.", fix, repair=make)
    return _check_queues_active(listed, fleet, [door])


def _check_queues_active(listed: str, fleet: Fleet, local_queues: list[LocalQueue]) -> CheckVerdict:
    for door in local_queues:
        above = fleet.cluster_queues.get(("", door.cluster_queue))
        if above is None:
            return fail(listed, f"{door.name} leads to ClusterQueue {door.cluster_queue}, which does not exist.")
        for each in (door, above):
            if each.inactive_reason or each.stop_policy not in {"", "None"}:
                why = each.inactive_reason or f"stop policy {each.stop_policy}"
                return fail(listed, f"{each.name} admits nothing: {why}.", "Ask the cluster administrator.")
    return ok(
        f"{listed} {', '.join(door.name for door in local_queues)} {'is' if len(local_queues) == 1 else 'are'} active."
    )


def _local_queue_repair(fleet: Fleet, namespace: str, name: str) -> Repair | None:
    """A repair that creates a LocalQueue for that ClusterQueue, else for the one with most GPUs; None without any."""
    queues = sorted(fleet.cluster_queues.values(), key=lambda each: (each.name != name, -each.nominal(GPU), each.name))
    if not queues:
        return None
    best = queues[0].name
    made = name or best
    words = f"Create LocalQueue {made} in namespace {namespace}, which draws on ClusterQueue {best}"
    consequences = (f"Jobs of {namespace} then use the quota of {best}.",)
    return Repair(RepairKind.QUEUE, (namespace, made, best), words, consequences)


def _find_cluster_queue(context: CheckContext, fleet: Fleet) -> ClusterQueue | None:
    door = fleet.local_queues.get((context.wish.namespace, context.wish.demand.queue))
    return fleet.cluster_queues.get(("", door.cluster_queue)) if door else None


async def check_quota(context: CheckContext) -> CheckVerdict:
    gpus = context.wish.demand.gpus
    if context.wish.recipe and (not context.wish.demand.queue or not gpus):
        return skip("The launch names no queue." if gpus else "The recipe asks for no GPU.")
    fleet = await context.wait_for_kinds("localqueues", "clusterqueues", "cohorts")
    chosen = _find_cluster_queue(context, fleet)
    queues = [chosen] if chosen else sorted(fleet.cluster_queues.values(), key=lambda each: each.name)
    if not queues or (context.wish.recipe and not chosen):
        return fail("The LocalQueue has no ClusterQueue.", "There is no quota at all.", "See the check LocalQueue.")
    evidence = "; ".join(f"{each.name}: {each.in_use(GPU)} of {each.nominal(GPU)} GPUs in use" for each in queues)
    evidence = f"{evidence}; {gpus} wanted."
    if chosen and (uncovered := sorted(_asked_resources(context) - {quota.resource for quota in chosen.quotas})):
        named = ", ".join(uncovered)
        reason = f"{chosen.name} has no quota of {named}, which the pods ask for: Kueue never admits such a job."
        return fail(evidence, reason, f"Launch without requests and limits of {named}, or have {chosen.name} cover it.")
    best = max(queues, key=lambda each: each.nominal(GPU))
    if best.nominal(GPU) >= gpus:
        return ok(evidence)
    if best.cohort and best.nominal(GPU) + _borrowable_gpus(fleet, best) >= gpus:
        return warn(evidence, f"More than {best.name} has of its own: it has to borrow in cohort {best.cohort}.")
    return fail(evidence, "The quota never reaches that far.", "Ask for more quota, or take fewer GPUs.")


def _asked_resources(context: CheckContext) -> set[str]:
    """The resources, except GPUs, that the launch's pods request; a limit counts as a request."""
    groups = (value_at(context.wish.values, path) for path in ("requests", "limits", "resources"))
    return {str(name) for group in groups if isinstance(group, Mapping) for name in group}


def _borrowable_gpus(fleet: Fleet, queue: ClusterQueue) -> int:
    others = [each for each in fleet.cluster_queues.values() if each.cohort == queue.cohort and each is not queue]
    most = sum(each.nominal(GPU) for each in others)
    limits = [quota.borrowing_limit for quota in queue.quotas if quota.resource == GPU]
    known = [limit for limit in limits if limit is not None]
    return min(most, sum(known)) if limits and len(known) == len(limits) else most


async def check_topology(context: CheckContext) -> CheckVerdict:
    ask = context.wish.demand
    if context.wish.recipe and (not ask.queue or ask.topology == "none" or not ask.gpus):
        return skip("The launch asks for no place in the network." if ask.queue else "The launch names no queue.")
    fleet = await context.wait_for_kinds("topologies", "resourceflavors", "localqueues", "clusterqueues")
    needed = context.wish.needed(True)
    if not fleet.topologies:
        return missing_verdict(needed, "There is no Topology.", "Kueue cannot place pods close together.")
    chosen = _find_cluster_queue(context, fleet)
    names = {quota.flavor for quota in chosen.quotas} if chosen else {name for _, name in fleet.flavors}
    placed = {name: flavor.topology for (_, name), flavor in fleet.flavors.items() if name in names and flavor.topology}
    evidence = "; ".join(f"flavor {name}: topology {of}" for name, of in sorted(placed.items()))
    if not placed:
        return missing_verdict(needed, "No flavor has a topology.", "Kueue cannot place pods close together.")
    known = [found for of in placed.values() if (found := fleet.topologies.get(("", of)))]
    levels = {level for each in known for level in each.levels}
    if ask.level not in levels:
        reason = f"No topology has the level {ask.level}."
        return missing_verdict(needed, evidence, reason, f"Ask for one of {', '.join(sorted(levels))}.")
    return ok(f"{evidence}; with level {ask.level}.")
