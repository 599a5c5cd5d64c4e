"""Image builds and registries for a cluster: contexts, builds, logs, images."""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.errors import ApiDisabled, BadInput, ConsoleError, NotAllowed, NotFound, NotThere, Refused
from console.google.api import import_google
from console.google.bucket_paths import GcsPlace
from console.google.builds import (
    REGISTRY_KEY,
    Build,
    BuildContext,
    BuildLine,
    BuildPlan,
    BuiltImage,
    Image,
    RegistrySurvey,
    Repository,
    bundled_contexts,
    forget_build,
    pack_context,
    plan_problems,
    read_build_description,
    read_built_images,
    read_context,
    record_builds,
)
from console.launch.run_database import default_path

if TYPE_CHECKING:
    from console.google.account import GoogleAccount
    from console.google.api.artifact_registry import ArtifactRegistry
    from console.google.api.build import BuildLog, CloudBuild
    from console.google.api.cloud_storage import Buckets
    from console.launch.field_choices import FieldChoices


MAX_CONCURRENT_REPOSITORIES = 4  # repositories that are read at the same time
BUILD_POLL_SECONDS = 3.0  # seconds between two looks at a build: Cloud Logging answers sixty times a minute
MAX_LISTED_BUILDS = 50  # builds that a look at the list brings unless more are asked for
REFRESH_TIMEOUT = 10.0  # seconds for which the launch form waits to hear what became of builds that were under way


class GoogleImages:
    def __init__(self, account: GoogleAccount) -> None:
        self._account = account
        self.poll_seconds = BUILD_POLL_SECONDS
        self._listed_images: tuple[Image, ...] = ()

    async def build_location(self, project: str = "", location: str = "") -> tuple[str, str]:
        """Project and region of builds: the given, else the cluster's, else the login's. BadInput if one is unknown."""
        if project and location:
            return project, location
        try:
            place = await self._account.cluster_place()
        except NotFound as error:
            project, location = project or await self._account.default_project(), location or self._account.region
            if not (project and location):
                hint = "Without one, name project and region: --project ID --region us-central1."
                raise BadInput(error.message, hint) from error
            return project, location
        return project or place.project, location or place.region

    async def _builds_client(self, project: str = "", location: str = "") -> CloudBuild:
        where = await self.build_location(project, location)
        return await self._account.client("build", lambda api, login: api.CloudBuild(login, *where))

    async def _buckets_client(self, project: str) -> Buckets:
        return await self._account.client("cloud_storage", lambda api, login: api.Buckets(login, project))

    async def list_contexts(self) -> tuple[BuildContext, ...]:
        """The build contexts included in this program; needs no cluster."""
        return await asyncio.to_thread(bundled_contexts)

    async def find_context(self, name: str) -> BuildContext:
        """The included context of that name. Raises NotThere, which lists the known ones."""
        known = await self.list_contexts()
        found = next((each for each in known if each.name == name), None)
        if found is None:
            names = ", ".join(each.name for each in known)
            raise NotThere(f"There is no build context {name}.", f"There are {names}; --file DIR takes your own.")
        return found

    async def read_context(self, path: Path) -> BuildContext:
        """The build context in the person's folder. Raises BadInput if there is none or it is broken."""
        return await asyncio.to_thread(read_context, path)

    async def new_plan(self, context: BuildContext, project: str = "", location: str = "") -> BuildPlan:
        """A new build plan in this project and region (default: the cluster's), with a Docker repository, if any."""
        project, location = await self.build_location(project, location)
        plan = BuildPlan(context, project, location)
        if REGISTRY_KEY not in context.wanted or context.defaults.get(REGISTRY_KEY):
            return plan
        found = []
        try:
            found = [
                each
                for each in await (await self._registry_client()).repositories(project, location)
                if each.format == "DOCKER"
            ]
        except ApiDisabled:
            raise
        except NotAllowed:
            pass  # whoever may push to a repository need not be allowed to list them: its name is asked for
        return replace(plan, substitutions={REGISTRY_KEY: found[0].address}) if found else plan

    async def describe_build(self, plan: BuildPlan) -> Mapping[str, Any]:
        """The build request without its source, as it would be sent. BadInput for a wrong description or machine."""
        description = await asyncio.to_thread(read_build_description, plan.context.folder, plan.context.dockerfile)
        module = await import_google("console.google.api.build")
        message: Any = module.build_message(plan, description)
        fields: Mapping[str, Any] = type(message).to_dict(message, use_integers_for_enums=False)
        filled: Mapping[str, Any] = _drop_empty(fields)
        return filled

    async def start_build(self, plan: BuildPlan) -> Build:
        """Upload the context and start the build, which then runs. Raises BadInput for an invalid plan, NotAllowed."""
        self._account.require_writable(f"build {plan.image}")
        if wrong := plan_problems(plan):
            raise BadInput(wrong[0][1])
        description = await asyncio.to_thread(read_build_description, plan.context.folder, plan.context.dockerfile)
        module = await import_google("console.google.api.build")
        module.build_message(plan, description)  # it is checked before anything is sent
        source = await self._upload_context(plan)
        build = await (await self._builds_client(plan.project, plan.location)).create(
            plan, description, source.bucket, source.path
        )
        await self._record_in_thread([build])
        return build

    async def _upload_context(self, plan: BuildPlan) -> GcsPlace:
        buckets = await self._buckets_client(plan.project)
        bucket = f"{plan.project.replace(':', '_').replace('.', '_')}_cloudbuild"
        try:
            if not await self._owns_bucket(buckets, bucket):
                await buckets.create(bucket, "US" if plan.location == "global" else plan.location)
            name = f"source/{time.time():.3f}-{uuid.uuid4().hex}.tgz"
            with tempfile.TemporaryDirectory(prefix="a4-build-") as folder:
                packed = Path(folder) / "source.tgz"
                await asyncio.to_thread(pack_context, plan.context.folder, packed)
                await buckets.upload(GcsPlace(bucket, name), packed)
        finally:
            await buckets.close()
        return GcsPlace(bucket, name)

    async def _owns_bucket(self, buckets: Buckets, name: str) -> bool:
        """Whether the project owns the bucket, also for a login that may not list buckets."""
        try:
            return await buckets.is_owned(name)
        except ApiDisabled:
            raise
        except NotAllowed:
            try:
                found = await buckets.read_bucket(name)
            except NotFound:
                return False
        number: str = await self._account.call("projects", lambda api, login: api.read_number(login, buckets.project))
        return found.project == number

    async def list_builds(
        self, limit: int = MAX_LISTED_BUILDS, project: str = "", location: str = ""
    ) -> tuple[Build, ...]:
        found = await (await self._builds_client(project, location)).list_latest(limit)
        await self._record_builds(found)
        return found

    async def read_build(self, number: str, project: str = "", location: str = "") -> Build:
        build = await (await self._builds_client(project, location)).read_build(number)
        await self._record_builds([build])
        return build

    async def cancel_build(self, number: str, project: str = "", location: str = "") -> Build:
        """Cancel a running build, by default in the cluster's project and region. Raises Refused if it has ended."""
        self._account.require_writable(f"cancel build {number}")
        builds = await self._builds_client(project, location)
        found = await builds.read_build(number)
        if found.over:
            raise Refused(f"Build {number} is over: {found.status}.", "There is nothing to cancel.")
        ended = await builds.cancel(number)
        await self._record_builds([ended])
        return ended

    async def follow_log(
        self, number: str, *, follow: bool = True, project: str = "", location: str = ""
    ) -> AsyncGenerator[BuildLine, None]:
        """Yield the lines of a build's log until the build has ended, or without `follow` those so far."""
        builds = await self._builds_client(project, location)
        build = await builds.read_build(number)
        stored = await self._buckets_client(build.project) if build.log_bucket else None
        log: BuildLog = await self._account.client("build", lambda api, login: api.BuildLog(login, build, stored))
        over = build.over
        while True:
            async with aclosing(log.read_new_lines()) as lines:
                async for line in lines:
                    yield line
            if over or not follow:
                break
            await asyncio.sleep(self.poll_seconds)
            build = await builds.read_build(number)
            over = build.over  # one more look: its last lines came before its end
        await self._record_builds([build])

    async def create_repository(self, project: str, location: str, name: str) -> Repository:
        self._account.require_writable(f"create repository {name}")
        return await (await self._registry_client()).create_repository(project, location, name)

    async def survey_registry(self, project: str = "", location: str = "") -> RegistrySurvey:
        """All images in a region (default: the cluster's) and its multi-region; raises only errors of the region."""
        registries, (project, location) = await self._registry_client(), await self.build_location(project, location)
        around, room = location.partition("-")[0], asyncio.Semaphore(MAX_CONCURRENT_REPOSITORIES)
        places = [location, around] if around in {"us", "europe", "asia"} else [location]
        unread: list[tuple[str, str]] = []

        async def repositories_in(place: str) -> tuple[Repository, ...]:
            try:
                return await registries.repositories(project, place)
            except ConsoleError as error:
                if place == location:
                    raise
                unread.append((place, error.message))
                return ()

        async def images_of(repository: Repository) -> tuple[Image, ...]:
            async with room:
                try:
                    return await registries.images(repository)
                except ConsoleError as error:
                    unread.append((repository.address, error.message))
                    return ()

        found = [each for several in await asyncio.gather(*map(repositories_in, places)) for each in several]
        answers = await asyncio.gather(*(images_of(each) for each in found if each.format == "DOCKER"))
        images = sorted((each for several in answers for each in several), key=lambda each: -each.uploaded)
        self._listed_images = tuple(images)
        return RegistrySurvey(tuple(found), self._listed_images, tuple(unread))

    async def _registry_client(self) -> ArtifactRegistry:
        return await self._account.client("artifact_registry", lambda api, login: api.ArtifactRegistry(login))

    @property
    def _record_path(self) -> Path:
        return (self._account.practice_folder or default_path().parent) / "images.json"

    async def _record_in_thread(self, builds: list[Build]) -> None:
        await asyncio.to_thread(record_builds, self._record_path, builds)

    async def _record_builds(self, builds: Sequence[Build]) -> None:
        known = {each.build for each in await asyncio.to_thread(read_built_images, self._record_path)}
        await self._record_in_thread([each for each in builds if each.id in known or each.succeeded])

    async def image_choices(self, choices: FieldChoices) -> FieldChoices:
        """The images that a form offers: recently built ones, then those in `choices`, then those in the registry."""
        made = await asyncio.to_thread(read_built_images, self._record_path)
        if any(each.under_way for each in made):
            await self._refresh_recorded([each for each in made if each.under_way])
            made = await asyncio.to_thread(read_built_images, self._record_path)
        about = dict(choices.details)
        names: dict[str, None] = {}
        for each in made:
            if each.status == "SUCCESS" or each.under_way:
                names[each.image] = None
                about[each.image] = "built" if each.status == "SUCCESS" else "being built"
        names |= dict.fromkeys(choices.names)
        for image in self._listed_images:
            for reference in image.references:
                names[reference] = None
                about.setdefault(reference, "in the registry")
        return replace(choices, names=tuple(names), details=about, why="" if names else choices.why)

    async def _refresh_recorded(self, images: Sequence[BuiltImage]) -> None:
        """Update the state of recorded builds that were still running, as far as Google answers."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REFRESH_TIMEOUT):
                for each in images:
                    with suppress(ConsoleError):
                        try:
                            await self.read_build(each.build, each.project, each.location)
                        except NotFound:
                            await asyncio.to_thread(forget_build, self._record_path, each.build)


def _drop_empty(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: found for key, value in tree.items() if (found := _drop_empty(value)) not in ({}, [], "", 0)}
    return [_drop_empty(each) for each in tree] if isinstance(tree, list) else tree
