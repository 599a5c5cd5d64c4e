"""Checks of JobSet, Kueue and the launch's queue (P14 to P18)."""

from __future__ import annotations

from console.errors import NotFound
from console.kube.kinds import JOBSET, KUEUE, kind_named
from console.kube.objects.meta import GPU
from console.kube.objects.on_demand import GroupWire, WorkloadControllersWire, WorkloadControllerWire
from console.kube.objects.queue import ClusterQueue, LocalQueue
from console.kube.snapshot import Fleet
from console.preflight.check import (
    Need,
    Repair,
    RepairKind,
    Verdict,
    combine_verdicts,
    fail,
    missing_verdict,
    ok,
    skip,
    verdict_of,
    warn,
)
from console.preflight.context import KUBERNETES, CheckContext

_CHART_NEEDS = "v1alpha2"  # the version of JobSet's API that the chart writes
_KUEUE_READ = ("v1beta2", "v1beta1")  # versions of Kueue's API that the console reads
TITLES = {JOBSET: "JobSet", KUEUE: "Kueue"}
_KUEUE_KINDS = ("workloads", "localqueues", "clusterqueues", "resourceflavors")


async def check_jobset(context: CheckContext) -> Verdict:
    served = await _check_kinds_served(context, JOBSET, ("jobsets",), Need.YES, (_CHART_NEEDS,))
    return combine_verdicts(served, await verdict_of(_check_controller(context, JOBSET, context.wish.need(True))))


async def check_kueue(context: CheckContext) -> Verdict:
    need = context.wish.need(bool(context.wish.demand.queue))
    if need is Need.NO:
        return skip("The launch names no queue.")
    served = await _check_kinds_served(context, KUEUE, _KUEUE_KINDS, need, _KUEUE_READ)
    return combine_verdicts(served, await verdict_of(_check_controller(context, KUEUE, need)))


async def _check_kinds_served(
    context: CheckContext, group: str, plurals: tuple[str, ...], need: Need, known: tuple[str, ...]
) -> Verdict:
    """Whether the cluster serves all these kinds in a version supported here."""
    versions = {plural: await _served_version(context, group, plural) for plural in plurals}
    absent = [plural for plural, version in versions.items() if not version]
    name = TITLES[group]
    if absent:
        told = f"The cluster does not serve {', '.join(absent)} of {group}."
        return missing_verdict(need, told, f"{name} is not installed.")
    served = await context.find(f"/apis/{group}", GroupWire)
    there = served.names if served else tuple(sorted(set(versions.values())))
    told = f"{', '.join(plurals)} of {group} are served in {', '.join(there)}."
    if not set(there) & set(known):
        reason = f"Recipes and console speak {' or '.join(known)}."
        return missing_verdict(need, told, reason, f"Install a {name} that serves it.")
    return ok(told)


async def _served_version(context: CheckContext, group: str, plural: str) -> str:
    kind = kind_named(plural)

    async def question() -> str:
        return await context.cluster.watch.current_connection.catalogue.version(kind)

    return await context.send_request(KUBERNETES, f"discovery of {plural}.{group}", question)


async def _check_controller(context: CheckContext, group: str, need: Need) -> Verdict:
    word, title = group.partition(".")[0], TITLES[group]
    found = (await context.get("/apis/apps/v1/deployments", WorkloadControllersWire, limit="500")).items or []
    mine = [each for each in found if _is_controller_of(each, word)]
    if not mine:
        told = f"None of {len(found)} Deployments is the controller of {title}, by name or image."
        reason = "Nothing that can be seen reacts to its objects; only a controller outside the cluster would."
        return missing_verdict(need, told, reason, f"Install {title}, or ask the cluster administrator.")
    best = next((each for each in mine if each.available), mine[0])
    tag = next((image.rpartition(":")[2] for image in best.images if ":" in image), "")
    state = "available" if best.available else "not available"
    told = f"{best.metadata.namespace}/{best.name}{f' ({tag})' if tag else ''} is {state}."
    if best.available:
        return ok(told)
    return missing_verdict(need, told, "Nothing reacts to its objects.", "See its pods and events.")


def _is_controller_of(found: WorkloadControllerWire, word: str) -> bool:
    by_image = any(f"/{word}:" in image or f"/{word}@" in image for image in found.images)
    return by_image or ("controller" in found.name and word in found.name)


async def check_local_queue(context: CheckContext) -> Verdict:
    queue, namespace = context.wish.demand.queue, context.wish.namespace
    if context.wish.recipe and not queue:
        return skip("The launch names no queue.")
    try:
        fleet = await context.wait_for_kinds("localqueues", "clusterqueues")
    except NotFound as error:
        reason = "There is no queue to go through."
        return missing_verdict(context.wish.need(True), error.message, reason, "Install Kueue.")
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


def _check_queues_active(listed: str, fleet: Fleet, local_queues: list[LocalQueue]) -> Verdict:
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
    """A repair that creates a LocalQueue for that ClusterQueue, else for the one with the most GPUs."""
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


async def check_quota(context: CheckContext) -> Verdict:
    gpus = context.wish.demand.gpus
    if context.wish.recipe and (not context.wish.demand.queue or not gpus):
        return skip("The launch names no queue." if gpus else "The recipe asks for no GPU.")
    fleet = await context.wait_for_kinds("localqueues", "clusterqueues", "cohorts")
    chosen = _find_cluster_queue(context, fleet)
    queues = [chosen] if chosen else sorted(fleet.cluster_queues.values(), key=lambda each: each.name)
    if not queues or (context.wish.recipe and not chosen):
        return fail("The LocalQueue has no ClusterQueue.", "There is no quota at all.", "See the check LocalQueue.")
    told = "; ".join(f"{each.name}: {each.in_use(GPU)} of {each.nominal(GPU)} GPUs in use" for each in queues)
    told = f"{told}; {gpus} wanted."
    best = max(queues, key=lambda each: each.nominal(GPU))
    if best.nominal(GPU) >= gpus:
        return ok(told)
    if best.cohort and best.nominal(GPU) + _borrowable_gpus(fleet, best) >= gpus:
        return warn(told, f"More than {best.name} has of its own: it has to borrow in cohort {best.cohort}.")
    return fail(told, "The quota never reaches that far.", "Ask for more quota, or take fewer GPUs.")


def _borrowable_gpus(fleet: Fleet, queue: ClusterQueue) -> int:
    others = [each for each in fleet.cluster_queues.values() if each.cohort == queue.cohort and each is not queue]
    most = sum(each.nominal(GPU) for each in others)
    limits = [quota.borrowing_limit for quota in queue.quotas if quota.resource == GPU]
    known = [limit for limit in limits if limit is not None]
    return min(most, sum(known)) if limits and len(known) == len(limits) else most


async def check_topology(context: CheckContext) -> Verdict:
    ask = context.wish.demand
    if context.wish.recipe and (not ask.queue or ask.topology == "none" or not ask.gpus):
        return skip("The launch asks for no place in the network." if ask.queue else "The launch names no queue.")
    fleet = await context.wait_for_kinds("topologies", "resourceflavors", "localqueues", "clusterqueues")
    need = context.wish.need(True)
    if not fleet.topologies:
        return missing_verdict(need, "There is no Topology.", "Kueue cannot place pods close together.")
    chosen = _find_cluster_queue(context, fleet)
    names = {quota.flavor for quota in chosen.quotas} if chosen else {name for _, name in fleet.flavors}
    placed = {name: flavor.topology for (_, name), flavor in fleet.flavors.items() if name in names and flavor.topology}
    told = "; ".join(f"flavor {name}: topology {of}" for name, of in sorted(placed.items()))
    if not placed:
        return missing_verdict(need, "No flavor has a topology.", "Kueue cannot place pods close together.")
    known = [found for of in placed.values() if (found := fleet.topologies.get(("", of)))]
    levels = {level for each in known for level in each.levels}
    if ask.level not in levels:
        reason = f"No topology has the level {ask.level}."
        return missing_verdict(need, told, reason, f"Ask for one of {', '.join(sorted(levels))}.")
    return ok(f"{told}; with level {ask.level}.")
