"""One preflight check: its verdict, the effect of errors and needs, and its requests to the cluster and to Google.

A `CheckContext` is a check's own log over requests shared by all checks, each sent once and limited in time.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from console.errors import ApiDisabled, ConsoleError, NotAllowed, NotFound, Unreachable
from console.kube.nested_values import Value, get_path
from console.kube.objects.meta import ObjectSchema
from console.kube.objects.unwatched_kinds import read_object
from console.kube.snapshot import Fleet, WatchState
from console.kube.watched_kinds import ListSchema
from console.scheduling.launch_forecast import LaunchDemand, demand_of
from console.scheduling.topology import MACHINE_GPUS

if TYPE_CHECKING:
    from console.google.api.calls import GoogleSession
    from console.google.clusters import ClusterPlace, GkeCluster
    from console.google.services import GoogleServices
    from console.kube.watched_cluster import WatchedCluster

    CheckFunction = Callable[["CheckContext"], Awaitable["CheckVerdict"]]


class Result(StrEnum):
    OK = "ok"
    WARN = "warn"  # it may do without, or nobody needs it yet
    FAIL = "fail"
    NOT_ALLOWED = "not allowed to look"  # it may be there: this account may not see
    COULD_NOT = "could not look"  # no answer, no login, or not in time
    NOT_APPLICABLE = "not applicable"


WORST_FIRST = (Result.FAIL, Result.WARN, Result.NOT_ALLOWED, Result.COULD_NOT, Result.OK, Result.NOT_APPLICABLE)


class RepairKind(StrEnum):
    ADDON = "add-on"  # switch on an add-on of the cluster: project, location, cluster, add-on
    SERVICE = "service"  # enable a service of Google's: project, then the services' names
    REPOSITORY = "repository"  # create a Docker repository: project, location, name
    QUEUE = "queue"  # create a LocalQueue: namespace, name, ClusterQueue


@dataclass(frozen=True, slots=True)
class Repair:
    """A change that would make a check pass; it is only applied when confirmed."""

    kind: RepairKind
    target: tuple[str, ...]  # what it is done to, as its kind says
    words: str  # what would be done, naming the object: "Enable lustre.googleapis.com in project practice"
    consequences: tuple[str, ...] = ()  # what else a person should know before


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    at: str  # Kubernetes, Google or registry
    what: str  # what was asked: "GET /version", "container: cluster practice"
    outcome: str  # "answered", or why it was not
    seconds: float


def name_of(title: str) -> str:
    """The title of a check as one word for the command line: "LocalQueue" -> "localqueue"."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


@dataclass(frozen=True, slots=True)
class Check:
    """One checked requirement; `id` (P01) is for scripts, `title` for people."""

    id: str
    title: str
    area: str
    result: Result
    evidence: str  # what was seen, in one or a few sentences
    reason: str  # why it matters, or why it is not as it should be; empty when all is well
    fix: str  # what to do about it; of a check that passes, what would mend it if it did not
    command: str = ""  # the same as a shell command, where there is one
    repair: Repair | None = None
    looks: tuple[LoggedRequest, ...] = ()  # its requests to the cluster and to Google
    at: float = 0.0  # when, in seconds since the epoch; 0.0: it is under way
    seconds: float = 0.0  # that it took

    @property
    def name(self) -> str:
        """The check's title as one word for --check and --fix: "lustre-instance"."""
        return name_of(self.title)

    @property
    def lines(self) -> tuple[str, ...]:
        """The problem, its fix and the command to run, each a line that is understood without the others."""
        fix = [f"Fix: {self.fix}" + (f" Run: a4 preflight --fix {self.name}" if self.repair else "")]
        head = f"{self.title}: {' '.join(filter(None, (self.evidence, self.reason)))}"
        return head, *fix, *([f"$ {self.command}"] if self.command else [])

    @property
    def over(self) -> bool:
        return self.at > 0


@dataclass(frozen=True, slots=True)
class ResultTally:
    """Number of checks by result, and the checks that fail, warn or have no answer."""

    counts: tuple[tuple[Result, int], ...]
    failing: tuple[Check, ...]
    open_count: int = 0  # still under way
    warning_checks: tuple[Check, ...] = ()
    unanswered: tuple[Check, ...] = ()  # could not look, though this account may

    @property
    def sentence(self) -> str:
        """The counts in one line: "14 ok, 1 fails: Lustre driver"; some titles have commas."""
        words = {Result.FAIL: "fails"}
        parts = [f"{count} {words.get(result, result)}" for result, count in self.counts]
        text = ", ".join(parts) or "nothing was checked"
        if self.open_count:
            text += f", {self.open_count} under way"
        worst = self.failing or self.warning_checks
        named = "; ".join(each.title for each in worst[:3])
        more = f" and {len(worst) - 3} more" if len(worst) > 3 else ""
        return f"{text}: {named}{more}" if named else text

    def objections(self, *, are_named: bool = True) -> str:
        """The reasons against a launch: "1 check failed (Quota), 2 checks had no answer (Image, Egress)"; or empty."""
        parts = []
        for found, word in ((self.failing, "failed"), (self.unanswered, "had no answer")):
            titles = f" ({', '.join(each.title for each in found)})" if are_named else ""
            if found:
                parts.append(f"{len(found)} check{'s' if len(found) > 1 else ''} {word}{titles}")
        return ", ".join(parts)


def lacks_all_permissions(checks: Iterable[Check]) -> bool:
    """Whether the account lacks permission for all checks but P01, which only asks whether the server answers."""
    results = {each.result for each in checks if each.id != "P01" or each.result is Result.NOT_ALLOWED}
    return Result.NOT_ALLOWED in results and not results & {Result.OK, Result.WARN, Result.FAIL}


def summarize_unanswered(checks: Iterable[Check]) -> tuple[str, ...]:
    """The checks without an answer, one line per reason: "Not allowed to look: Bucket in the same region (…)"."""
    found: dict[tuple[Result, str], list[str]] = {}
    for each in checks:
        if each.over and each.result in (Result.NOT_ALLOWED, Result.COULD_NOT):
            found.setdefault((each.result, each.reason), []).append(each.title)
    heads = {Result.NOT_ALLOWED: "Not allowed to look", Result.COULD_NOT: "Not known"}
    return tuple(
        f"{heads[result]}: {', '.join(names)}" + (f" ({reason.rstrip('.')})." if reason else ".")
        for (result, reason), names in found.items()
    )


_COUNTED_RESULTS = (Result.OK, Result.FAIL, Result.WARN, Result.NOT_ALLOWED, Result.COULD_NOT)


def tally_results(checks: Iterable[Check]) -> ResultTally:
    """Count the checks by result; those that do not apply are left out."""
    found = tuple(checks)
    counted = Counter(each.result for each in found if each.over)
    counts = tuple((result, counted[result]) for result in _COUNTED_RESULTS if counted[result])
    over = [each for each in found if each.over]
    failing = tuple(each for each in over if each.result is Result.FAIL)
    warned = tuple(each for each in over if each.result is Result.WARN)
    unanswered = tuple(each for each in over if each.result is Result.COULD_NOT)
    return ResultTally(counts, failing, sum(not each.over for each in found), warned, unanswered)


DEFAULT_GPUS = 2 * MACHINE_GPUS  # where no recipe says otherwise: the two nodes that the documents ask for at least


class Needed(StrEnum):
    YES = "yes"
    NO = "no"
    UNDECIDED = "open"  # no recipe was chosen: what is missing is reported, and fails nothing


@dataclass(frozen=True, slots=True)
class LaunchNeeds:
    """The requirements of a planned launch, or those of any launch on the cluster if there is no plan."""

    namespace: str
    recipe: str = ""
    name: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)  # all values of the chart, nested; empty without a recipe
    bucket: str = ""  # a bucket to look at that no value names
    registry: str = ""  # LOCATION-docker.pkg.dev/PROJECT/REPOSITORY for images; empty: the usual one

    def text(self, path: str) -> str:
        """The launch's value at a path, as text; empty if it is not set."""
        found = get_path(self.values, path)
        return "" if found is None or found is False else str(found)

    def flag(self, path: str) -> bool:
        return get_path(self.values, path) is True

    def needed(self, is_wanted: bool) -> Needed:
        """YES or NO by `is_wanted`, whether the launch needs something; UNDECIDED without a launch."""
        if not self.recipe:
            return Needed.UNDECIDED
        return Needed.YES if is_wanted else Needed.NO

    @property
    def demand(self) -> LaunchDemand:
        return (
            demand_of(self.values, self.namespace) if self.recipe else LaunchDemand(self.namespace, gpus=DEFAULT_GPUS)
        )

    @property
    def buckets(self) -> tuple[str, ...]:
        """The buckets that the launch mounts, else the one named for the check."""
        mounted = get_path(self.values, "storage.gcs")
        names = tuple(mounted) if isinstance(mounted, Mapping) else ()
        return names or ((self.bucket,) if self.bucket else ())

    @property
    def mounts_nfs(self) -> bool:
        """Whether pods mount NFS, by an existing claim or a new one."""
        return bool(self.text("storage.nfs.claim") or self.text("storage.nfs.server"))

    @property
    def mounts_lustre(self) -> bool:
        return bool(self.text("storage.lustre.claim") or self.text("storage.lustre.server"))

    @property
    def account(self) -> str:
        return self.text("serviceAccount") or "default"

    @property
    def ports(self) -> tuple[int, ...]:
        master = self.text("network.masterPort")
        return 2222, int(master) if master.isdecimal() else 6002


_UNANSWERED_WORDS = {Result.NOT_ALLOWED: "Not allowed to look", Result.COULD_NOT: "Not seen"}  # of one half of a check


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    result: Result
    evidence: str
    reason: str = ""
    fix: str = ""  # empty: the check's own
    command: str = ""
    repair: Repair | None = None


ok, warn, fail = (partial(CheckVerdict, result) for result in (Result.OK, Result.WARN, Result.FAIL))
skip = partial(CheckVerdict, Result.NOT_APPLICABLE, "Not checked.")


def missing_verdict(
    needed: Needed, evidence: str, reason: str = "", fix: str = "", *, command: str = "", repair: Repair | None = None
) -> CheckVerdict:
    """The verdict that something is missing: a failure if the launch needs it, else a warning."""
    return (fail if needed is Needed.YES else warn)(evidence, reason, fix, command, repair)


async def verdict_of(check: Awaitable[CheckVerdict]) -> CheckVerdict:
    """The verdict of one part of a check; an error becomes a verdict too."""
    try:
        return await check
    except ConsoleError as error:
        return verdict_of_error(error)


async def combine_all(*checks: Awaitable[CheckVerdict], all_required: bool = False) -> CheckVerdict:
    """The worst of the verdicts of a check's concurrent parts; `all_required` as in `combine_verdicts`."""
    verdicts: list[CheckVerdict] = []
    # Each part is a task itself: one that is cancelled before it began is not left unawaited.
    for ended in await asyncio.gather(*checks, return_exceptions=True):
        if isinstance(ended, BaseException) and not isinstance(ended, ConsoleError):
            raise ended
        verdicts.append(verdict_of_error(ended) if isinstance(ended, ConsoleError) else ended)
    return combine_verdicts(*verdicts, all_required=all_required)


def combined_check(*checks: CheckFunction) -> CheckFunction:
    return lambda context: combine_all(*(part(context) for part in checks))


def verdict_of_error(error: ConsoleError) -> CheckVerdict:
    """The verdict for a check that ended with an error: unknown, with the reason."""
    if isinstance(error, ApiDisabled):
        return CheckVerdict(Result.COULD_NOT, "Google returned a server error.", error.message, error.hint)
    result = Result.NOT_ALLOWED if isinstance(error, NotAllowed) else Result.COULD_NOT
    return CheckVerdict(result, "No result.", error.message, error.hint)


def enable_services_repair(project: str, *services: str) -> Repair:
    words = f"Enable {', '.join(services)} in project {project}"
    return Repair(RepairKind.SERVICE, (project, *services), words, ("Services may cost money once they are used.",))


def combine_verdicts(*verdicts: CheckVerdict, all_required: bool = False) -> CheckVerdict:
    """The worst of the verdicts; one that could not be checked keeps the others from passing if `all_required`."""
    looked = [each for each in verdicts if each.result not in _UNANSWERED_WORDS]
    unseen = [each for each in verdicts if each.result in _UNANSWERED_WORDS]
    found = min(looked or unseen, key=lambda each: WORST_FIRST.index(each.result))
    if all_required and unseen and found.result is Result.OK:
        found = unseen[0]
    others = [each for each in verdicts if each is not found]
    sentences = [
        f"{_UNANSWERED_WORDS[each.result]}: {each.reason}" if each.result in _UNANSWERED_WORDS else each.evidence
        for each in others
    ]
    head = found.evidence if found.result not in _UNANSWERED_WORDS or not others else ""
    mending = [found, *(each for each in others if each.result in {Result.FAIL, Result.WARN})]
    return replace(
        found,
        evidence=" ".join(filter(None, (head, *sentences))),
        fix=next((each.fix for each in mending if each.fix), ""),
        command=next((each.command for each in mending if each.command), ""),
        repair=next((each.repair for each in mending if each.repair), None),
    )


_T = TypeVar("_T")
KUBERNETES, GOOGLE, REGISTRY = "Kubernetes", "Google", "registry"
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
API_TIMEOUT = 3.0  # seconds for which the API server may say nothing
LIST_TIMEOUT = 20.0  # seconds for which a kind that is still being listed is waited for


class CheckedCluster(NamedTuple):
    watch: WatchedCluster
    google: GoogleServices


class SharedRequests:
    """The answers of one preflight run by request, so that each is sent only once."""

    def __init__(self, cluster: CheckedCluster) -> None:
        self.cluster = cluster
        self._requests: dict[Hashable, asyncio.Task[object]] = {}

    async def send_once(self, key: Hashable, send: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """The answer or error of this request, sent now or before; cancelling one waiter does not cancel the others."""
        task = self._requests.get(key)
        if task is None:
            task = self._requests[key] = asyncio.create_task(send())
            # Nobody may wait for it any more, and asyncio would log its error.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return cast("_T", await asyncio.shield(task))  # the key names the question

    def close(self) -> None:
        for task in self._requests.values():
            task.cancel()


class CheckContext:
    """Sends the requests of one check and logs them."""

    def __init__(self, requests: SharedRequests, needs: LaunchNeeds) -> None:
        self.requests, self.cluster, self.wish = requests, requests.cluster, needs
        self.logged_requests: list[LoggedRequest] = []

    async def send_request(self, path: str, action: str, send: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Send a request once for all checks, and log the outcome."""
        started = time.monotonic()
        outcome = "no answer in time"
        try:
            answer = await self.requests.send_once((path, action), send)
            outcome = "answered"
        except ConsoleError as error:
            outcome = error.message
            raise
        finally:
            if all(each.what != action for each in self.logged_requests):
                self.logged_requests.append(LoggedRequest(path, action, outcome, round(time.monotonic() - started, 3)))
        return answer

    async def get(self, path: str, type_: type[_T], **params: str) -> _T:
        """Fetch an object or list from the API server; NotFound, NotAllowed and other Refused."""
        what = path + ("?" + "&".join(f"{key}={value}" for key, value in params.items()) if params else "")

        async def question() -> _T:
            client = self.cluster.watch.current_connection.client
            body = await client.request("GET", path, params=params, action=f"read {path}", silence=API_TIMEOUT)
            return read_object(body, type_)

        return await self.send_request(KUBERNETES, f"GET {what}", question)

    async def list_names(self, path: str, noun: str, limit: int, **params: str) -> tuple[str, ...]:
        """The names of the first `limit` objects of a list, by their metadata: no Secret's content is transferred."""
        params = {**params, "limit": str(limit)}

        async def question() -> tuple[str, ...]:
            client = self.cluster.watch.current_connection.client
            body = await client.request(
                "GET", path, params=params, action=f"list {noun}", accept=_METADATA_ONLY, silence=API_TIMEOUT
            )
            found = (read_object(body, ListSchema[msgspec.Raw]).items or ())[:limit]  # a server may send all there are
            return tuple(read_object(bytes(each), ObjectSchema).metadata.name or "" for each in found)

        shown = "&".join(f"{key}={value}" for key, value in params.items())
        return await self.send_request(KUBERNETES, f"GET {path}?{shown} (metadata)", question)

    async def find(self, path: str, type_: type[_T], **params: str) -> _T | None:
        """The object at a path of the API; None if it does not exist."""
        try:
            return await self.get(path, type_, **params)
        except NotFound:
            return None

    async def wait_for_kinds(self, *kinds: str) -> Fleet:
        """The snapshot once these kinds are listed; NotAllowed, NotFound or Unreachable if one cannot be."""

        async def question() -> Fleet:
            try:
                fleet = await self.cluster.watch.wait_until_listed(*kinds, timeout=LIST_TIMEOUT, silent=API_TIMEOUT)
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

    async def cluster_place(self) -> ClusterPlace:
        return await self.send_request(GOOGLE, "where the cluster lies", self.cluster.google.account.cluster_place)

    async def gke(self) -> GkeCluster:
        place = await self.cluster_place()

        async def question() -> GkeCluster:
            return (await self.cluster.google.account.connected_cluster())[1]

        return await self.send_request(GOOGLE, f"container: cluster {place.cluster} in {place.location}", question)

    async def call_google(self, action: str, module: str, send: Callable[[Any, GoogleSession], Awaitable[_T]]) -> _T:
        """Call a Google API through `GoogleAccount.call`, once for all checks."""
        return await self.send_request(GOOGLE, action, lambda: self.cluster.google.account.call(module, send))

    async def granted_permissions(self, project: str, permissions: Collection[str]) -> frozenset[str]:
        what = f"resourcemanager: rights in {project} ({len(permissions)})"
        return await self.call_google(
            what, "projects", lambda api, login: api.granted_permissions(login, project, tuple(permissions))
        )

    async def project_number(self, project: str) -> str:
        what = f"resourcemanager: project {project}"
        return await self.call_google(what, "projects", lambda api, login: api.read_number(login, project))

    async def project_members(self, project: str) -> Mapping[str, Collection[str]]:
        what = f"resourcemanager: who may do what in {project}"
        return await self.call_google(what, "projects", lambda api, login: api.read_role_members(login, project))
