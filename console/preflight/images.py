"""Checks of images and builds: pullable, fit for B200, services, repository, permissions (P23 to P25, P30 to P32)."""

from __future__ import annotations

import time
from urllib.parse import quote

from console.errors import ApiDisabled, BadInput, ConsoleError, NotFound
from console.google.builds import ImageFacts, ImageReference
from console.kube.objects.on_demand import PodObjectWire
from console.kube.objects.pod import Pod
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
    ok,
    skip,
    verdict_of_error,
    warn,
)
from console.preflight.context import (
    KUBERNETES,
    REGISTRY,
    CheckContext,
    builds,
    enabled,
    permissions,
    project_members,
    project_number,
    repositories,
    repository_members,
)
from console.preflight.storage import EVERYBODY

SERVICES = (
    "cloudbuild.googleapis.com",
    "artifactregistry.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "serviceusage.googleapis.com",
    "container.googleapis.com",
    "storage.googleapis.com",
    "monitoring.googleapis.com",
    "logging.googleapis.com",
)
_READS = frozenset(f"roles/artifactregistry.{each}" for each in ("reader", "writer", "repoAdmin", "admin")) | {
    "roles/editor",
    "roles/owner",
}
_BUILD_RIGHTS = ("cloudbuild.builds.create", "cloudbuild.builds.list", "artifactregistry.repositories.uploadArtifacts")
_CUDA = (12, 8)  # the first version of CUDA for B200
_TOOLS = ("sshd", "mpirun", "torchrun", "git")
_ASK = "for p in sshd mpirun torchrun git; do command -v $p >/dev/null || [ -x /usr/sbin/$p ] || echo $p; done"
_RUNS = {"nccl": ("mpirun",), "connectivity": ("mpirun",), "ddp": ("torchrun",), "qwen3": ("torchrun", "git")}
"""Beginnings of recipes -> programs that they run."""
_PODS_TRIED = 3
_LONG = 180.0  # seconds after which a build that has not begun waits for others
_LATELY = 5  # builds that say what is so now


async def _facts(look: CheckContext, image: str) -> ImageFacts:
    """Read the image from its registry, with Google's login for Google's registries."""

    async def question() -> ImageFacts:
        from console.google.image_registry import Registry

        return await Registry(*await _login(look, ImageReference.of(image))).image(image)

    return await look.ask(REGISTRY, f"manifest of {image}", question)


async def _login(look: CheckContext, image: ImageReference) -> tuple[str, str]:
    """A token for Google's registries, and the address of the practice registries; either may be empty."""
    cloud = look.cluster.google.cloud
    if not (image.google or cloud.practice):
        return "", ""
    try:
        reach = await cloud.reach()
        return (await reach.token())[0], reach.practice_http
    except ConsoleError:
        return "", ""  # many images are public; the registry says what it thinks of a stranger


async def _nodes_read(look: CheckContext, image: str) -> Verdict:
    """Whether the nodes' service accounts may pull an image of the cluster's project."""
    cluster = await look.gke()
    named = ImageReference.of(image).repository
    if named is None or named[0] != cluster.project:
        return ok("")
    accounts = {pool.account if "@" in pool.account else "" for pool in cluster.pools if pool.accelerators}
    if "" in accounts:
        usual = f"{await project_number(look, cluster.project)}-compute@developer.gserviceaccount.com"
        accounts = (accounts - {""}) | {usual}
    policies = [await repository_members(look, *named), await project_members(look, cluster.project)]
    held = {name for policy in policies for role in policy.keys() & _READS for name in policy[role]}
    without = sorted(each for each in accounts if f"serviceAccount:{each}" not in held and not held & EVERYBODY)
    if not without:
        return ok(f"The nodes may read it, as {', '.join(sorted(accounts))}.")
    project, location, name = named
    command = (
        f"gcloud artifacts repositories add-iam-policy-binding {name} --location={location} --project={project} "
        f"--role=roles/artifactregistry.reader --member=serviceAccount:{without[0]}"
    )
    told = f"Neither {name} nor the project gives {', '.join(without)}, as whom the nodes pull, the right to read."
    return warn(told, "Pods with it then wait in ImagePullBackOff.", "Give the nodes' account the reader's role.",
                command=command)  # fmt: skip


async def image_there(look: CheckContext) -> Verdict:
    image = look.wish.text("image")
    if not image:
        return skip("No recipe was chosen, so no image.")
    halves = [await half_verdict(_pullable(look, image)), await half_verdict(_pulled_before(look, image))]
    if halves[0].result is not Result.FAIL:
        halves.append(await half_verdict(_nodes_read(look, image)))
    return combine(*halves)


async def _pullable(look: CheckContext, image: str) -> Verdict:
    try:
        found = await _facts(look, image)
    except NotFound as error:
        own = image == look.wish.text("image")
        fix = "Build it (a4 build), or name another tag." if own else "Name another tag of it."
        return fail(f"{image} is not there.", error.message, fix)
    told = f"{image} is there ({found.bytes / 1e9:.1f} GB to pull, {found.architecture or 'unknown architecture'})."
    if found.architecture not in {"", "amd64"}:
        return fail(told, "A4 machines are amd64.")
    return ok(told)


async def _pulled_before(look: CheckContext, image: str) -> Verdict:
    fleet = await look.watched("events")
    mine = [each for each in fleet.events.values() if image in each.message]
    bad = [each for each in mine if each.reason == "Failed" and "pull" in each.message.lower()]
    good = [each for each in mine if each.reason == "Pulled"]
    last_bad = max((each.last for each in bad), default=0.0)
    if bad and last_bad > max((each.last for each in good), default=0.0):
        return fail(f"A node recently failed to pull it: {bad[-1].message}", "Pods with it wait in ImagePullBackOff.")
    return ok("A node recently pulled it." if good else "No event shows a pull.")


async def fits_b200(look: CheckContext) -> Verdict:
    image = look.wish.text("image")
    if not image:
        return skip("No recipe was chosen, so no image.")
    try:
        return combine(await _cuda(look, image), await half_verdict(_tools(look, image)))
    except NotFound:
        return skip("The image was not found: see the check Image.")
    except ConsoleError as error:
        return combine(verdict_of_error(error), await half_verdict(_tools(look, image)))


async def _cuda(look: CheckContext, image: str) -> Verdict:
    if look.wish.recipe and not look.wish.ask.gpus:
        return ok("The recipe asks for no GPU.")
    cuda = (await _facts(look, image)).cuda
    if not cuda:
        return warn("The image's configuration names no version of CUDA.", "B200 needs 12.8 or newer.",
                    "See `nvcc --version` in a pod of it.")  # fmt: skip
    parts = tuple(int(each) for each in cuda.split(".")[:2] if each.isdecimal())
    told = f"CUDA {cuda}."
    return ok(told) if parts >= _CUDA else fail(told, "B200 needs CUDA 12.8 or newer.")


async def _tools(look: CheckContext, image: str) -> Verdict:
    """Check the image's programs in a pod that runs it, else by its configuration."""
    found = await _running(look, image)
    if found is None:
        return await _told_by_registry(look, image)
    pod, container = found
    missing = await look.ask(KUBERNETES, f"exec in {pod.name}: command -v ...", lambda: _asked(look, pod, container))
    if missing is None:
        return await _told_by_registry(look, image)
    wanted = _tools_of(look.wish.recipe)
    needed = [each for each in missing if each in wanted]
    if not needed:
        return ok(f"Pod {pod.name}, which runs it, has {', '.join(wanted)}.")
    return warn(f"Pod {pod.name}, which runs it, lacks {', '.join(needed)}.", "The recipe fails in its first step.")


async def _told_by_registry(look: CheckContext, image: str) -> Verdict:
    """Check the image's programs by its configuration in the registry."""
    facts = await _facts(look, image)
    wanted = _tools_of(look.wish.recipe)
    shown = {tool: by for tool in wanted if (by := facts.shows(tool))}
    told = f"It has {', '.join(f'{tool} ({by})' for tool, by in shown.items())}." if shown else ""
    unknown = [tool for tool in wanted if tool not in shown]
    if not unknown:
        return ok(told)
    words = f"{told} Nothing in its configuration tells of {', '.join(unknown)}, and no pod runs it now.".strip()
    return warn(words, "Without it the recipe fails in its first step.", "Take an image that has it, or try one pod.")


def _tools_of(recipe: str) -> tuple[str, ...]:
    tools = next((tools for prefix, tools in _RUNS.items() if recipe.startswith(prefix)), ())
    return ("sshd", *tools) if "mpirun" in tools or not recipe else tools


async def _asked(look: CheckContext, pod: Pod, container: str) -> tuple[str, ...] | None:
    from console.kube import exec as executing

    client = look.cluster.watch.connection_for_change(f"run a command in pod {pod.name}").client
    command = ["sh", "-c", _ASK]
    code, said, _ = await executing.run_and_collect(client, pod.namespace, pod.name, command, container=container)
    words = said.decode(errors="replace").split()
    return tuple(each for each in words if each in _TOOLS) if code == 0 else None


async def _running(look: CheckContext, image: str) -> tuple[Pod, str] | None:
    """A pod of the namespace that runs the image, and its container; None if there is none."""
    if look.cluster.watch.read_only or "pods" not in look.fleet.links:
        return None
    pods = (await look.watched("pods")).pods.values()
    mine = [each for each in pods if each.namespace == look.wish.namespace and each.phase == "Running" and each.jobset]
    for pod in sorted(mine, key=lambda each: -each.created)[:_PODS_TRIED]:
        where = quote(pod.namespace, safe="")
        found = await look.find(f"/api/v1/namespaces/{where}/pods/{quote(pod.name, safe='')}", PodObjectWire)
        for each in (found.spec.containers if found and found.spec else None) or ():
            if each.image == image:
                return pod, each.name or ""
    return None


async def gib(look: CheckContext) -> Verdict:
    image = look.wish.text("network.gib.image")
    if not image or not look.wish.flag("network.gib.enabled"):
        return skip("No recipe was chosen." if not look.wish.recipe else "The launch takes no gIB.")
    return combine(await half_verdict(_pullable(look, image)), await half_verdict(_pulled_before(look, image)))


# the project


async def services(look: CheckContext) -> Verdict:
    project = (await look.place()).project
    wanted = SERVICES + (("lustre.googleapis.com",) if look.wish.mounts_lustre else ())
    on = await enabled(look, project, wanted)
    off = [each for each in wanted if each not in on]
    told = f"{len(wanted) - len(off)} of {len(wanted)} services are enabled in {project}."
    if not off:
        return ok(told)
    command = f"gcloud services enable {' '.join(off)} --project={project}"
    needed = {"container.googleapis.com", "storage.googleapis.com", "lustre.googleapis.com"} & set(off)
    verdict = fail if needed or not look.wish.recipe else warn
    return verdict(told, f"Not enabled: {', '.join(off)}.", command=command, repair=enable(project, *off))


def registry_of(look: CheckContext, project: str, region: str) -> tuple[str, str, str]:
    """(project, location, name) of the repository for builds; BadInput if it is invalid."""
    named = look.wish.registry
    if not named:
        image = ImageReference.of(look.wish.text("image") or "-")
        found = image.repository
        return found if found and found[0] == project else (project, region, "")
    found = ImageReference.of(f"{named}/x").repository
    if found is None:
        words = f"{named} is not a repository of Artifact Registry."
        raise BadInput(words, "Write LOCATION-docker.pkg.dev/PROJECT/NAME.")
    return found


async def repository(look: CheckContext) -> Verdict:
    place = await look.place()
    project, location, name = registry_of(look, place.project, place.region)
    try:
        found = await repositories(look, project, location)
    except ApiDisabled as error:
        repair = enable(project, error.service)
        return fail(error.message, "There can be no repository.", "Enable the service first.", repair=repair)
    docker = [each for each in found if each.format == "DOCKER"]
    told = f"Docker repositories of {project} in {location}: {', '.join(each.name for each in docker) or 'none'}."
    if (name and any(each.name == name for each in docker)) or (not name and docker):
        return ok(told)
    made = name or "a4"
    words = f"Create Docker repository {made} in {location} of project {project}"
    paid = ("Images in it are paid for by the gigabyte.",)
    create = Repair(RepairKind.REPOSITORY, (project, location, made), words, paid)
    flags = f"--repository-format=docker --location={location} --project={project}"
    command = f"gcloud artifacts repositories create {made} {flags}"
    if any(each.name == name for each in found):
        return fail(told, f"{name} is there, but not for Docker images.", "Name another repository.")
    need = Need.YES if name else look.wish.need(False)
    reason = f"There is no {name}." if name else "Built images have nowhere to go."
    verdict = warn if need is Need.NO else fail
    return verdict(told, reason, command=command, repair=create)


async def build_rights(look: CheckContext) -> Verdict:
    project = (await look.place()).project
    held = await permissions(look, project, _BUILD_RIGHTS)
    missing = [each for each in _BUILD_RIGHTS if each not in held]
    told = f"This login holds {len(held)} of {len(_BUILD_RIGHTS)} rights to build in {project}."
    if missing:
        return warn(told, f"It lacks {', '.join(missing)}.", "Ask for Cloud Build Editor and Artifact Registry Writer.")
    return combine(ok(told), await half_verdict(_build_quota(look, project)))


async def _build_quota(look: CheckContext, project: str) -> Verdict:
    """Whether builds wait or failed for lack of quota, which no API reports directly."""
    region = (await look.place()).region
    latest = await builds(look, project, region)
    waiting = [each for each in latest if each.status in {"QUEUED", "PENDING"} and time.time() - each.created > _LONG]
    refused = [each for each in latest[:_LATELY] if "quota" in each.why.lower()]
    running = sum(each.status == "WORKING" for each in latest)
    told = f"Cloud Build in {region}: {running} of the last {len(latest)} builds run, {len(waiting)} wait."
    if refused:
        return warn(told, f"A build recently failed because of quota: {refused[0].why}", "Ask for more build quota.")
    if waiting:
        return warn(told, "The project's quota lets no more run at once.", "Wait, or ask for more build quota.")
    return ok(told)
