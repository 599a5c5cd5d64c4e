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
PATIENCE = 3.0  # seconds for which the API server may say nothing
LISTING = 20.0  # seconds for which a kind that is still being listed is waited for


class Questions:
    """The requests of one preflight run and their answers; each is sent once."""

    def __init__(self, cluster: Session) -> None:
        self.cluster = cluster
        self._asked: dict[Hashable, asyncio.Task[object]] = {}

    async def ask(self, key: Hashable, question: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """The answer or error of this request, sent now or before; cancelling one waiter does not cancel the others."""
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(question())
            task.add_done_callback(_seen)
        return cast("_T", await asyncio.shield(task))  # the key names the question

    def close(self) -> None:
        for task in self._asked.values():
            task.cancel()


def _seen(task: asyncio.Task[object]) -> None:
    """Retrieve the error of a task that nobody waits for any more, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


class CheckContext:
    """Sends the requests of one check and logs them."""

    def __init__(self, questions: Questions, wish: LaunchNeeds) -> None:
        self.questions, self.wish = questions, wish
        self.looks: list[Observation] = []

    @property
    def fleet(self) -> Fleet:
        return self.questions.cluster.fleet

    @property
    def cluster(self) -> Session:
        return self.questions.cluster

    async def ask(self, at: str, what: str, question: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Send a request once for all checks, and log the outcome."""
        started = time.monotonic()
        outcome = "no answer in time"
        try:
            answer = await self.questions.ask((at, what), question)
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
            body = await client.request("GET", path, params=params, doing=f"read {path}", silence=PATIENCE)
            return read_object(body, type_)

        return await self.ask(KUBERNETES, f"GET {what}", question)

    async def names(self, path: str, noun: str, **params: str) -> tuple[NamedWire, ...]:
        """Fetch the metadata of a list, so that no Secret's content is transferred."""

        async def question() -> tuple[NamedWire, ...]:
            client = self.cluster.watch.current_connection.client
            body = await client.request(
                "GET", path, params=params, doing=f"list {noun}", accept=_METADATA, silence=PATIENCE
            )
            return tuple(read_object(body, NamesWire).items or ())

        shown = "&".join(f"{key}={value}" for key, value in params.items())
        return await self.ask(KUBERNETES, f"GET {path}?{shown} (metadata)", question)

    async def find(self, path: str, type_: type[_T], **params: str) -> _T | None:
        """Like `get`; None if the object does not exist."""
        try:
            return await self.get(path, type_, **params)
        except NotFound:
            return None

    async def watched(self, *kinds: str) -> Fleet:
        """The snapshot once these kinds are listed; NotAllowed, NotFound or Unreachable if one cannot be."""

        async def question() -> Fleet:
            try:
                fleet = await self.cluster.watch.wait_until_listed(*kinds, timeout=LISTING, silent=PATIENCE)
            except KeyError as error:
                raise Unreachable(f"{error.args[0]} are not watched.") from error
            for kind in kinds:
                link = fleet.links[kind]
                if link.state is WatchState.FORBIDDEN:
                    raise NotAllowed(link.why, link.hint, status=403)
                if link.state is WatchState.ABSENT:
                    raise NotFound(link.why, link.hint, status=404)
            return fleet

        return await self.ask(KUBERNETES, f"watch of {', '.join(kinds)}", question)

    async def place(self) -> Place:
        return await self.ask(GOOGLE, "where the cluster lies", self.cluster.google.cloud.place)

    async def gke(self) -> GkeCluster:
        place = await self.place()

        async def question() -> GkeCluster:
            return (await self.cluster.google.cloud.connected())[1]

        return await self.ask(GOOGLE, f"container: cluster {place.cluster} in {place.location}", question)

    async def google(self, what: str, module: str, question: Callable[[Any, GoogleSession], Awaitable[_T]]) -> _T:
        """Ask a Google service through `Cloud.ask`."""
        return await self.ask(GOOGLE, what, lambda: self.cluster.google.cloud.ask(module, question))


_BUILDS = 20  # how many of the latest builds are looked at


async def permissions(look: CheckContext, project: str, wanted: Collection[str]) -> frozenset[str]:
    what = f"resourcemanager: rights in {project} ({len(wanted)})"
    return await look.google(what, "projects", lambda api, login: api.permissions(login, project, tuple(wanted)))


async def project_number(look: CheckContext, project: str) -> str:
    what = f"resourcemanager: project {project}"
    return await look.google(what, "projects", lambda api, login: api.number(login, project))


async def project_members(look: CheckContext, project: str) -> Mapping[str, Collection[str]]:
    """The IAM policy of a project: role -> members."""
    what = f"resourcemanager: who may do what in {project}"
    return await look.google(what, "projects", lambda api, login: api.members(login, project))


async def enabled(look: CheckContext, project: str, services: Collection[str]) -> frozenset[str]:
    what = f"serviceusage: services of {project}"
    return await look.google(what, "projects", lambda api, login: api.enabled(login, project, services))


async def reservation(look: CheckContext, project: str, zone: str, name: str) -> Reservation:
    what = f"compute: reservation {name} in {zone}"
    return await look.google(what, "compute", lambda api, login: api.reservation(login, project, zone, name))


async def bucket(look: CheckContext, name: str) -> Bucket:
    project, what = (await look.place()).project, f"storage: bucket {name}"
    return await look.google(what, "cloud_storage", lambda api, login: api.Buckets(login, project).bucket(name))


async def buckets(look: CheckContext, project: str) -> tuple[Bucket, ...]:
    what = f"storage: buckets of {project}"
    return await look.google(what, "cloud_storage", lambda api, login: api.Buckets(login, project).listed())


async def members(look: CheckContext, name: str) -> Mapping[str, Collection[str]]:
    """The IAM policy of a bucket: role -> members."""
    project, what = (await look.place()).project, f"storage: who may use bucket {name}"
    return await look.google(what, "cloud_storage", lambda api, login: api.Buckets(login, project).members(name))


async def repository_members(
    look: CheckContext, project: str, location: str, name: str
) -> Mapping[str, Collection[str]]:
    """The IAM policy of a repository: role -> members."""
    what, of = f"artifactregistry: who may use {name} in {location}", (project, location, name)
    return await look.google(what, "artifact_registry", lambda api, login: api.Registries(login).members(*of))


async def builds(look: CheckContext, project: str, location: str) -> tuple[Build, ...]:
    what = f"cloudbuild: builds of {project} in {location}"
    return await look.google(what, "build", lambda api, login: api.Builds(login, project, location).latest(_BUILDS))


async def repositories(look: CheckContext, project: str, location: str) -> tuple[Repository, ...]:
    what, of = f"artifactregistry: repositories of {project} in {location}", (project, location)
    return await look.google(what, "artifact_registry", lambda api, login: api.Registries(login).repositories(*of))


async def lustre_instances(look: CheckContext, project: str) -> tuple[LustreInstance, ...]:
    what = f"lustre: instances of {project}"
    return await look.google(what, "file_systems", lambda api, login: api.lustre(login, project))


async def filestore_instances(look: CheckContext, project: str) -> tuple[FilestoreInstance, ...]:
    what = f"filestore: instances of {project}"
    return await look.google(what, "file_systems", lambda api, login: api.filestore(login, project))
