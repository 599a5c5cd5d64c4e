"""Shared state of the Google imitation: projects, enabled services, time, long operations, faults."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

from practice.clock import Clock
from practice.google.serving import RefusalError
from practice.node.buckets import Buckets
from practice.node.registries import Registries
from practice.objects.storage import Storage

PROJECT, REGION, ZONE, CLUSTER = "practice", "us-central1", "us-central1-b", "practice"
"""The project, location and name of the practice cluster itself."""
SHARED, LOCKED, DISABLED = "practice-shared", "practice-locked", "practice-new"
"""Projects: one with clusters in trouble, one without permission to read it, one without enabled services."""
CONTAINER, USAGE, PROJECTS = (
    "container.googleapis.com",
    "serviceusage.googleapis.com",
    "cloudresourcemanager.googleapis.com",
)
_ENABLED_SERVICES = (
    CONTAINER,
    USAGE,
    PROJECTS,
    "compute.googleapis.com",
    "cloudbuild.googleapis.com",
    "artifactregistry.googleapis.com",
    "storage.googleapis.com",
    "file.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
)
_SERVICE_OF_PACKAGE = {
    "google.container.v1": CONTAINER,
    "google.api.serviceusage.v1": USAGE,
    "google.cloud.resourcemanager.v3": PROJECTS,
    "google.devtools.cloudbuild.v1": "cloudbuild.googleapis.com",
    "google.devtools.artifactregistry.v1": "artifactregistry.googleapis.com",
    "google.cloud.lustre.v1": "lustre.googleapis.com",
    "google.cloud.filestore.v1": "file.googleapis.com",
    "google.logging.v2": "logging.googleapis.com",
    "google.storage.v1": "storage.googleapis.com",
}
StateT = TypeVar("StateT")
_NEVER_DISABLED = (USAGE, PROJECTS)
_PROJECT_IN_NAME = re.compile(r"\bprojects/([^/]+)")


@dataclass(slots=True)
class Fault:
    """An error to return instead of the right answer, a given number of times."""

    method: str  # part of the method's full name: "ListClusters", "ClusterManager/"
    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    message: str = "an injected fault"
    project: str = ""  # only for requests about this project
    times: int = 1
    delay: float = 0.0  # seconds of real time before the answer; with `code` OK the right answer follows


@dataclass(slots=True)
class PracticeProject:
    """A Google project of the practice cluster, with its number and enabled services."""

    id: str
    name: str
    number: str
    enabled: set[str] = field(default_factory=lambda: set(_ENABLED_SERVICES))
    is_readable: bool = True
    denied_permissions: set[str] = field(default_factory=lambda: {"resourcemanager.projects.setIamPolicy"})
    """Permissions that nobody has in the project."""
    bindings: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: {
            "roles/owner": ("user:owner@example.com",),
            "roles/artifactregistry.reader": ("serviceAccount:1001-compute@developer.gserviceaccount.com",),
        }
    )
    """By role its members in the whole project."""


@dataclass(slots=True)
class LongOperation:
    """A running long operation (google.longrunning) and its result."""

    name: str
    metadata: Any
    result: Any = None
    error: tuple[int, str] | None = None  # a gRPC status number and words
    done: bool = False


class PracticeGoogle:
    """The state of the imitated Google Cloud; `server` and `authority` (PEM) are the practice cluster's."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        *,
        server: str = "",
        authority: bytes = b"",
        registries: Registries | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        self.storage, self.clock = storage, clock
        self.registries = registries or Registries()  # what nodes can pull, and builds push into
        self.buckets = buckets or Buckets()  # what nodes know of the buckets, which they mount
        self.server, self.authority = server, authority
        self.opening = clock.now()
        self.page = 50  # the most that one page of a list holds
        self.crowd = 0  # clusters that the shared project has beside its own, for lists that are long
        self.faults: list[Fault] = []
        self.failing: dict[str, str] = {}
        """By kind of operation ("SET_NODE_POOL_SIZE", "CREATE_BUILD" ...) the error with which it ends half-way."""
        self.calls: list[tuple[str, Any]] = []  # the last requests, for tests of what is asked
        self.listeners: list[Callable[[str, str], object]] = []
        self.projects = {
            each.id: each
            for each in (
                PracticeProject(PROJECT, "Practice", "1001", enabled={*_ENABLED_SERVICES, "lustre.googleapis.com"}),
                PracticeProject(SHARED, "Practice, shared by others", "1002"),
                PracticeProject(LOCKED, "Practice, not yours", "1003", is_readable=False),
                PracticeProject(DISABLED, "Practice, just made", "1004", enabled={USAGE, PROJECTS}),
            )
        }
        self.operations: dict[str, LongOperation] = {}
        self.count_group: Callable[[str], tuple[int, int, int] | None] | None = None
        """(target size, repairing, creating) of a pool's machines by its name, None if unknown; None without pools."""
        self._service_states: dict[object, Any] = {}
        self._counted = 0

    def service_state(self, kind: Callable[[PracticeGoogle], StateT]) -> StateT:
        """The state of one service, created on first use."""
        if kind not in self._service_states:
            self._service_states[kind] = kind(self)
        found: StateT = self._service_states[kind]
        return found

    def next_number(self) -> int:
        """A new unique number."""
        self._counted += 1
        return self._counted

    async def check_call(self, method: str, request: Any) -> None:
        """Raise the error for a call that meets an injected fault, a closed project or a disabled service."""
        self.calls = [*self.calls[-199:], (method, request)]
        for listener in self.listeners:
            listener("gRPC", method)
        project = project_of(request)
        for fault in self.faults:
            if fault.times > 0 and fault.method in method and fault.project in ("", project):
                fault.times -= 1
                await asyncio.sleep(fault.delay)
                if fault.code is not grpc.StatusCode.OK:
                    raise RefusalError(fault.code, fault.message)
        package = method.strip("/").rpartition("/")[0].rpartition(".")[0]
        if project:
            self.require_service(project, _SERVICE_OF_PACKAGE.get(package, ""))

    def require_service(self, project: str, service: str) -> PracticeProject:
        """The project, by id or number. Raises RefusalError if it is not readable or the service not enabled."""
        found = next((each for each in self.projects.values() if project in (each.id, each.number)), None)
        if found is None or not found.is_readable:
            words = f"Permission denied on resource project {project} (or it may not exist)."
            raise RefusalError(grpc.StatusCode.PERMISSION_DENIED, words)
        if service and service not in found.enabled and service not in _NEVER_DISABLED:
            words = f"{service} API has not been used in project {found.id} before or it is disabled."
            raise RefusalError(grpc.StatusCode.PERMISSION_DENIED, words, service=service)
        return found

    def paginate(self, items: list[Any], size: int, token: str) -> tuple[list[Any], str]:
        """One page of a list and the next page's token."""
        start = int(token or 0)
        end = start + min(size or self.page, self.page)
        return items[start:end], str(end) if end < len(items) else ""

    def start_operation(
        self, kind: str, parent_path: str, seconds: float, make_result: Callable[[], Any], metadata: Any = None
    ) -> LongOperation:
        """Start a long operation named {parent_path}operations/{kind}-N; `metadata`: its metadata message, None: none.

        After `seconds` of practice time its result is what `make_result` returns; it fails if `kind` is in `failing`.
        """
        begun = LongOperation(f"{parent_path}operations/{kind.lower()}-{self.next_number()}", metadata)
        self.operations[begun.name] = begun

        def end() -> None:
            if kind in self.failing:
                begun.error = (grpc.StatusCode.INTERNAL.value[0], self.failing[kind])
            elif begun.error is None:
                begun.result = make_result()
            begun.done = True

        self.clock.call_later(seconds, end)
        return begun


def project_of(request: Any) -> str:
    """The project that a request names; "" if none."""
    for field_name in ("parent", "name", "project_id", "project"):
        text = getattr(request, field_name, None)
        if isinstance(text, str) and text:
            found = _PROJECT_IN_NAME.search(text)
            return found[1] if found else text if field_name.startswith("project") and "/" not in text else ""
    return ""


def not_found_error(subject: str) -> RefusalError:
    """The error for an object that does not exist."""
    return RefusalError(grpc.StatusCode.NOT_FOUND, f"Not found: {subject}.")
