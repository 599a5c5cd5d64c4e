"""A `CheckContext` is a check's own log over requests shared by all checks, each sent once and limited in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from console.errors import ConsoleError, NotAllowed, NotFound, Unreachable
from console.kube.objects.on_demand import NamedWire, NamesWire, read_object
from console.kube.snapshot import Fleet, WatchState
from console.preflight.check import LaunchNeeds, Observation

if TYPE_CHECKING:
    from console.google.api.calls import GoogleSession
    from console.google.builds import Build, Repository
    from console.google.clusters import GkeCluster, Place, Reservation
    from console.google.storage import Bucket, FilestoreInstance, LustreInstance
    from console.session import Session


_T = TypeVar("_T")
KUBERNETES, GOOGLE, REGISTRY = "Kubernetes", "Google", "registry"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
SILENCE_TIMEOUT = 3.0  # seconds for which the API server may say nothing
LIST_TIMEOUT = 20.0  # seconds for which a kind that is still being listed is waited for


class SharedRequests:
    """The requests of one preflight run and their answers; each is sent once."""

    def __init__(self, cluster: Session) -> None:
        self.cluster = cluster
        self._asked: dict[Hashable, asyncio.Task[object]] = {}

    async def send_once(self, key: Hashable, question: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """The answer or error of this request, sent now or before; cancelling one waiter does not cancel the others."""
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(question())
            task.add_done_callback(_retrieve_error)
        return cast("_T", await asyncio.shield(task))  # the key names the question

    def close(self) -> None:
        for task in self._asked.values():
            task.cancel()


def _retrieve_error(task: asyncio.Task[object]) -> None:
    """Retrieve the error of a task that nobody waits for any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


class CheckContext:
    """Sends the requests of one check and logs them."""

    def __init__(self, requests: SharedRequests, needs: LaunchNeeds) -> None:
        self.questions, self.wish = requests, needs
        self.looks: list[Observation] = []

    @property
    def fleet(self) -> Fleet:
        return self.questions.cluster.fleet

    @property
    def cluster(self) -> Session:
        return self.questions.cluster

    async def send_request(self, at: str, what: str, question: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Send a request once for all checks, and log the outcome."""
        started = time.monotonic()
        outcome = "no answer in time"
        try:
            answer = await self.questions.send_once((at, what), question)
            outcome = "answered"
        except ConsoleError as error:
            outcome = error.message
            raise
        finally:
            if all(each.what != what for each in self.looks):
                self.looks.append(Observation(at, what, outcome, round(time.monotonic() - started, 3)))
        return answer

    async def get(self, path: str, type_: type[_T], **params: str) -> _T:
        """Fetch an object or list from the API server; NotFound, NotAllowed and other Refused."""
        what = path + ("?" + "&".join(f"{key}={value}" for key, value in params.items()) if params else "")

        async def question() -> _T:
            client = self.cluster.watch.current_connection.client
            body = await client.request("GET", path, params=params, doing=f"read {path}", silence=SILENCE_TIMEOUT)
            return read_object(body, type_)

        return await self.send_request(KUBERNETES, f"GET {what}", question)

    async def list_metadata(self, path: str, noun: str, **params: str) -> tuple[NamedWire, ...]:
        """Fetch the metadata of a list, so that no Secret's content is transferred."""

        async def question() -> tuple[NamedWire, ...]:
            client = self.cluster.watch.current_connection.client
            body = await client.request(
                "GET", path, params=params, doing=f"list {noun}", accept=_METADATA, silence=SILENCE_TIMEOUT
            )
            return tuple(read_object(body, NamesWire).items or ())

        shown = "&".join(f"{key}={value}" for key, value in params.items())
        return await self.send_request(KUBERNETES, f"GET {path}?{shown} (metadata)", question)

    async def find(self, path: str, type_: type[_T], **params: str) -> _T | None:
        """Like `get`; None if the object does not exist."""
        try:
            return await self.get(path, type_, **params)
        except NotFound:
            return None

    async def wait_for_kinds(self, *kinds: str) -> Fleet:
        """The snapshot once these kinds are listed; NotAllowed, NotFound or Unreachable if one cannot be."""

        async def question() -> Fleet:
            try:
                fleet = await self.cluster.watch.wait_until_listed(*kinds, timeout=LIST_TIMEOUT, silent=SILENCE_TIMEOUT)
            except KeyError as error:
                raise Unreachable(f"{error.args[0]} are not watched.") from error
            for kind in kinds:
                link = fleet.links[kind]
                if link.state is WatchState.FORBIDDEN:
                    raise NotAllowed(link.why, link.hint, status=403)
                if link.state is WatchState.ABSENT:
                    raise NotFound(link.why, link.hint, status=404)
            return fleet

        return await self.send_request(KUBERNETES, f"watch of {', '.join(kinds)}", question)

    async def cluster_place(self) -> Place:
        return await self.send_request(GOOGLE, "where the cluster lies", self.cluster.google.cloud.place)

    async def gke(self) -> GkeCluster:
        place = await self.cluster_place()

        async def question() -> GkeCluster:
            return (await self.cluster.google.cloud.connected_cluster())[1]

        return await self.send_request(GOOGLE, f"container: cluster {place.cluster} in {place.location}", question)

    async def call_google(self, what: str, module: str, question: Callable[[Any, GoogleSession], Awaitable[_T]]) -> _T:
        """Ask a Google service through `Cloud.ask`."""
        return await self.send_request(GOOGLE, what, lambda: self.cluster.google.cloud.call(module, question))


_BUILDS = 20  # how many of the latest builds are looked at


async def granted_permissions(context: CheckContext, project: str, wanted: Collection[str]) -> frozenset[str]:
    what = f"resourcemanager: rights in {project} ({len(wanted)})"
    return await context.call_google(
        what, "projects", lambda api, login: api.granted_permissions(login, project, tuple(wanted))
    )


async def project_number(context: CheckContext, project: str) -> str:
    what = f"resourcemanager: project {project}"
    return await context.call_google(what, "projects", lambda api, login: api.read_number(login, project))


async def project_members(context: CheckContext, project: str) -> Mapping[str, Collection[str]]:
    """The IAM policy of a project: role -> members."""
    what = f"resourcemanager: who may do what in {project}"
    return await context.call_google(what, "projects", lambda api, login: api.read_members(login, project))


async def enabled_services(context: CheckContext, project: str, services: Collection[str]) -> frozenset[str]:
    what = f"serviceusage: services of {project}"
    return await context.call_google(
        what, "projects", lambda api, login: api.enabled_services(login, project, services)
    )


async def read_reservation(context: CheckContext, project: str, zone: str, name: str) -> Reservation:
    what = f"compute: reservation {name} in {zone}"
    return await context.call_google(
        what, "compute", lambda api, login: api.read_reservation(login, project, zone, name)
    )


async def read_bucket(context: CheckContext, name: str) -> Bucket:
    project, what = (await context.cluster_place()).project, f"storage: bucket {name}"
    return await context.call_google(
        what, "cloud_storage", lambda api, login: api.Buckets(login, project).read_bucket(name)
    )


async def list_buckets(context: CheckContext, project: str) -> tuple[Bucket, ...]:
    what = f"storage: buckets of {project}"
    return await context.call_google(
        what, "cloud_storage", lambda api, login: api.Buckets(login, project).list_buckets()
    )


async def bucket_members(context: CheckContext, name: str) -> Mapping[str, Collection[str]]:
    """The IAM policy of a bucket: role -> members."""
    project, what = (await context.cluster_place()).project, f"storage: who may use bucket {name}"
    return await context.call_google(
        what, "cloud_storage", lambda api, login: api.Buckets(login, project).read_members(name)
    )


async def repository_members(
    context: CheckContext, project: str, location: str, name: str
) -> Mapping[str, Collection[str]]:
    """The IAM policy of a repository: role -> members."""
    what, of = f"artifactregistry: who may use {name} in {location}", (project, location, name)
    return await context.call_google(
        what, "artifact_registry", lambda api, login: api.ArtifactRegistry(login).read_members(*of)
    )


async def list_builds(context: CheckContext, project: str, location: str) -> tuple[Build, ...]:
    what = f"cloudbuild: builds of {project} in {location}"
    return await context.call_google(
        what, "build", lambda api, login: api.CloudBuild(login, project, location).list_latest(_BUILDS)
    )


async def list_repositories(context: CheckContext, project: str, location: str) -> tuple[Repository, ...]:
    what, of = f"artifactregistry: repositories of {project} in {location}", (project, location)
    return await context.call_google(
        what, "artifact_registry", lambda api, login: api.ArtifactRegistry(login).repositories(*of)
    )


async def list_lustre_instances(context: CheckContext, project: str) -> tuple[LustreInstance, ...]:
    what = f"lustre: instances of {project}"
    return await context.call_google(what, "file_systems", lambda api, login: api.list_lustre(login, project))


async def list_filestore_instances(context: CheckContext, project: str) -> tuple[FilestoreInstance, ...]:
    what = f"filestore: instances of {project}"
    return await context.call_google(what, "file_systems", lambda api, login: api.list_filestore(login, project))
