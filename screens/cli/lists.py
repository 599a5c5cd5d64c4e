"""The listing commands: pools, nodes, queues, workloads, jobs, pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from console.connection_settings import OWN_NAME
from console.errors import ConsoleError, NotAllowed, NotFound, Unreadable
from console.kube.gpu_pods import HOLDS_ITS_NODE, gpu_pod_selectors
from console.kube.objects.jobset import JobSet, JobState
from console.kube.snapshot import Fleet, WatchState
from console.scheduling.why import JOB_KINDS
from screens.cli.arguments import EXIT_ALARM, EXIT_CODES, Command, Commands, Options, flag, json_flag
from screens.cli.open_session import open_session
from screens.cli.output import print_json, print_listing, warn
from screens.columns.column import COMMAND, ListLayout, as_json

if TYPE_CHECKING:
    from console.kube.watched_cluster import Selectors
    from console.metrics.job_progress import JobProgress
    from console.scheduling.expected_start import ExpectedStart
    from console.session import Session
    from screens.columns.queues import WorkloadLine

LISTS = ("pools", "nodes", "queues", "workloads", "jobs", "pods")
MAX_SELECTED_JOBS = 40
"""Maximum number of jobs whose pods are requested by job name; with more, the pods of all JobSets are listed."""
SELECTORS_OF_JOBS: Selectors = {"pods": None, "events": {"fieldSelector": "involvedObject.kind!=Node"}}
"""The selectors of commands about jobs: pods as of `list_pods_of`; no events of nodes, of which there may be many."""
SELECTORS_OF_LIST: Mapping[str, Selectors] = {
    **{name: {"pods": partial(gpu_pod_selectors, fields=HOLDS_ITS_NODE)} for name in ("nodes", "pools")},
    **{name: {"pods": gpu_pod_selectors} for name in ("queues", "workloads")},
    "jobs": SELECTORS_OF_JOBS,
}
"""The pod selectors of each list, by its name; None: pods are not listed at first, `list_pods_of` requests them."""
HEALTH_TIMEOUT = 6.0
"""Maximum seconds in which a list reads the ends of job logs."""


def layout_of(name: str) -> ListLayout[Any]:
    """The columns of a list; imports only the module of that list."""
    if name in {"pools", "nodes"}:
        from screens.columns.nodes import NODES, POOLS

        return POOLS if name == "pools" else NODES
    if name in {"queues", "workloads"}:
        from screens.columns.queues import QUEUES, WORKLOADS

        return QUEUES if name == "queues" else WORKLOADS
    if name == "jobs":
        from screens.columns.jobs import JOBS

        return JOBS
    from screens.columns.pods import PODS

    return PODS


def import_readers() -> tuple[object, ...]:
    """Import what reads logs and runs and forecasts starts, for `open_session`: it saves a list 25 ms."""
    from console.launch import service, session_runs
    from console.logs import container_log
    from console.metrics import measure_service
    from console.scheduling import start_forecast
    from screens.columns import live_jobs
    from trainlog import TrainingParser

    return service, session_runs, container_log, measure_service, start_forecast, live_jobs, TrainingParser


async def show_list(options: ListOptions) -> int:
    starts = options.json and options.command == "queues"  # when what waits starts; only in JSON
    only, of_jobs = SELECTORS_OF_LIST.get(options.command), options.command == "jobs"
    kinds = JOB_KINDS if of_jobs else _kinds_of(layout_of(options.command), starts)
    ahead = import_readers if of_jobs else None
    async with open_session(options, kinds, waits=not of_jobs, is_brief=True, selectors=only, ahead=ahead) as session:
        if of_jobs:
            namespace = None if options.all_namespaces else session.namespace
            await wait_with_pods(session, lambda: list_pods_of(session, _shown_jobs(session, namespace)))
        layout, fleet = layout_of(options.command), session.fleet
        raise_unreadable(layout, fleet)
        rows = await _read_rows(session, fleet, layout, options)
    faulty = isinstance(options, NodesOptions) and options.faulty
    rows = [row for row in rows if row.faults] if faulty else rows
    code = EXIT_ALARM if faulty and rows else 0
    missing = unread_kinds(kinds, fleet)
    if options.json:
        print_json({"kind": options.command, "at": fleet.at, "unread": missing, "items": as_json(layout.columns, rows)})
        return code
    for kind, reason in missing.items():
        warn(f"{kind}: {reason}")
    print_rows(layout, rows, f"{'faulty ' * faulty}{options.command}")
    return code


def _kinds_of(layout: ListLayout[Any], starts: bool) -> tuple[str, ...]:
    return tuple(dict.fromkeys((layout.main_kind, *layout.uses, *(layout_of("workloads").uses if starts else ()))))


async def _read_rows(session: Session, fleet: Fleet, layout: ListLayout[Any], options: ListOptions) -> list[Any]:
    """The rows of the list. Raises NotFound if the namespace does not exist."""
    namespace = None if options.all_namespaces else session.namespace
    if options.command == "jobs":
        from screens.columns.jobs import job_lines
        from screens.columns.live_jobs import with_diagnoses

        jobs = _shown_jobs(session, namespace)
        waits = any(each.state is JobState.PENDING for each in jobs)
        if waits:  # when they start depends on what runs, wherever that is
            jobs += [each for each in fleet.jobsets.values() if not each.finished and each not in jobs]
        progress, _ = await asyncio.gather(read_progress_of_jobs(session, jobs), session.watch.me())
        starts = await session.forecasts.expected_starts() if waits else None
        lines = job_lines(fleet, namespace, session.watch.format_owner, progress, starts)
        rows: list[Any] = [
            line for line in lines if line.owner == OWN_NAME or not (isinstance(options, JobsOptions) and options.mine)
        ]
        await read_diagnoses(session)
        rows = sorted((with_diagnoses(session, row) for row in rows), key=lambda line: line.sort_key)
        some = bool(rows) or any(namespace in {None, where} for where, _ in fleet.jobsets)
    else:
        rows = list(layout.make_rows(fleet, namespace, session.watch.format_owner))
        some = bool(rows)
        if options.command == "queues" and options.json and any(each.is_waiting for each in fleet.workloads.values()):
            rows = await _queue_rows(session, fleet)
        if options.command == "workloads" and fleet.workloads:
            await session.watch.me()
            rows = await _workload_rows(session, fleet, namespace)
        if options.command == "workloads" and not options.json:  # its JSON has no key for how a job is
            rows = await _with_health(session, fleet, rows)
    if not some and namespace:
        await session.watch.require_namespace(namespace)
    return rows


def _shown_jobs(session: Session, namespace: str | None) -> list[JobSet]:
    return [each for each in session.fleet.jobsets.values() if namespace in {None, each.namespace}]


async def wait_with_pods(session: Session, list_pods: Callable[[], Awaitable[None]]) -> None:
    """Wait until all kinds are listed; the pods' list is requested once the JobSets are known."""

    async def wait_for_pods() -> None:
        await session.watch.wait_until_listed("jobsets", timeout=inf, silent=inf)  # what is late is named below
        await list_pods()

    await asyncio.gather(session.wait_until_listed(*session.watch.started_kinds), wait_for_pods())


async def list_pods_of(session: Session, jobs: Iterable[JobSet]) -> None:
    """List the pods needed to show these jobs: all pods, if a job waits for nodes that others may hold."""
    jobs = tuple(jobs)
    if not all(each.finished or each.state is JobState.RUNNING for each in jobs):
        await session.watch.set_selector("pods", gpu_pod_selectors)
    elif jobs:
        names = sorted({each.name for each in jobs})
        among = f" in ({','.join(names)})" if len(names) <= MAX_SELECTED_JOBS else ""
        await session.watch.set_selector("pods", {"labelSelector": f"jobset.sigs.k8s.io/jobset-name{among}"})


async def _queue_rows(session: Session, fleet: Fleet) -> list[Any]:
    from screens.columns.queues import queue_lines

    return list(queue_lines(fleet, None, session.watch.format_owner, await expected_starts(session)))


async def _workload_rows(session: Session, fleet: Fleet, namespace: str | None) -> list[WorkloadLine]:
    from screens.columns.queues import workload_lines

    waits = any(each.is_waiting and namespace in {None, each.namespace} for each in fleet.workloads.values())
    starts = await expected_starts(session) if waits else None
    return list(workload_lines(fleet, namespace, session.watch.format_owner, starts))


async def expected_starts(session: Session) -> Mapping[tuple[str, str], ExpectedStart]:
    """The expected starts of waiting workloads by (namespace, name), from the progress of the running jobs."""
    await read_progress_of_jobs(session, [each for each in session.fleet.jobsets.values() if not each.finished])
    return await session.forecasts.expected_starts()


async def _with_health(session: Session, fleet: Fleet, rows: list[WorkloadLine]) -> list[WorkloadLine]:
    """The rows of workloads; those that hold quota get their job's health."""
    from screens.columns.jobs import JobLine
    from screens.columns.live_jobs import with_diagnoses

    await read_diagnoses(session)
    jobs = {row.workload.key: fleet.jobset_by_uid.get(row.workload.owner_uid) for row in rows if not row.position}
    progress = await read_progress_of_jobs(session, filter(None, jobs.values()))
    return [
        replace(row, health=with_diagnoses(session, JobLine(jobset, fleet, progress.get(jobset.uid))).health)
        if (jobset := jobs.get(row.workload.key)) is not None
        else row
        for row in rows
    ]


async def read_diagnoses(session: Session) -> None:
    """Read the stored diagnoses of jobs; warns if they cannot be read, and goes on without them."""
    try:
        await session.diagnoses.refresh()
    except Unreadable as error:
        warn(str(error))


async def read_progress_of_jobs(session: Session, jobs: Iterable[JobSet]) -> Mapping[str, JobProgress]:
    """The progress of these jobs by the ends of their logs, as far as these can be read in time."""
    keys = [each.key for each in sorted(jobs, key=lambda each: (each.finished, -each.created))]
    progress_reader = session.measures.progress_reader
    with suppress(TimeoutError):
        async with asyncio.timeout(HEALTH_TIMEOUT):
            await progress_reader.update(keys)
    return progress_reader.known


def raise_unreadable(layout: ListLayout[Any], fleet: Fleet) -> None:
    """Raise an error if the list's main kind could not be read, as an empty list would be wrong."""
    link = fleet.links.get(layout.main_kind)
    if link is None or link.state in {WatchState.LIVE, WatchState.LISTING}:
        return
    kind: type[ConsoleError] = {WatchState.FORBIDDEN: NotAllowed, WatchState.ABSENT: NotFound}.get(
        link.state, ConsoleError
    )
    raise kind(f"{layout.main_kind}: {link.why}", link.hint)


def unread_kinds(kinds: tuple[str, ...], fleet: Fleet) -> dict[str, str]:
    """By kind the reason why it could not be read, so that its data is missing in the rows."""
    return {
        kind: fleet.links[kind].why
        for kind in kinds
        if kind in fleet.links
        and fleet.links[kind].state in {WatchState.FORBIDDEN, WatchState.ABSENT, WatchState.STALE}
    }


def print_rows(layout: ListLayout[Any], rows: list[Any], subject: str) -> None:
    print_listing(False, None, layout.columns, rows, f"No {subject}.")


class ListOptions(Options):
    all_namespaces: bool = flag("-A", "--all-namespaces", help="of all namespaces")
    json: bool = json_flag()


class JobsOptions(ListOptions):
    mine: bool = flag("--mine", help="only those whose label says that you launched them")


class NodesOptions(ListOptions):
    faulty: bool = flag("--faulty", help="only those with something wrong; exit code 5 if there is one, else 0")


def _keys_help(name: str) -> str:
    """The JSON keys of a list with their columns and meanings, as help text."""
    columns = [column for column in layout_of(name).columns if column.key]
    titles = [column.title if column.only in {"", COMMAND} else "" for column in columns]
    key_width, title_width = max(len(column.key) for column in columns), max(map(len, titles))
    lines = "\n".join(
        f"  {column.key:{key_width}}  {title:{title_width}}  {column.meaning}"
        for column, title in zip(columns, titles, strict=True)
    )
    head = "JSON: kind, at, unread (kinds that could not be listed, and why), items with these keys; beside each the "
    return f"{head}\ncolumn of the table that shows it:\n{lines}\n\n{EXIT_CODES}"


OPTIONS: Mapping[str, type[ListOptions]] = {"jobs": JobsOptions, "nodes": NodesOptions}
COMMANDS: Commands = {
    name: Command(show_list, OPTIONS.get(name, ListOptions), epilog=partial(_keys_help, name)) for name in LISTS
}
