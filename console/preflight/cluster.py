"""Checks of the cluster itself and of what a launch names in it (P01 to P03, P33 to P36)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from functools import partial
from urllib.parse import quote

from console.google.clusters import is_gke, is_older, parse_version
from console.kube.kinds import KUEUE
from console.kube.nested_values import get_path as value_at
from console.kube.objects.on_demand import BuildWire, GroupWire, NamedWire
from console.preflight.check import Result, Verdict, combine_verdicts, combined_check, fail, ok, skip, verdict_of, warn
from console.preflight.context import KUBERNETES, CheckContext, granted_permissions

FLOOR, BETTER = "1.31.7-gke.1265000", "1.32.4-gke.1236000"  # as the guides for the recipes and GKE's for A4 ask for
_JOBSET = "jobset.x-k8s.io"
_PERMISSIONS = (
    ("create", "jobsets", _JOBSET, ""),
    ("create", "services", "", ""),
    ("create", "configmaps", "", ""),
    ("create", "secrets", "", ""),
    ("create", "persistentvolumeclaims", "", ""),
    ("get", "pods", "", "log"),
    ("create", "pods", "", "exec"),
    ("create", "pods", "", "portforward"),
)
_ADMIN = ("container.clusters.create", "resourcemanager.projects.setIamPolicy", "iam.serviceAccounts.create",
          "compute.reservations.create")  # fmt: skip


async def check_api_server(context: CheckContext) -> Verdict:
    running = (await context.get("/version", BuildWire)).git_version or "of an unknown version"
    server = context.cluster.watch.current_connection.target.cluster.server
    found = ok(f"The API server {running} at {server} answers (context {context.cluster.context}).")
    return combine_verdicts(
        combine_verdicts(found, await verdict_of(_check_nodes_listed(context))),
        await verdict_of(_check_cluster_status(context)),
    )


async def _check_nodes_listed(context: CheckContext) -> Verdict:
    fleet = await context.wait_for_kinds("nodes")
    return ok(f"It has {len(fleet.nodes)} nodes.") if fleet.nodes else warn("It has no node.", "Nothing can run yet.")


async def _check_cluster_status(context: CheckContext) -> Verdict:
    cluster = await context.gke()
    found = f"Google calls it {cluster.path}: {cluster.status}."
    if cluster.status == "RUNNING":
        return ok(found)
    reason = cluster.message or f"Google says {cluster.status}."
    return (fail if cluster.status in {"ERROR", "STOPPING"} else warn)(found, reason, "Wait, or see `a4 clusters`.")


async def _check_version_in_cluster(context: CheckContext) -> Verdict:
    plane = (await context.get("/version", BuildWire)).git_version or ""
    kubelets = sorted({node.version for node in (await context.wait_for_kinds("nodes")).nodes.values() if node.version},
                      key=parse_version)  # fmt: skip
    oldest = kubelets[0] if kubelets else ""
    told = f"Control plane {plane}" + (f", oldest node {oldest}." if oldest else ".")
    return _judge_versions(told, [each for each in (plane, oldest) if each])


async def _check_version_at_google(context: CheckContext) -> Verdict:
    cluster = await context.gke()
    pools = ", ".join(f"{pool.name} {pool.version}" for pool in cluster.pools)
    told = f"Google: {cluster.version}" + (f"; pools {pools}." if pools else ".")
    return _judge_versions(told, [cluster.version, *(pool.version for pool in cluster.pools)])


check_version = combined_check(_check_version_in_cluster, _check_version_at_google)


def _judge_versions(told: str, versions: list[str]) -> Verdict:
    upgrade = "Upgrade the control plane, then the node pools."
    if any(is_older(each, FLOOR) for each in versions):
        return fail(told, f"The recipes need {FLOOR} or newer.", upgrade)
    if any(is_older(each, BETTER) for each in versions):
        return warn(told, f"GKE's guide for A4 asks for {BETTER} or newer.", upgrade)
    if not all(map(is_gke, versions)):
        return warn(told, "It is not a GKE version: only its first numbers were compared.")
    return ok(told)


async def check_regional(context: CheckContext) -> Verdict:
    cluster = await context.gke()
    where = f"{cluster.location} is a {'region' if cluster.regional else 'zone'}"
    told = f"{where}; the cluster is {'Autopilot' if cluster.autopilot else 'Standard'}."
    if cluster.autopilot:
        return fail(told, "Autopilot offers no reserved A4 node pools to be set up as the recipes need.")
    if not cluster.regional:
        return warn(told, "The control plane of a zonal cluster is away while it is upgraded.")
    return ok(told)


async def check_permissions(context: CheckContext) -> Verdict:
    namespace = context.wish.namespace

    async def ask_permission(verb: str, resource: str, group: str, part: str, where: str) -> tuple[str, bool]:
        name, watch = f"{verb} {resource}{'/' + part if part else ''}", context.cluster.watch
        what = f"may I {name}{' in ' + where if where else ''}"
        asked = partial(watch.is_allowed, verb, resource, group=group, namespace=where, subresource=part)
        return name, await context.send_request(KUBERNETES, what, asked)

    asked = [ask_permission(*right, namespace) for right in _PERMISSIONS]
    asked.append(ask_permission("create", "persistentvolumes", "", "", ""))
    answers = await asyncio.gather(*asked)
    refused = [name for name, allowed in answers if not allowed]
    told = f"{len(answers) - len(refused)} of {len(answers)} rights in namespace {namespace} are there."
    if not refused:
        return ok(told)
    missing = f"No permission to {', '.join(refused)}."
    if refused == ["create persistentvolumes"] and not context.wish.text("storage.nfs.server"):
        return warn(told, missing, "Only new volumes of a launch need it; existing claims do not.")
    return fail(told, missing)


async def check_name_free(context: CheckContext) -> Verdict:
    name, namespace = context.wish.name, context.wish.namespace
    if not name:
        return skip("No launch was named.")
    where = quote(namespace, safe="")

    async def check_no_release() -> Verdict:
        path, selector = f"/api/v1/namespaces/{where}/secrets", f"owner=helm,name={name}"
        if await context.list_metadata(path, "Helm releases", labelSelector=selector, limit="1"):
            return fail(f"A Helm release {name} exists in {namespace}.", "A name belongs to one release.")
        return ok(f"No Helm release in {namespace} is called {name}.")

    async def check_no_job() -> Verdict:
        path = f"/apis/{_JOBSET}/v1alpha2/namespaces/{where}/jobsets/{quote(name, safe='')}"
        if await context.find(path, NamedWire):
            return fail(f"A JobSet {name} exists in {namespace}.", "A name belongs to one job.")
        return ok(f"No JobSet there is called {name}.")

    return combine_verdicts(
        *await asyncio.gather(verdict_of(check_no_release()), verdict_of(check_no_job())), all_required=True
    )


async def check_builder_roles(context: CheckContext) -> Verdict:
    project = (await context.cluster_place()).project
    held = await granted_permissions(context, project, _ADMIN)
    missing = [each for each in _ADMIN if each not in held]
    if not missing:
        return ok(f"This account may create clusters in {project}.")
    return Verdict(
        Result.NOT_APPLICABLE, f"This account lacks {', '.join(missing)} in {project}.",
        "Only who creates clusters needs these rights; launches do not.",
    )  # fmt: skip


async def check_named_objects(context: CheckContext) -> Verdict:
    return combine_verdicts(*[await verdict_of(half) for half in _named_object_checks(context)], all_required=True)


def _named_object_checks(context: CheckContext) -> Iterator[Awaitable[Verdict]]:
    wish = context.wish
    yield _check_object_exists(
        context, "namespace", f"/api/v1/namespaces/{quote(wish.namespace, safe='')}", wish.namespace
    )
    yield check_service_account(context)
    for secret in _secret_names(context):
        yield _check_listed(context, "Secret", "secrets", secret, "Its pods do not start without it.")
    for claim in _mapping_keys(context, "storage.pvc"):
        yield _check_listed(context, "claim", "persistentvolumeclaims", claim, "Pods that mount it wait forever.")
    if wish.text("priorityClass") and wish.demand.queue:
        yield _check_priority_class(context, wish.text("priorityClass"))


async def check_service_account(context: CheckContext) -> Verdict:
    name = context.wish.account
    return await _check_object_exists(
        context, "ServiceAccount", service_account_path(context), name, "The API server refuses pods that use it."
    )


def service_account_path(context: CheckContext) -> str:
    """URL path of the pods' ServiceAccount."""
    namespace, name = (quote(each, safe="") for each in (context.wish.namespace, context.wish.account))
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"


async def _check_object_exists(context: CheckContext, kind: str, path: str, name: str, reason: str = "") -> Verdict:
    where = "" if name == context.wish.namespace else f" in {context.wish.namespace}"
    if await context.find(path, NamedWire) is None:
        return fail(f"There is no {kind} {name}{where}.", reason)
    return ok(f"{kind[:1].upper()}{kind[1:]} {name} is there.")


async def _check_listed(context: CheckContext, kind: str, plural: str, name: str, reason: str) -> Verdict:
    """Check that an object exists by its metadata only, so that no Secret's content is transferred."""
    namespace = context.wish.namespace
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/{plural}"
    if await context.list_metadata(path, f"{kind}s", fieldSelector=f"metadata.name={name}", limit="1"):
        return ok(f"{kind[:1].upper()}{kind[1:]} {name} is there.")
    return fail(f"There is no {kind} {name} in {namespace}.", reason)


async def _check_priority_class(context: CheckContext, name: str) -> Verdict:
    group = await context.find(f"/apis/{KUEUE}", GroupWire)
    version = next(iter(group.names), "") if group else ""
    path = f"/apis/{KUEUE}/{version}/workloadpriorityclasses/{quote(name, safe='')}"
    found = await context.find(path, NamedWire) if version else None
    if found is not None:
        return ok(f"WorkloadPriorityClass {name} is there.")
    return fail(f"There is no WorkloadPriorityClass {name}.", "Kueue refuses jobs that use it.")


def _secret_names(context: CheckContext) -> list[str]:
    """Names of Secrets in the values `secrets` (NAME=secret/key) and `imagePullSecrets`, without duplicates."""
    references = value_at(context.wish.values, "secrets")
    named = [str(each).partition("/")[0] for each in references.values()] if isinstance(references, Mapping) else []
    pulling = value_at(context.wish.values, "imagePullSecrets")
    return list(dict.fromkeys([*named, *(map(str, pulling) if isinstance(pulling, list | tuple) else ())]))


def _mapping_keys(context: CheckContext, path: str) -> tuple[str, ...]:
    found = value_at(context.wish.values, path)
    return tuple(found) if isinstance(found, Mapping) else ()
