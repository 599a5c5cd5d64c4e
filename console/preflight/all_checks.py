"""Runs the preflight checks concurrently with time limits, and applies fixes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from console.errors import BadInput, ConsoleError, NotFound, Unreachable
from console.kube.nested_values import Value
from console.kube.stream_completeness import SERVER_CLOCK
from console.kube.watched_kinds import kind_named
from console.preflight import cluster, images, machines, storage
from console.preflight.check import (
    Check,
    CheckContext,
    CheckedCluster,
    CheckVerdict,
    LaunchNeeds,
    Repair,
    RepairKind,
    Result,
    SharedRequests,
    name_of,
    verdict_of_error,
)

if TYPE_CHECKING:
    from console.launch.recipes import LaunchPlan

    PlanValues = Callable[[LaunchPlan], Mapping[str, Value]]


@dataclass(frozen=True, slots=True)
class CheckSpec:
    id: str
    title: str
    run_check: Callable[[CheckContext], Awaitable[CheckVerdict]]
    fix: str  # what mends it, where the check itself knows nothing better
    command: str = ""

    @property
    def area(self) -> str:
        return next(area for area, ids in _CHECKS_BY_AREA.items() if self.id in ids)


BLOCKING_CHECKS = frozenset({
    "P07", "P08", "P09", "P10", "P11", "P12", "P14", "P15", "P16", "P17", "P18", "P19", "P20", "P21", "P22", "P23",
    "P24", "P25", "P27", "P28", "P36",
})  # fmt: skip
"""Checks whose failure keeps a launch's pods from running; others are of the cluster, or refused by the API server."""


_CHECKS_BY_AREA = {
    "cluster": ("P01", "P02", "P03", "P33"),
    "machines": ("P04", "P05", "P06", "P07", "P08", "P13", "P29"),
    "storage": ("P09", "P10", "P11", "P12", "P19", "P20", "P21", "P22"),
    "queues": ("P14", "P15", "P16", "P17", "P18"),
    "images": ("P23", "P24", "P25"),
    "network": ("P26", "P27", "P28"),
    "project": ("P30", "P31", "P32", "P35"),
    "release": ("P34", "P36"),
}


def _upgrade_command(flags: str) -> str:
    return f"gcloud container clusters update NAME {flags}"


def _list_release_command(name: str, version: str) -> str:
    place = f"https://github.com/kubernetes-sigs/{name}/releases/download/{version}/manifests.yaml"
    return f"kubectl apply --server-side -f {place}"


CHECKS: tuple[CheckSpec, ...] = (
    CheckSpec(
        "P01", "Cluster reachable", cluster.check_api_server, "Connect to it: `a4 clusters` lists them, C switches."
    ),
    CheckSpec("P02", "GKE version", cluster.check_version, "Upgrade the control plane, then the node pools."),
    CheckSpec("P03", "Regional Standard cluster", cluster.check_regional, "Make another cluster."),
    CheckSpec("P04", "A4 node pool", machines.check_a4_pool, "Add a node pool of a4-highgpu-8g, or nodes to it."),
    CheckSpec(
        "P05", "Dense deployment", machines.check_dense_reservation, "Take the machines from a dense reservation."
    ),
    CheckSpec(
        "P06", "GPUs ready and free", machines.check_free_gpus, "Wait for machines; see `a4 nodes` for what is wrong."
    ),
    CheckSpec("P07", "GPU taint tolerated", machines.check_taints, "Add a toleration under placement.tolerations."),
    CheckSpec(
        "P08",
        "Workload Identity Federation",
        machines.check_workload_identity,
        "Set the cluster's workload pool and GKE_METADATA on its node pools.",
    ),
    CheckSpec(
        "P09",
        "GCS FUSE CSI driver",
        storage.check_gcs_fuse,
        "Enable the add-on.",
        _upgrade_command("--update-addons=GcsFuseCsiDriver=ENABLED"),
    ),
    CheckSpec(
        "P10",
        "GCS FUSE in the host network",
        storage.check_fuse_on_host,
        "Upgrade the cluster, or launch without the host's network.",
    ),
    CheckSpec(
        "P11",
        "Bucket in the same region",
        storage.check_bucket_location,
        "Use or make a bucket in the cluster's region.",
    ),
    CheckSpec(
        "P12",
        "Bucket access of the pods",
        storage.check_bucket_access,
        "Give the pods' account Storage Object Admin and Legacy Bucket Reader on it.",
    ),
    CheckSpec(
        "P13",
        "DCGM metrics",
        machines.check_dcgm,
        "Switch on DCGM in the cluster's monitoring.",
        _upgrade_command("--monitoring=SYSTEM,DCGM"),
    ),
    CheckSpec("P14", "JobSet", cluster.check_jobset, "Install JobSet.", _list_release_command("jobset", "v0.12.0")),
    CheckSpec("P15", "Kueue", cluster.check_kueue, "Install Kueue.", _list_release_command("kueue", "v0.18.4")),
    CheckSpec("P16", "LocalQueue", cluster.check_local_queue, "Create the LocalQueue, or choose one that is there."),
    CheckSpec("P17", "Quota", cluster.check_quota, "Raise the ClusterQueue's nominalQuota, or take fewer GPUs."),
    CheckSpec(
        "P18",
        "Topology-aware scheduling",
        cluster.check_topology,
        "Create a Topology and name it in the ResourceFlavor; or ask for no topology.",
    ),
    CheckSpec("P19", "Filestore", storage.check_nfs, "Make the instance or the claim, in the cluster's network."),
    CheckSpec(
        "P20",
        "Filestore CSI driver",
        storage.check_nfs_driver,
        "Enable the add-on.",
        _upgrade_command("--update-addons=GcpFilestoreCsiDriver=ENABLED"),
    ),
    CheckSpec(
        "P21",
        "Lustre CSI driver, legacy port",
        storage.check_lustre_driver,
        "Enable the add-on.",
        storage.LUSTRE_COMMAND,
    ),
    CheckSpec(
        "P22", "Lustre instance", storage.check_lustre, "Make an instance in the cluster's network, or choose one."
    ),
    CheckSpec(
        "P23", "Image", images.check_image_exists, "Build it, name another, or give the nodes the right to read it."
    ),
    CheckSpec(
        "P24", "Image fits B200", images.check_image_fits_b200, "Take an image with CUDA 12.8 or newer, and sshd."
    ),
    CheckSpec("P25", "gIB image", images.check_gib_image, "Name another tag of gIB."),
    CheckSpec("P26", "Egress", machines.check_egress, "Set up Cloud NAT, or take an image that has all it needs."),
    CheckSpec(
        "P27",
        "Multi-network",
        machines.check_interfaces,
        "Create the Network objects, or launch with the host's network.",
    ),
    CheckSpec(
        "P28", "Ports between pods", machines.check_network_policies, "Allow these ports between pods of the namespace."
    ),
    CheckSpec("P29", "Local SSD", machines.check_local_ssd, "Use a pool with local SSDs, or drop the mount."),
    CheckSpec("P30", "Google services enabled", images.check_services, "Enable them."),
    CheckSpec("P31", "Image repository", images.check_repository, "Create the repository."),
    CheckSpec(
        "P32",
        "Rights to build images",
        images.check_build_permissions,
        "Ask for Cloud Build Editor and Artifact Registry Writer.",
    ),
    CheckSpec(
        "P33", "Rights in the namespace", cluster.check_permissions, "Ask for the role Kubernetes Engine Developer."
    ),
    CheckSpec("P34", "Name is free", cluster.check_name_free, "Launch under another name, or stop what has this one."),
    CheckSpec(
        "P35",
        "Rights to create clusters",
        cluster.check_builder_roles,
        "Ask for Kubernetes Engine Admin, Project IAM Admin and Service Account Admin.",
    ),
    CheckSpec("P36", "Objects it names", cluster.check_named_objects, "Create it, or name one that is there."),
)

CHECK_BY_NAME = {name_of(each.title): each for each in CHECKS} | {each.id.lower(): each for each in CHECKS}  # or id


ADDON_TIMEOUT = 900.0  # seconds that GKE may take for an add-on
_OPERATION_POLL_SECONDS = 2.0  # seconds between two looks at an operation


async def _repair_addon(cluster: CheckedCluster, target: tuple[str, ...]) -> str:
    """Enable a GKE add-on; returns "", as `Repair.words` say enough. Raises Unreachable, also after ADDON_TIMEOUT."""
    project, location, name, addon = target
    gke = await cluster.google.account.gke()
    begun = await gke.enable_addon(await gke.read_cluster(project, location, name), addon)
    try:
        async with asyncio.timeout(ADDON_TIMEOUT):
            while not begun.over:
                await asyncio.sleep(_OPERATION_POLL_SECONDS / (20 if cluster.watch.practice else 1))
                begun = await gke.read_operation(project, location, begun.name)
    except TimeoutError as error:
        words = f"GKE has not enabled {addon} within {ADDON_TIMEOUT / 60:.0f} minutes."
        raise Unreachable(words, "It may still do so.") from error
    if begun.error:
        raise Unreachable(f"GKE could not enable {addon} in {name}: {begun.error}.", "See `a4 operations`.")
    return ""


async def _repair_services(cluster: CheckedCluster, target: tuple[str, ...]) -> str:
    project, *services = target
    for service in services:
        await cluster.google.account.enable_service(project, service)
    return f"Enabled {', '.join(services)} in project {project}."


async def _repair_repository(cluster: CheckedCluster, target: tuple[str, ...]) -> str:
    project, location, name = target
    await cluster.google.images.create_repository(project, location, name)
    return f"Created repository {name} in {location} of project {project}."


async def _repair_queue(cluster: CheckedCluster, target: tuple[str, ...]) -> str:
    namespace, name, above = target
    connection = cluster.watch.connection_for_change(f"create LocalQueue {name}")
    kind = kind_named("localqueues")
    version = await connection.discovery.version(kind)
    if not version:
        raise NotFound("This cluster has no LocalQueues: Kueue is not installed.", status=404)
    made = {
        "apiVersion": f"{kind.group}/{version}",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": above},
    }
    path = kind.path(version, quote(namespace, safe=""))
    await connection.client.request("POST", path, action=f"create LocalQueue {name}", body=msgspec.json.encode(made))
    return f"Created LocalQueue {name} in namespace {namespace}."


_REPAIR_BY_CHECK = {
    RepairKind.ADDON: _repair_addon,
    RepairKind.SERVICE: _repair_services,
    RepairKind.REPOSITORY: _repair_repository,
    RepairKind.QUEUE: _repair_queue,
}

MAX_CONCURRENT_CHECKS = 8  # checks that look at the same time
CHECK_TIMEOUT = 20.0  # seconds for one check
LAUNCH_CHECKS_TIMEOUT = 8.0  # seconds for all checks of a launch that is about to begin: Google's libraries take two
SHOW_AWAITED_AFTER = 1.0  # seconds after which it is shown what these checks wait for
RECHECK_SECONDS = 6.0  # seconds for which a check is looked at again after what it lacked was made
_CLUSTER_PLACEHOLDER = "NAME"  # stands in a command for the cluster, until its place is known


class Preflight:
    def __init__(self, cluster: CheckedCluster, values: PlanValues, *, limit_seconds: float = CHECK_TIMEOUT) -> None:
        self._cluster, self._values, self._limit = cluster, values, limit_seconds

    def launch_needs(self, plan: LaunchPlan | None = None, *, bucket: str = "", registry: str = "") -> LaunchNeeds:
        """The needs of a plan; without a plan those of any launch on the cluster."""
        if plan is None:
            return LaunchNeeds(self._cluster.watch.namespace, bucket=bucket, registry=registry)
        return LaunchNeeds(plan.namespace, plan.recipe, plan.name, self._values(plan), bucket, registry)

    def pending_checks(self, ids: Collection[str] = ()) -> tuple[Check, ...]:
        """The checks as rows that are still pending. Raises BadInput for an unknown id."""
        return tuple(
            Check(each.id, each.title, each.area, Result.COULD_NOT, "", "", each.fix) for each in select_checks(ids)
        )

    async def run(
        self, needs: LaunchNeeds, check_ids: Collection[str] = (), *, time_limit: float | None = None
    ) -> AsyncGenerator[Check, None]:
        """Yield each check (all, or those named) when it ends; `time_limit` limits the total time in seconds."""
        chosen = select_checks(check_ids)
        end = None if time_limit is None else time.monotonic() + time_limit
        questions, gate = SharedRequests(self._cluster), asyncio.Semaphore(MAX_CONCURRENT_CHECKS)

        async def run_spec(spec: CheckSpec) -> Check:
            async with gate:
                left = self._limit if end is None else max(0.0, min(self._limit, end - time.monotonic()))
                return await self._run_check(spec, CheckContext(questions, needs), left)

        tasks = [asyncio.create_task(run_spec(spec), name=f"preflight:{spec.id}") for spec in chosen]
        try:
            for ended in asyncio.as_completed(tasks):
                yield await ended
        finally:
            for task in tasks:
                task.cancel()
            questions.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def run_all(self, needs: LaunchNeeds, check_ids: Collection[str] = ()) -> tuple[Check, ...]:
        """Run the checks as `run` does, and return them in the order of the table."""
        found = [check async for check in self.run(needs, check_ids)]
        return tuple(sorted(found, key=lambda check: check.id))

    async def before_launch(self, plan: LaunchPlan, on_wait: Callable[[tuple[str, ...]], None]) -> tuple[Check, ...]:
        """The checks that could stop this launch, within `LAUNCH_CHECKS_TIMEOUT`; P08 only if it mounts buckets.

        `on_wait` gets the titles of checks without an answer, after `SHOW_AWAITED_AFTER` and whenever one of them ends.
        """
        wish, found, slow = self.launch_needs(plan), dict[str, Check](), False
        ids = BLOCKING_CHECKS if wish.buckets else BLOCKING_CHECKS - {"P08"}

        def report_open() -> None:
            nonlocal slow
            slow = True
            if left := tuple(each.title for each in select_checks(ids) if each.id not in found):
                on_wait(left)

        timer = asyncio.get_running_loop().call_later(SHOW_AWAITED_AFTER, report_open)
        try:
            async for check in self.run(wish, ids, time_limit=LAUNCH_CHECKS_TIMEOUT):
                found[check.id] = check
                if slow:
                    report_open()
        finally:
            timer.cancel()
        return tuple(found[id_] for id_ in sorted(found))

    async def repair(self, repair: Repair) -> str:
        """Apply a fix; returns what was done, as a sentence. ConsoleError on failure; NotAllowed in read-only mode."""
        self._cluster.watch.connection_for_change(repair.words[0].lower() + repair.words[1:])
        done = await _REPAIR_BY_CHECK[repair.kind](self._cluster, repair.target)
        return done or f"Enabled{repair.words.removeprefix('Enable')}."

    async def recheck_after_repair(self, needs: LaunchNeeds, id_: str) -> Check:
        """Repeat one check after a fix, until it passes, for at most RECHECK_SECONDS; returns its last result."""
        end = time.monotonic() + RECHECK_SECONDS
        while True:
            (check,) = await self.run_all(needs, (id_,))
            if check.result is Result.OK or time.monotonic() > end:
                return check
            await asyncio.sleep(0.25)

    async def _run_check(self, spec: CheckSpec, context: CheckContext, limit: float) -> Check:
        started = time.monotonic()
        try:
            async with asyncio.timeout(limit):
                verdict = await spec.run_check(context)
        except TimeoutError:
            words = f"There was no answer within {max(1, round(limit))} s."
            verdict = CheckVerdict(Result.COULD_NOT, "No result.", words, "Look again in a moment.")
        except ConsoleError as error:
            verdict = verdict_of_error(error)
        command = verdict.command or spec.command
        if verdict.result in {Result.FAIL, Result.WARN} and _CLUSTER_PLACEHOLDER in command:
            with suppress(ConsoleError):  # then the command keeps NAME in its place
                place = await context.cluster_place()
                where = f"{place.cluster} --location={place.location} --project={place.project}"
                command = command.replace(_CLUSTER_PLACEHOLDER, where)
        return Check(
            id=spec.id,
            title=spec.title,
            area=spec.area,
            result=verdict.result,
            evidence=verdict.evidence,
            reason=verdict.reason,
            fix=verdict.fix or spec.fix,
            command=command,
            repair=verdict.repair,
            looks=tuple(context.logged_requests),
            at=SERVER_CLOCK.now(),
            seconds=round(time.monotonic() - started, 3),
        )


def select_checks(check_ids: Collection[str]) -> tuple[CheckSpec, ...]:
    """The checks with these names, titles or ids; all if none is given. Raises BadInput for an unknown one."""
    if unknown := sorted(each for each in check_ids if name_of(each) not in CHECK_BY_NAME):
        there = ", ".join(name_of(each.title) for each in CHECKS)
        raise BadInput(f"There is no check {', '.join(unknown)}.", f"There are: {there}.")
    wanted = {CHECK_BY_NAME[name_of(each)].id for each in check_ids}
    return tuple(each for each in CHECKS if each.id in wanted) if wanted else CHECKS
