"""Checks of the cluster itself and of what a launch names in it (P01 to P03, P33 to P36)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from functools import partial
from urllib.parse import quote

from console.google.clusters import is_gke, is_older, numbers
from console.kube.kinds import KUEUE
from console.kube.nested_values import get_path as value_at
from console.kube.objects.on_demand import BuildWire, GroupWire, NamedWire
from console.preflight.check import Result, Verdict, combine, fail, half_verdict, ok, skip, together, warn
from console.preflight.context import KUBERNETES, CheckContext, permissions

FLOOR, BETTER = "1.31.7-gke.1265000", "1.32.4-gke.1236000"  # as the guides for the recipes and GKE's for A4 ask for
_JOBSET = "jobset.x-k8s.io"
_RIGHTS = (
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


async def reached(look: CheckContext) -> Verdict:
    running = (await look.get("/version", BuildWire)).git_version or "of an unknown version"
    server = look.cluster.watch.current_connection.target.cluster.server
    found = ok(f"The API server {running} at {server} answers (context {look.cluster.context}).")
    return combine(combine(found, await half_verdict(_nodes(look))), await half_verdict(_runs(look)))


async def _nodes(look: CheckContext) -> Verdict:
    fleet = await look.watched("nodes")
    return ok(f"It has {len(fleet.nodes)} nodes.") if fleet.nodes else warn("It has no node.", "Nothing can run yet.")


async def _runs(look: CheckContext) -> Verdict:
    cluster = await look.gke()
    found = f"Google calls it {cluster.path}: {cluster.status}."
    if cluster.status == "RUNNING":
        return ok(found)
    reason = cluster.message or f"Google says {cluster.status}."
    return (fail if cluster.status in {"ERROR", "STOPPING"} else warn)(found, reason, "Wait, or see `a4 clusters`.")


async def _version_here(look: CheckContext) -> Verdict:
    plane = (await look.get("/version", BuildWire)).git_version or ""
    kubelets = sorted({node.version for node in (await look.watched("nodes")).nodes.values() if node.version},
                      key=numbers)  # fmt: skip
    oldest = kubelets[0] if kubelets else ""
    told = f"Control plane {plane}" + (f", oldest node {oldest}." if oldest else ".")
    return _version_verdict(told, [each for each in (plane, oldest) if each])


async def _version_there(look: CheckContext) -> Verdict:
    cluster = await look.gke()
    pools = ", ".join(f"{pool.name} {pool.version}" for pool in cluster.pools)
    told = f"Google: {cluster.version}" + (f"; pools {pools}." if pools else ".")
    return _version_verdict(told, [cluster.version, *(pool.version for pool in cluster.pools)])


version = together(_version_here, _version_there)


def _version_verdict(told: str, versions: list[str]) -> Verdict:
    upgrade = "Upgrade the control plane, then the node pools."
    if any(is_older(each, FLOOR) for each in versions):
        return fail(told, f"The recipes need {FLOOR} or newer.", upgrade)
    if any(is_older(each, BETTER) for each in versions):
        return warn(told, f"GKE's guide for A4 asks for {BETTER} or newer.", upgrade)
    if not all(map(is_gke, versions)):
        return warn(told, "It is not a GKE version: only its first numbers were compared.")
    return ok(told)


async def regional(look: CheckContext) -> Verdict:
    cluster = await look.gke()
    where = f"{cluster.location} is a {'region' if cluster.regional else 'zone'}"
    told = f"{where}; the cluster is {'Autopilot' if cluster.autopilot else 'Standard'}."
    if cluster.autopilot:
        return fail(told, "Autopilot offers no reserved A4 node pools to be set up as the recipes need.")
    if not cluster.regional:
        return warn(told, "The control plane of a zonal cluster is away while it is upgraded.")
    return ok(told)


async def rights(look: CheckContext) -> Verdict:
    namespace = look.wish.namespace

    async def one(verb: str, resource: str, group: str, part: str, where: str) -> tuple[str, bool]:
        name, watch = f"{verb} {resource}{'/' + part if part else ''}", look.cluster.watch
        what = f"may I {name}{' in ' + where if where else ''}"
        asked = partial(watch.is_allowed, verb, resource, group=group, namespace=where, subresource=part)
        return name, await look.ask(KUBERNETES, what, asked)

    asked = [one(*right, namespace) for right in _RIGHTS]
    asked.append(one("create", "persistentvolumes", "", "", ""))
    answers = await asyncio.gather(*asked)
    refused = [name for name, allowed in answers if not allowed]
    told = f"{len(answers) - len(refused)} of {len(answers)} rights in namespace {namespace} are there."
    if not refused:
        return ok(told)
    missing = f"No permission to {', '.join(refused)}."
    if refused == ["create persistentvolumes"] and not look.wish.text("storage.nfs.server"):
        return warn(told, missing, "Only new volumes of a launch need it; existing claims do not.")
    return fail(told, missing)


async def name_free(look: CheckContext) -> Verdict:
    name, namespace = look.wish.name, look.wish.namespace
    if not name:
        return skip("No launch was named.")
    where = quote(namespace, safe="")

    async def no_release() -> Verdict:
        path, selector = f"/api/v1/namespaces/{where}/secrets", f"owner=helm,name={name}"
        if await look.names(path, "Helm releases", labelSelector=selector, limit="1"):
            return fail(f"A Helm release {name} exists in {namespace}.", "A name belongs to one release.")
        return ok(f"No Helm release in {namespace} is called {name}.")

    async def no_job() -> Verdict:
        path = f"/apis/{_JOBSET}/v1alpha2/namespaces/{where}/jobsets/{quote(name, safe='')}"
        if await look.find(path, NamedWire):
            return fail(f"A JobSet {name} exists in {namespace}.", "A name belongs to one job.")
        return ok(f"No JobSet there is called {name}.")

    return combine(*await asyncio.gather(half_verdict(no_release()), half_verdict(no_job())), sure=True)


async def builder_roles(look: CheckContext) -> Verdict:
    project = (await look.place()).project
    held = await permissions(look, project, _ADMIN)
    missing = [each for each in _ADMIN if each not in held]
    if not missing:
        return ok(f"This account may create clusters in {project}.")
    return Verdict(
        Result.NOT_APPLICABLE, f"This account lacks {', '.join(missing)} in {project}.",
        "Only who creates clusters needs these rights; launches do not.",
    )  # fmt: skip


async def named(look: CheckContext) -> Verdict:
    return combine(*[await half_verdict(half) for half in _halves(look)], sure=True)


def _halves(look: CheckContext) -> Iterator[Awaitable[Verdict]]:
    wish = look.wish
    yield _object(look, "namespace", f"/api/v1/namespaces/{quote(wish.namespace, safe='')}", wish.namespace)
    yield account(look)
    for secret in _secrets(look):
        yield _listed(look, "Secret", "secrets", secret, "Its pods do not start without it.")
    for claim in _keys(look, "storage.pvc"):
        yield _listed(look, "claim", "persistentvolumeclaims", claim, "Pods that mount it wait forever.")
    if wish.text("priorityClass") and wish.ask.queue:
        yield _priority(look, wish.text("priorityClass"))


async def account(look: CheckContext) -> Verdict:
    name = look.wish.account
    return await _object(look, "ServiceAccount", account_path(look), name, "The API server refuses pods that use it.")


def account_path(look: CheckContext) -> str:
    """URL path of the pods' ServiceAccount."""
    namespace, name = (quote(each, safe="") for each in (look.wish.namespace, look.wish.account))
    return f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"


async def _object(look: CheckContext, kind: str, path: str, name: str, reason: str = "") -> Verdict:
    where = "" if name == look.wish.namespace else f" in {look.wish.namespace}"
    if await look.find(path, NamedWire) is None:
        return fail(f"There is no {kind} {name}{where}.", reason)
    return ok(f"{kind[:1].upper()}{kind[1:]} {name} is there.")


async def _listed(look: CheckContext, kind: str, plural: str, name: str, reason: str) -> Verdict:
    """Check that an object exists by its metadata only, so that no Secret's content is transferred."""
    namespace = look.wish.namespace
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/{plural}"
    if await look.names(path, f"{kind}s", fieldSelector=f"metadata.name={name}", limit="1"):
        return ok(f"{kind[:1].upper()}{kind[1:]} {name} is there.")
    return fail(f"There is no {kind} {name} in {namespace}.", reason)


async def _priority(look: CheckContext, name: str) -> Verdict:
    group = await look.find(f"/apis/{KUEUE}", GroupWire)
    version = next(iter(group.names), "") if group else ""
    path = f"/apis/{KUEUE}/{version}/workloadpriorityclasses/{quote(name, safe='')}"
    found = await look.find(path, NamedWire) if version else None
    if found is not None:
        return ok(f"WorkloadPriorityClass {name} is there.")
    return fail(f"There is no WorkloadPriorityClass {name}.", "Kueue refuses jobs that use it.")


def _secrets(look: CheckContext) -> list[str]:
    """Names of Secrets in the values `secrets` (NAME=secret/key) and `imagePullSecrets`, without duplicates."""
    references = value_at(look.wish.values, "secrets")
    named = [str(each).partition("/")[0] for each in references.values()] if isinstance(references, Mapping) else []
    pulling = value_at(look.wish.values, "imagePullSecrets")
    return list(dict.fromkeys([*named, *(map(str, pulling) if isinstance(pulling, list | tuple) else ())]))


def _keys(look: CheckContext, path: str) -> tuple[str, ...]:
    found = value_at(look.wish.values, path)
    return tuple(found) if isinstance(found, Mapping) else ()
