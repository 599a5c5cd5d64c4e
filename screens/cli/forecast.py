"""`a4 forecast`: when waiting jobs would start."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from console.errors import NotFound
from console.kube.find_job import find_job
from console.scheduling.kueue_snapshot import queue_position
from console.scheduling.quota_accounts import job_name
from console.scheduling.why_answer import WAIT_KINDS
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, word
from screens.cli.connect import open_session
from screens.cli.lists import LOOKS, unread
from screens.cli.output import print_json, print_line, print_table, warn
from screens.columns.jobs import start_words

if TYPE_CHECKING:
    from console.kube.objects.workload import Workload

KINDS = (*WAIT_KINDS, "topologies")


async def forecast(options: ForecastOptions) -> int:
    async with open_session(options, KINDS) as session:
        fleet, measures = session.fleet, session.measures
        running = [job.key for job in fleet.jobsets.values() if not job.finished]
        with suppress(TimeoutError):  # a job whose log does not answer runs for a time that is not known
            async with asyncio.timeout(LOOKS):
                await measures.glancing.poll(running)
        starts = await measures.expected_starts()
        namespace = None if options.all_namespaces or options.job else session.namespace
        found = [
            each
            for each in fleet.workloads.values()
            if each.is_waiting and each.key in starts and namespace in {None, each.namespace}
        ]
        if options.job:
            found = [each for each in found if (each.namespace, job_name(each)) == (session.namespace, options.job)]
            if not found:
                find_job(fleet, session.namespace, options.job)
                raise NotFound(
                    f"{options.job} waits in no queue of namespace {session.namespace}.", f"a4 why {options.job}"
                )
        elif not found and namespace and not any(where == namespace for where, _ in fleet.jobsets):
            await session.watch.require_namespace(namespace)
    found.sort(key=lambda each: (not starts[each.key].at, starts[each.key].at, queue_position(each, fleet), each.key))
    missing = unread(KINDS, fleet)
    if options.json:
        items = [_item(each, position=queue_position(each, fleet)) | {
            "start": starts[each.key].at or None, "after": starts[each.key].after, "latest": starts[each.key].latest,
            "unknown": starts[each.key].unknown} for each in found]  # fmt: skip
        print_json({"kind": "forecast", "at": fleet.at, "unread": missing, "items": items})
        return 0
    for kind, reason in missing.items():
        warn(f"{kind}: {reason}")
    rows = [
        (
            job_name(each),
            each.namespace,
            each.queue,
            f"{queue_position(each, fleet) or ''}",
            f"{each.total('nvidia.com/gpu')}",
            start_words(starts[each.key], fleet.at),
        )
        for each in found
    ]
    if rows:
        titles = ("JOB", "NAMESPACE", "QUEUE", "POSITION", "GPUS", "STARTS")
        print_table(titles, rows, [title in {"POSITION", "GPUS"} for title in titles])
    else:
        print_line("Nothing waits.")
    return 0


def _item(workload: Workload, *, position: int) -> dict[str, object]:
    return {
        "job": job_name(workload),
        "namespace": workload.namespace,
        "queue": workload.queue,
        "gpus": workload.total("nvidia.com/gpu"),
        "position": position,
    }


class ForecastOptions(Options):
    job: str = word("JOB", nargs="?", help="only this one")
    all_namespaces: bool = flag("-A", "--all-namespaces", help="of all namespaces")
    json: bool = json_flag()


COMMANDS: Commands = {
    "forecast": Command(
        forecast,
        ForecastOptions,
        description="When waiting jobs would start, by Kueue's own rules and the progress of what runs, if nobody "
        "comes meanwhile. A forecast, not a promise: GPUs and places are counted, no other resource.",
        epilog="JSON: kind, at, unread, items with job, namespace, queue, gpus, position (in its ClusterQueue), "
        "start (seconds since the epoch; null: it cannot be known), after (the job whose end it waits for), latest "
        "(whether it may start sooner), unknown (why it cannot be known)",
    )
}
