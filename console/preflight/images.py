"""Checks of images and builds: pullable, fit for B200, services, repository, permissions (P23 to P25, P30 to P32)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from console.errors import ApiDisabled, BadInput, ConsoleError, NotFound
from console.google.builds import ImageFacts, ImageReference
from console.kube.objects.pod import Pod
from console.kube.objects.unwatched_kinds import PodObjectSchema
from console.kube.stream_completeness import SERVER_CLOCK
from console.preflight.check import (
    KUBERNETES,
    REGISTRY,
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
    ok,
    skip,
    verdict_of,
    verdict_of_error,
    warn,
)
from console.preflight.storage import ALL_USERS

if TYPE_CHECKING:
    from console.google.builds import Build, Repository

REQUIRED_SERVICES = (
    "cloudbuild.googleapis.com",
    "artifactregistry.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "serviceusage.googleapis.com",
    "container.googleapis.com",
    "storage.googleapis.com",
    "monitoring.googleapis.com",
    "logging.googleapis.com",
)
_PULL_ROLES = frozenset(f"roles/artifactregistry.{each}" for each in ("reader", "writer", "repoAdmin", "admin")) | {
    "roles/editor",
    "roles/owner",
}
_BUILD_PERMISSIONS = (
    "cloudbuild.builds.create",
    "cloudbuild.builds.list",
    "artifactregistry.repositories.uploadArtifacts",
)
_MIN_CUDA = (12, 8)  # the first version of CUDA for B200
_CHECKED_TOOLS = ("sshd", "mpirun", "torchrun", "git")
_FIND_TOOLS_SCRIPT = (  # a login shell has paths that exec has not; what runs is there, wherever it lies
    "for p in sshd mpirun torchrun git; do command -v $p >/dev/null || [ -x /usr/sbin/$p ]"
    ' || bash -lc "command -v $p" >/dev/null 2>&1 || grep -qsa "[/]$p" /proc/[0-9]*/cmdline || echo $p; done'
)
_TOOLS = {"nccl": ("mpirun",), "connectivity": ("mpirun",), "ddp": ("torchrun",), "qwen3": ("torchrun", "git")}
"""Prefixes of recipe ids -> programs that these recipes run."""
_MAX_PODS_TRIED = 3
_LONG_QUEUE_SECONDS = 180.0  # seconds after which a build that has not begun waits for others
_MAX_BUILDS = 20  # how many of the latest builds are looked at
_RECENT_BUILDS = 5  # builds that say what is so now


async def _read_image(context: CheckContext, image: str) -> ImageFacts:
    """Read the image from its registry, with Google's login for Google's registries."""

    async def question() -> ImageFacts:
        from console.google.image_registry import RegistryClient

        return await RegistryClient(*await _registry_login(context, ImageReference.of(image))).read_image(image)

    return await context.send_request(REGISTRY, f"manifest of {image}", question)


async def _registry_login(context: CheckContext, image: ImageReference) -> tuple[str, str]:
    """A token for Google's registries, and the address of the practice registries; either may be empty."""
    cloud = context.cluster.google.account
    if not (image.google or cloud.practice):
        return "", ""
    try:
        reach = await cloud.open_session()
        return (await reach.token())[0], reach.practice_http
    except ConsoleError:
        return "", ""  # many images are public; the registry says what it thinks of a stranger


async def _check_node_pull_access(context: CheckContext, image: str) -> CheckVerdict:
    """Whether the nodes' service accounts may pull an image of the cluster's project."""
    cluster = await context.gke()
    named = ImageReference.of(image).repository
    if named is None or named[0] != cluster.project:
        return ok("")
    accounts = {pool.account if "@" in pool.account else "" for pool in cluster.pools if pool.accelerators}
    if "" in accounts:
        usual = f"{await context.project_number(cluster.project)}-compute@developer.gserviceaccount.com"
        accounts = (accounts - {""}) | {usual}
    project, location, name = named
    readers: Mapping[str, Collection[str]] = await context.call_google(
        f"artifactregistry: who may use {name} in {location}",
        "artifact_registry",
        lambda api, login: api.ArtifactRegistry(login).read_role_members(project, location, name),
    )
    policies = [readers, await context.project_members(cluster.project)]
    held = {name for policy in policies for role in policy.keys() & _PULL_ROLES for name in policy[role]}
    without = sorted(each for each in accounts if f"serviceAccount:{each}" not in held and not held & ALL_USERS)
    if not without:
        return ok(f"The nodes may read it, as {', '.join(sorted(accounts))}.")
    command = (
        f"gcloud artifacts repositories add-iam-policy-binding {name} --location={location} --project={project} "
        f"--role=roles/artifactregistry.reader --member=serviceAccount:{without[0]}"
    )
    evidence = f"Neither {name} nor the project gives {', '.join(without)}, as whom the nodes pull, the right to read."
    return warn(
        evidence,
        "Pods with it then wait in ImagePullBackOff.",
        "Give the nodes' account the reader's role.",
        command=command,
    )


async def check_image_exists(context: CheckContext) -> CheckVerdict:
    image = context.wish.text("image")
    if not image:
        return skip("No recipe was chosen, so no image.")
    halves = [await verdict_of(_check_pullable(context, image)), await verdict_of(_check_last_pull(context, image))]
    if halves[0].result is not Result.FAIL:
        halves.append(await verdict_of(_check_node_pull_access(context, image)))
    return combine_verdicts(*halves)


async def _check_pullable(context: CheckContext, image: str) -> CheckVerdict:
    try:
        found = await _read_image(context, image)
    except NotFound as error:
        own = image == context.wish.text("image")
        fix = "Build it (a4 build), or name another tag." if own else "Name another tag of it."
        return fail(f"{image} is not there.", error.message, fix)
    evidence = f"{image} is there ({found.bytes / 1e9:.1f} GB to pull, {found.architecture or 'unknown architecture'})."
    if found.architecture not in {"", "amd64"}:
        return fail(evidence, "A4 machines are amd64.")
    return ok(evidence)


async def _check_last_pull(context: CheckContext, image: str) -> CheckVerdict:
    fleet = await context.wait_for_kinds("events")
    mine = [each for each in fleet.events.values() if image in each.message]
    bad = [each for each in mine if each.reason == "Failed" and "pull" in each.message.lower()]
    good = [each for each in mine if each.reason == "Pulled"]
    last_bad = max((each.last for each in bad), default=0.0)
    if bad and last_bad > max((each.last for each in good), default=0.0):
        return fail(f"A node recently failed to pull it: {bad[-1].message}", "Pods with it wait in ImagePullBackOff.")
    return ok("A node recently pulled it." if good else "No event shows a pull.")


async def check_image_fits_b200(context: CheckContext) -> CheckVerdict:
    image = context.wish.text("image")
    if not image:
        return skip("No recipe was chosen, so no image.")
    try:
        return combine_verdicts(
            await _check_cuda_version(context, image), await verdict_of(_check_tools(context, image))
        )
    except NotFound:
        return skip("The image was not found: see the check Image.")
    except ConsoleError as error:
        return combine_verdicts(verdict_of_error(error), await verdict_of(_check_tools(context, image)))


async def _check_cuda_version(context: CheckContext, image: str) -> CheckVerdict:
    if context.wish.recipe and not context.wish.demand.gpus:
        return ok("The recipe asks for no GPU.")
    cuda = (await _read_image(context, image)).cuda
    if not cuda:
        return warn(
            "The image's configuration names no version of CUDA.",
            "B200 needs 12.8 or newer.",
            "See `nvcc --version` in a pod of it.",
        )
    parts = tuple(int(each) for each in cuda.split(".")[:2] if each.isdecimal())
    evidence = f"CUDA {cuda}."
    return ok(evidence) if parts >= _MIN_CUDA else fail(evidence, "B200 needs CUDA 12.8 or newer.")


async def _check_tools(context: CheckContext, image: str) -> CheckVerdict:
    """Check the image's programs in a pod that runs it, else by its configuration."""
    found = await _find_running_pod(context, image)
    if found is None:
        return await _check_tools_in_registry(context, image)
    pod, container = found
    missing = await context.send_request(
        KUBERNETES, f"exec in {pod.name}: command -v ...", lambda: _missing_tools_in_pod(context, pod, container)
    )
    if missing is None:
        return await _check_tools_in_registry(context, image)
    wanted = _tools_of_recipe(context.wish.recipe)
    needed = [each for each in missing if each in wanted]
    if not needed:
        return ok(f"Pod {pod.name}, which runs it, has {', '.join(wanted)}.")
    lacks = ", ".join(needed)
    reason = "The recipe fails where it starts them."
    return warn(f"Pod {pod.name}, which runs it, lacks {lacks}.", reason, f"Take an image that has {lacks}.")


async def _check_tools_in_registry(context: CheckContext, image: str) -> CheckVerdict:
    facts = await _read_image(context, image)
    wanted = _tools_of_recipe(context.wish.recipe)
    shown = {tool: by for tool in wanted if (by := facts.evidence_of(tool))}
    evidence = f"It has {', '.join(f'{tool} ({by})' for tool, by in shown.items())}." if shown else ""
    unknown = [tool for tool in wanted if tool not in shown]
    if not unknown:
        return ok(evidence)
    words = f"{evidence} Nothing in its configuration tells of {', '.join(unknown)}, and no pod runs it now.".strip()
    return warn(words, "Without it the recipe fails in its first step.", "Take an image that has it, or try one pod.")


def _tools_of_recipe(recipe: str) -> tuple[str, ...]:
    tools = next((tools for prefix, tools in _TOOLS.items() if recipe.startswith(prefix)), ())
    return ("sshd", *tools) if "mpirun" in tools or not recipe else tools


async def _missing_tools_in_pod(context: CheckContext, pod: Pod, container: str) -> tuple[str, ...] | None:
    from console.kube import exec as executing

    client = context.cluster.watch.connection_for_change(f"run a command in pod {pod.name}").client
    command = ["sh", "-c", _FIND_TOOLS_SCRIPT]
    code, output, _ = await executing.run_and_collect(client, pod.namespace, pod.name, command, container=container)
    words = output.decode(errors="replace").split()
    return tuple(each for each in words if each in _CHECKED_TOOLS) if code == 0 else None


async def _find_running_pod(context: CheckContext, image: str) -> tuple[Pod, str] | None:
    """A pod of the namespace that runs the image, and its container; None if there is none."""
    if context.cluster.watch.read_only or "pods" not in context.cluster.watch.fleet.links:
        return None
    pods = (await context.wait_for_kinds("pods")).pods.values()
    mine = [
        each for each in pods if each.namespace == context.wish.namespace and each.phase == "Running" and each.jobset
    ]
    for pod in sorted(mine, key=lambda each: -each.created)[:_MAX_PODS_TRIED]:
        where = quote(pod.namespace, safe="")
        found = await context.find(f"/api/v1/namespaces/{where}/pods/{quote(pod.name, safe='')}", PodObjectSchema)
        for each in (found.spec.containers if found and found.spec else None) or ():
            if each.image == image:
                return pod, each.name or ""
    return None


async def check_gib_image(context: CheckContext) -> CheckVerdict:
    image = context.wish.text("network.gib.image")
    if not image or not context.wish.flag("network.gib.enabled"):
        return skip("No recipe was chosen." if not context.wish.recipe else "The launch takes no gIB.")
    return await combine_all(_check_pullable(context, image), _check_last_pull(context, image))


# the project


async def check_services(context: CheckContext) -> CheckVerdict:
    project = (await context.cluster_place()).project
    wanted = REQUIRED_SERVICES + (("lustre.googleapis.com",) if context.wish.mounts_lustre else ())
    on: frozenset[str] = await context.call_google(
        f"serviceusage: services of {project}",
        "projects",
        lambda api, login: api.enabled_services(login, project, wanted),
    )
    off = [each for each in wanted if each not in on]
    evidence = f"{len(wanted) - len(off)} of {len(wanted)} services are enabled in {project}."
    if not off:
        return ok(evidence)
    command = f"gcloud services enable {' '.join(off)} --project={project}"
    needed = {"container.googleapis.com", "storage.googleapis.com", "lustre.googleapis.com"} & set(off)
    verdict = fail if needed or not context.wish.recipe else warn
    return verdict(
        evidence, f"Not enabled: {', '.join(off)}.", command=command, repair=enable_services_repair(project, *off)
    )


def registry_address(context: CheckContext, project: str, region: str) -> tuple[str, str, str]:
    """(project, location, name) of the repository for builds. Raises BadInput if it is invalid."""
    named = context.wish.registry
    if not named:
        image = ImageReference.of(context.wish.text("image") or "-")
        found = image.repository
        return found if found and found[0] == project else (project, region, "")
    found = ImageReference.of(f"{named}/x").repository
    if found is None:
        words = f"{named} is not a repository of Artifact Registry."
        raise BadInput(words, "Write LOCATION-docker.pkg.dev/PROJECT/NAME.")
    return found


async def check_repository(context: CheckContext) -> CheckVerdict:
    place = await context.cluster_place()
    project, location, name = registry_address(context, place.project, place.region)
    try:
        found: tuple[Repository, ...] = await context.call_google(
            f"artifactregistry: repositories of {project} in {location}",
            "artifact_registry",
            lambda api, login: api.ArtifactRegistry(login).repositories(project, location),
        )
    except ApiDisabled as error:
        repair = enable_services_repair(project, error.service)
        return fail(error.message, "There can be no repository.", "Enable the service first.", repair=repair)
    docker = [each for each in found if each.format == "DOCKER"]
    evidence = f"Docker repositories of {project} in {location}: {', '.join(each.name for each in docker) or 'none'}."
    if (name and any(each.name == name for each in docker)) or (not name and docker):
        return ok(evidence)
    made = name or "a4"
    words = f"Create Docker repository {made} in {location} of project {project}"
    paid = ("Images in it are paid for by the gigabyte.",)
    create = Repair(RepairKind.REPOSITORY, (project, location, made), words, paid)
    flags = f"--repository-format=docker --location={location} --project={project}"
    command = f"gcloud artifacts repositories create {made} {flags}"
    if any(each.name == name for each in found):
        return fail(evidence, f"{name} is there, but not for Docker images.", "Name another repository.")
    needed = Needed.YES if name else context.wish.needed(False)
    reason = f"There is no {name}." if name else "Built images have nowhere to go."
    verdict = warn if needed is Needed.NO else fail
    return verdict(evidence, reason, command=command, repair=create)


async def check_build_permissions(context: CheckContext) -> CheckVerdict:
    project = (await context.cluster_place()).project
    held = await context.granted_permissions(project, _BUILD_PERMISSIONS)
    missing = [each for each in _BUILD_PERMISSIONS if each not in held]
    evidence = f"This login holds {len(held)} of {len(_BUILD_PERMISSIONS)} rights to build in {project}."
    if missing:
        return warn(
            evidence, f"It lacks {', '.join(missing)}.", "Ask for Cloud Build Editor and Artifact Registry Writer."
        )
    return combine_verdicts(ok(evidence), await verdict_of(_check_build_quota(context, project)))


async def _check_build_quota(context: CheckContext, project: str) -> CheckVerdict:
    """Whether builds wait or failed for lack of quota, which no API reports directly."""
    region = (await context.cluster_place()).region
    latest: tuple[Build, ...] = await context.call_google(
        f"cloudbuild: builds of {project} in {region}",
        "build",
        lambda api, login: api.CloudBuild(login, project, region).list_latest(_MAX_BUILDS),
    )
    waiting = [
        each
        for each in latest
        if each.status in {"QUEUED", "PENDING"} and SERVER_CLOCK.now() - each.created > _LONG_QUEUE_SECONDS
    ]
    refused = [each for each in latest[:_RECENT_BUILDS] if "quota" in each.why.lower()]
    running = sum(each.status == "WORKING" for each in latest)
    evidence = f"Cloud Build in {region}: {running} of the last {len(latest)} builds run, {len(waiting)} wait."
    if refused:
        return warn(
            evidence, f"A build recently failed because of quota: {refused[0].why}", "Ask for more build quota."
        )
    if waiting:
        return warn(evidence, "The project's quota lets no more run at once.", "Wait, or ask for more build quota.")
    return ok(evidence)
