"""Google.devtools.cloudbuild.v1: builds that read their source, print a log, push images, fail or are cancelled."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import grpc
from google.cloud.devtools import cloudbuild_v1 as api

from practice.google.bucket_store import BucketStore
from practice.google.build_log_entries import LogEntries
from practice.google.cloud import PROJECT, REGION, not_found_error
from practice.google.dockerfile import OutputLine, docker_build_output
from practice.google.longrunning import operation_message
from practice.google.registry import ADDRESS, RegistryStore
from practice.google.serving import Method, RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.longrunning.operations_pb2 import Operation

    from practice.clock import Timer
    from practice.google.cloud import LongOperation, PracticeGoogle

STATUS: Any = api.Build.Status
SERVICE_PATH = "/google.devtools.cloudbuild.v1.CloudBuild"
KIND = "CREATE_BUILD"
_SUBSTITUTION = re.compile(r"\$\{?(_[A-Z][A-Z0-9_]*|PROJECT_ID|BUILD_ID|LOCATION)\}?")
_IMAGE_BYTES = 15_100_000_000
_DOCKER = "gcr.io/cloud-builders/docker"
HOUR = 3600.0


class BuildStore:
    """The builds of practice Google, latest first."""

    def __init__(self, google: PracticeGoogle) -> None:
        self.world = google
        self.ledger, self.shelf, self.vault = (
            google.service_state(LogEntries),
            google.service_state(RegistryStore),
            google.service_state(BucketStore),
        )
        self.builds: dict[tuple[str, str, str], api.Build] = {}
        self._timers: dict[str, Timer] = {}
        self._works: dict[str, LongOperation] = {}
        states = STATUS
        image = f"{ADDRESS}/unified-testbed-pytorch"
        self._add_finished_build(
            "testbed", f"{ADDRESS}/testbed:nemo25.04-gib1.0.6-A4", 12 * 24 * HOUR, 1410, states.SUCCESS
        )
        self._add_finished_build("unified-testbed", f"{image}:25.06-py3", 3 * 24 * HOUR, 1122, states.SUCCESS)
        self._add_finished_build(
            "unified-testbed",
            f"{image}:25.12-py3",
            5 * HOUR,
            96,
            states.FAILURE,
            "manifest for nvcr.io/nvidia/pytorch:25.12-missing not found: manifest unknown",
        )
        self._add_finished_build("own", f"{ADDRESS}/own:latest", 4 * HOUR, 310, states.CANCELLED)

    def _add_finished_build(self, name: str, image: str, ago: float, took: float, status: Any, why: str = "") -> None:
        """Add a finished build, begun `ago` seconds before the opening, that took `took` seconds, with a short log."""
        start = self.world.opening - ago
        number = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{image}{status.name}"))
        base, _, tag = image.rpartition(":")
        substitutions = {"_ARTIFACT_REGISTRY": ADDRESS, "_IMAGE_NAME": base.rpartition("/")[2], "_IMAGE_TAG": tag}
        made = api.Build(
            name=f"projects/{PROJECT}/locations/{REGION}/builds/{number}",
            id=number,
            project_id=PROJECT,
            status=status,
            create_time=_to_datetime(start - 3),
            start_time=_to_datetime(start),
            finish_time=_to_datetime(start + took),
            images=[image],
            substitutions=substitutions,
            timeout=timedelta(hours=2),
            status_detail=why,
            log_url=f"https://console.cloud.google.com/cloud-build/builds;region={REGION}/{number}?project=1001",
            options=api.BuildOptions(machine_type="E2_HIGHCPU_32", logging="CLOUD_LOGGING_ONLY"),
        )
        if status is STATUS.SUCCESS:
            made.results = api.Results(images=[api.BuiltImage(name=image, digest=self._image_digest(image))])
        self.builds[PROJECT, REGION, number] = made
        begun = ((0, f'starting build "{number}"'), (2, "FETCHSOURCE"), (5, "BUILD"), (6, f"Step 1/6 : FROM {name}"))
        for at, text in begun:
            self.ledger.add(PROJECT, number, text, start + at)
        if why:
            self.ledger.add(PROJECT, number, f"ERROR: {why}", start + took - 1)
        words = {"SUCCESS": "DONE", "CANCELLED": "CANCELLED"}.get(status.name, "ERROR")
        self.ledger.add(PROJECT, number, words, start + took)

    def _image_digest(self, image: str) -> str:
        base, _, tag = image.rpartition(":")
        for each in self.shelf.images.values():
            if each.uri.startswith(f"{base}@") and tag in each.tags:
                return str(each.uri.partition("@")[2])
        return ""

    def find(self, name: str, project: str, number: str) -> api.Build:
        """The build named by its full name, or by project and id."""
        parts = name.split("/")
        key = (parts[1], parts[3], parts[5]) if len(parts) == 6 else (project, "global", number)
        if key not in self.builds:
            raise not_found_error(f"build {key[2]}")
        return self.builds[key]

    def start_build(self, project: str, location: str, build: api.Build) -> LongOperation:
        number = str(uuid.uuid4())
        made = api.Build(build)
        made.id, made.project_id = number, project
        made.name = f"projects/{project}/locations/{location}/builds/{number}"
        made.status = STATUS.QUEUED
        made.create_time = _to_datetime(self.world.clock.now())
        made.log_url = f"https://console.cloud.google.com/cloud-build/builds;region={location}/{number}?project=1001"
        _fill_in_substitutions(made)
        modes = api.BuildOptions.LoggingMode
        if made.options.logging in {modes.GCS_ONLY, modes.LEGACY, modes.LOGGING_UNSPECIFIED} and not made.logs_bucket:
            made.logs_bucket = "gs://1001.cloudbuild-logs.googleusercontent.com"
        self.builds[project, location, number] = made
        work = self.world.start_operation(
            KIND,
            f"projects/{project}/locations/{location}/",
            10**9,
            lambda: made,
            api.BuildOperationMetadata(build=made),
        )
        self._works[number] = work
        self._call_later(number, 2.0, lambda: self._run_build(made))
        return work

    def _call_later(self, number: str, seconds: float, function: Callable[[], None]) -> None:
        self._timers[number] = self.world.clock.call_later(seconds, function)

    def _run_build(self, build: api.Build) -> None:
        build.status = STATUS.WORKING
        build.start_time = _to_datetime(self.world.clock.now())
        lines = list(self._output_lines(build))
        if why := self.world.failing.get(KIND, ""):
            lines = [*lines[: len(lines) // 2], OutputLine(f"ERROR: {why}", 0.5, why)]
        self._print_lines(build, iter(lines), build.timeout.total_seconds())

    def _print_lines(self, build: api.Build, lines: Iterator[OutputLine], left: float) -> None:
        """Print the next line of a build and schedule the others, until none is left or `left` seconds are over."""
        line = next(lines, None)
        if line is None:
            self._end_build(build, STATUS.SUCCESS)
            return

        def come() -> None:
            if line.seconds > left:
                self._print_line(build, "TIMEOUT")
                self._print_line(build, "ERROR: context deadline exceeded")
                self._end_build(build, STATUS.TIMEOUT, "The build timed out.")
                return
            self._print_line(build, line.text)
            if line.failure:
                self._print_line(build, "ERROR")
                why = f'build step 0 "{_DOCKER}" failed: step exited with non-zero status: 1'
                self._print_line(build, f"ERROR: {why}")
                self._end_build(build, STATUS.FAILURE, line.failure)
                return
            self._print_lines(build, lines, left - line.seconds)

        self._call_later(build.id, line.seconds, come)

    def _output_lines(self, build: api.Build) -> Iterator[OutputLine]:
        source = build.source.storage_source
        place = f"gs://{source.bucket}/{source.object_}"
        yield OutputLine(f'starting build "{build.id}"', 0.2)
        yield OutputLine("FETCHSOURCE", 0.5)
        held = self.vault.buckets.get(source.bucket)
        thing = held.objects.get(source.object_) if held else None
        if thing is None:
            yield OutputLine(f"could not resolve source: {place} does not exist", 0.5, f"{place} does not exist")
            return
        yield OutputLine(f"Fetching storage object: {place}#{thing.generation}", 0.5)
        yield OutputLine(f"Copying {place}#{thing.generation}... [1 files][{len(thing.content) / 1024:6.1f} KiB]", 0.5)
        yield OutputLine("BUILD", 0.2)
        yield OutputLine(f"Already have image (with digest): {_DOCKER}", 0.2)
        for step in build.steps:
            tag = next((each.partition("=")[2] for each in step.args if each.startswith("--tag=")), "")
            yield from docker_build_output(thing.content, list(step.args), tag)
        yield OutputLine("PUSH", 0.2)
        for image in build.images:
            yield OutputLine(f"Pushing {image}", 0.5)
            yield OutputLine(f"The push refers to repository [{image.rpartition(':')[0]}]", 1.0)
            try:
                digest = self.shelf.push_image(image, _IMAGE_BYTES, self.world.clock.now())
            except KeyError:
                why = f'name unknown: Repository "{image.split("/")[2] if image.count("/") > 1 else image}" not found'
                yield OutputLine(why, 1.0, why)
                return
            build.results.images.append(api.BuiltImage(name=image, digest=digest))
            yield OutputLine(f"{image.rpartition(':')[2]}: digest: {digest} size: 12871", 3.0)
        yield OutputLine("DONE", 0.3)

    def _print_line(self, build: api.Build, text: str) -> None:
        now = self.world.clock.now()
        modes = api.BuildOptions.LoggingMode
        if build.options.logging not in {modes.GCS_ONLY, modes.NONE}:
            self.ledger.add(build.project_id, build.id, text, now)
        if build.logs_bucket:
            bucket = build.logs_bucket.removeprefix("gs://")
            held = self.vault.buckets.get(bucket)
            if held is not None:
                name = f"log-{build.id}.txt"
                before = held.objects[name].content if name in held.objects else b""
                self.vault.put(bucket, name, before + text.encode() + b"\n", "text/plain")

    def _end_build(self, build: api.Build, status: Any, why: str = "") -> None:
        build.status, build.status_detail = status, why
        build.finish_time = _to_datetime(self.world.clock.now())
        self._works[build.id].result = build
        self._works[build.id].done = True
        self._timers.pop(build.id, None)

    def cancel(self, build: api.Build) -> api.Build:
        if build.id not in self._timers:
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, "generic::failed_precondition: build is finished")
        self._timers[build.id].cancel()
        self._print_line(build, "CANCELLED")
        self._print_line(build, "ERROR: context canceled")
        self._end_build(build, STATUS.CANCELLED)
        return build


def _fill_in_substitutions(build: api.Build) -> None:
    """Fill in substitutions. Raises RefusalError (INVALID_ARGUMENT) for one without a value or use."""
    values = dict(build.substitutions)
    known = {**values, "PROJECT_ID": build.project_id, "BUILD_ID": build.id, "LOCATION": build.name.split("/")[3]}
    used: set[str] = set()

    def value(match: re.Match[str]) -> str:
        used.add(match[1])
        if match[1] not in known:
            words = f'invalid build: key in the template "{match[1]}" is not matched in the substitution data'
            raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, words)
        return known[match[1]]

    for step in build.steps:
        step.args = [_SUBSTITUTION.sub(value, each) for each in step.args]
    build.images = [_SUBSTITUTION.sub(value, each) for each in build.images]
    unused = set(values) - used
    strict = build.options.substitution_option == api.BuildOptions.SubstitutionOption.MUST_MATCH
    if unused and strict and not build.options.automap_substitutions:
        words = f'invalid build: key in the substitution data "{min(unused)}" is not matched in the template'
        raise RefusalError(grpc.StatusCode.INVALID_ARGUMENT, words)


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def grpc_methods(google: PracticeGoogle) -> dict[str, Method]:
    yard = google.service_state(BuildStore)

    def place_of(parent: str, project: str) -> tuple[str, str]:
        parts = parent.split("/")
        return (parts[1], parts[3]) if len(parts) == 4 else (project, "global")

    async def create_build(request: api.CreateBuildRequest) -> Operation:
        return operation_message(yard.start_build(*place_of(request.parent, request.project_id), request.build))

    async def list_builds(request: api.ListBuildsRequest) -> api.ListBuildsResponse:
        project, location = place_of(request.parent, request.project_id)
        found = [each for (owner, place, _), each in yard.builds.items() if (owner, place) == (project, location)]
        found.sort(key=lambda each: each.create_time, reverse=True)
        page, token = google.paginate(found, request.page_size, request.page_token)
        return api.ListBuildsResponse(builds=page, next_page_token=token)

    async def get_build(request: api.GetBuildRequest) -> api.Build:
        return yard.find(request.name, request.project_id, request.id)

    async def cancel_build(request: api.CancelBuildRequest) -> api.Build:
        return yard.cancel(yard.find(request.name, request.project_id, request.id))

    return {
        f"{SERVICE_PATH}/CreateBuild": Method(api.CreateBuildRequest, create_build),
        f"{SERVICE_PATH}/ListBuilds": Method(api.ListBuildsRequest, list_builds),
        f"{SERVICE_PATH}/GetBuild": Method(api.GetBuildRequest, get_build),
        f"{SERVICE_PATH}/CancelBuild": Method(api.CancelBuildRequest, cancel_build),
    }
