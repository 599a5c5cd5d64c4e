"""Cloud Build and the logs of its builds; the only importer of google.cloud.devtools and google.cloud.logging_v2."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from google.cloud.devtools import cloudbuild_v1 as api
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.types import ListLogEntriesRequest
from google.protobuf.json_format import ParseError

from console.errors import BadInput, NotAllowed
from console.google.api.calls import LISTING_TIMEOUT, GoogleSession, list_all, name_of, seconds_of, translate_errors
from console.google.bucket_paths import GcsPlace, parse_gcs_address
from console.google.builds import Build, BuildLine, BuildPlan

if TYPE_CHECKING:
    from console.google.api.cloud_storage import Buckets


TIMEOUT = 30.0
_FORM_KEYS = {"timeout", "source"}  # of a build description: what the form says instead
_LOGGING_MODES = api.BuildOptions.LoggingMode
_IN_LOGGING_ONLY = {_LOGGING_MODES.CLOUD_LOGGING_ONLY, _LOGGING_MODES.STACKDRIVER_ONLY, _LOGGING_MODES.NONE}
_NOT_IN_LOGGING = {_LOGGING_MODES.GCS_ONLY, _LOGGING_MODES.NONE}


class CloudBuild:
    def __init__(self, session: GoogleSession, project: str, location: str) -> None:
        self._client = session.client(api.CloudBuildAsyncClient)
        self.project, self.location = project, location

    @property
    def _parent(self) -> str:
        return f"projects/{self.project}/locations/{self.location}"

    async def list_latest(self, limit: int) -> tuple[Build, ...]:
        request = api.ListBuildsRequest(parent=self._parent, project_id=self.project)
        doing, asked = f"list the builds of {self.project} in {self.location}", self._client.list_builds
        return tuple(
            await list_all(doing, asked(request, timeout=TIMEOUT), lambda each: parse_build(self.location, each), limit)
        )

    async def read_build(self, number: str) -> Build:
        request = api.GetBuildRequest(name=f"{self._parent}/builds/{number}", project_id=self.project, id=number)
        with translate_errors(f"read build {number}"):
            return parse_build(self.location, await self._client.get_build(request, timeout=TIMEOUT))

    async def create(self, plan: BuildPlan, description: Mapping[str, Any], bucket: str, source: str) -> Build:
        """Start a build of a source archive in a bucket; returns while the build runs."""
        build = build_message(plan, description)
        build.source = api.Source(storage_source=api.StorageSource(bucket=bucket, object_=source))
        request = api.CreateBuildRequest(parent=self._parent, project_id=self.project, build=build)
        with translate_errors(f"build {plan.image}"):
            # Not tried again by itself: what was lost on the way back may have begun.
            begun = await self._client.create_build(request, timeout=TIMEOUT)
            return parse_build(self.location, begun.metadata.build)

    async def cancel(self, number: str) -> Build:
        request = api.CancelBuildRequest(name=f"{self._parent}/builds/{number}", project_id=self.project, id=number)
        with translate_errors(f"cancel build {number}"):
            return parse_build(self.location, await self._client.cancel_build(request, timeout=TIMEOUT))


def build_message(plan: BuildPlan, description: Mapping[str, Any]) -> Any:
    """The Cloud Build message for a description (content of cloudbuild.yml) and the plan's choices. Raises BadInput."""
    try:
        text = json.dumps({key: value for key, value in description.items() if key not in _FORM_KEYS})
        build = api.Build.from_json(text, ignore_unknown_fields=False)
    except (ParseError, TypeError) as error:
        why = str(error).partition("\n")[0].removeprefix("Failed to parse ").strip()
        raise BadInput(f"The build configuration of {plan.context.name} cannot be used: {why}.") from error
    if not build.steps:
        raise BadInput(f"The build configuration of {plan.context.name} has no steps.", "It needs at least one.")
    substitutions = {**dict(build.substitutions), **plan.substitutions}
    build.substitutions = {name: value for name, value in substitutions.items() if name in plan.context.wanted}
    build.timeout = {"seconds": plan.time_out}
    kind = plan.machine.upper().replace("-", "_")
    machine: Any = api.BuildOptions.MachineType
    if kind not in machine.__members__:
        raise BadInput(f"Cloud Build has no machine {plan.machine}.")
    build.options.machine_type = machine[kind]
    return build


def parse_build(location: str, build: Any) -> Build:
    images = tuple(each.name for each in build.results.images)
    machine = build.options.machine_type
    failure = build.failure_info.detail if build.failure_info else ""
    return Build(
        id=build.id,
        project=build.project_id,
        location=location,
        status=name_of(build.status) if build.status else "QUEUED",
        why=(build.status_detail or failure) if name_of(build.status) not in {"SUCCESS", "WORKING", "QUEUED"} else "",
        images=images or tuple(build.images),
        digests=tuple(each.digest for each in build.results.images),
        substitutions=dict(build.substitutions),
        machine=name_of(machine).lower().replace("_", "-") if machine else "",
        time_out=build.timeout.total_seconds() if build.timeout else 0.0,
        created=seconds_of(build.create_time),
        started=seconds_of(build.start_time),
        ended=seconds_of(build.finish_time),
        log_bucket="" if build.options.logging in _IN_LOGGING_ONLY else build.logs_bucket,
        log_entries=build.options.logging not in _NOT_IN_LOGGING,
        link=build.log_url,
        tags=tuple(build.tags),
    )


PAGE_SIZE = 1000  # entries in one answer: the service allows sixty answers a minute


class BuildEntries:
    """The Cloud Logging entries of one build, polled while it runs."""

    def __init__(self, session: GoogleSession, project: str, number: str) -> None:
        self._client = session.client(LoggingServiceV2AsyncClient)
        self._project, self._build_id = project, number
        self._since_time = ""
        self._seen_ids: set[str] = set()  # names of the entries at the latest moment, which the next look finds again

    async def read_new_lines(self) -> AsyncGenerator[BuildLine, None]:
        """Yield lines that were not returned before, oldest first."""
        wanted = f'resource.type="build" AND resource.labels.build_id="{self._build_id}"'
        if self._since_time:
            wanted += f' AND timestamp>="{self._since_time}"'
        request = ListLogEntriesRequest(
            resource_names=[f"projects/{self._project}"], filter=wanted, order_by="timestamp asc", page_size=PAGE_SIZE
        )
        with translate_errors(f"read the log of build {self._build_id}"):
            until = time.monotonic() + LISTING_TIMEOUT
            async for page in (await self._client.list_log_entries(request, timeout=TIMEOUT)).pages:
                for entry in filter(self._is_new, page.entries):
                    yield BuildLine(entry.timestamp.timestamp(), entry.text_payload)
                if time.monotonic() > until:
                    break  # the next look goes on from there

    def _is_new(self, entry: Any) -> bool:
        if entry.insert_id in self._seen_ids:
            return False
        moment = _format_filter_time(entry.timestamp)
        if moment != self._since_time:
            self._since_time, self._seen_ids = moment, set()
        self._seen_ids.add(entry.insert_id)
        return True


def _format_filter_time(moment: Any) -> str:
    """A time as a log filter needs it, in nanoseconds; entries of the same time differ by insert id."""
    if hasattr(moment, "rfc3339"):
        return str(moment.rfc3339())
    return datetime.fromtimestamp(moment.timestamp(), UTC).isoformat()


class BuildLog:
    """The log of a build; each call returns only new lines."""

    def __init__(self, session: GoogleSession, build: Build, buckets: Buckets | None) -> None:
        """`buckets`: access to the log object in a bucket, if there is one."""
        self._entries = BuildEntries(session, build.project, build.id)
        self._log_object: BuildLogObject | None = None
        if buckets is not None:
            place = GcsPlace(parse_gcs_address(build.log_bucket).bucket, f"log-{build.id}.txt")
            self._log_object = BuildLogObject(buckets, place)
        self._reads_entries = build.log_entries or self._log_object is None

    async def read_new_lines(self) -> AsyncGenerator[BuildLine, None]:
        """Yield new lines from Cloud Logging, or from the log object in the bucket if Cloud Logging may not be read."""
        if self._reads_entries:
            try:
                async with aclosing(self._entries.read_new_lines()) as lines:
                    async for line in lines:
                        yield line
            except NotAllowed:
                if self._log_object is None:
                    raise
                self._reads_entries = False
        if not self._reads_entries and self._log_object is not None:
            async with aclosing(self._log_object.read_new_lines()) as lines:
                async for line in lines:
                    yield line


class BuildLogObject:
    """The log of a build in a bucket; each read continues where the last one ended."""

    def __init__(self, buckets: Buckets, place: GcsPlace) -> None:
        self._buckets, self._place = buckets, place
        self._offset = 0
        self._partial_line = b""

    async def read_new_lines(self) -> AsyncGenerator[BuildLine, None]:
        while came := await self._buckets.read_bytes(self._place, self._offset):
            self._offset += len(came)
            *lines, self._partial_line = (self._partial_line + came).split(b"\n")
            for line in lines:
                yield BuildLine(0.0, line.decode(errors="replace"))
