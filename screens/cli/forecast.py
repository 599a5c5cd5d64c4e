"""`a4 forecast`: when waiting jobs would start."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from console.errors import NotFound
from console.kube.find_job import find_job
from console.kube.objects.workload import Workload
from console.scheduling.forecast_record import Promise, score
from console.scheduling.kueue_snapshot import queue_position
from console.scheduling.quota_accounts import job_name
from console.scheduling.why_answer import WAIT_KINDS
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, word
from screens.cli.connect import open_session
from screens.cli.lists import expected_starts, unread
from screens.cli.output import print_json, print_line, print_table, warn
from screens.columns.jobs import start_json, start_words
from screens.wording import clock, duration

KINDS = (*WAIT_KINDS, "topologies")


async def forecast(options: ForecastOptions) -> int:
    async with open_session(options, KINDS) as session:
        fleet, measures = session.fleet, session.measures
        starts = await expected_starts(session)
        try:
            promises = await measures.record_windows()
        except OSError as error:
            warn(f"The windows could not be stored, so nobody will compare them: {error.strerror}.")
            promises = ()
        if options.record:
            return _print_record(promises, as_json=options.json)
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
        items = [
            _item(each, position=queue_position(each, fleet))
            | {"start" if key == "at" else key: value for key, value in start_json(starts[each.key], fleet.at).items()}
            for each in found
        ]
        print_json(
            {
                "kind": "forecast",
                "at": fleet.at,
                "unread": missing,
                "rollouts": measures.windows.rollouts,
                "items": items,
            }
        )
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
        if (past := score(promises)).judged:
            print_line(f"Of {past.judged} earlier windows {past.held} held the start (a4 forecast --record).")
    else:
        print_line("Nothing waits.")
    return 0


def _print_record(promises: Sequence[Promise], *, as_json: bool) -> int:
    total = score(promises)
    if as_json:
        items = [structs.asdict(each) | {"held": each.held if each.judged else None} for each in promises]
        print_json({"kind": "forecast-record", **structs.asdict(total), "items": items})
    elif not promises:
        print_line("No window has been told yet: a4 forecast -A tells and keeps them.")
    else:
        off = total.median_error
        error = "" if off is None else f"; half of the starts were within {duration(off)} of the middle"
        print_line(f"{total.held} of {total.judged} windows held the start{error}; {total.open} are open. A window is "
                   "meant to hold 80%.")  # fmt: skip
        rows = [
            (each.job, each.namespace, clock(each.made), clock(each.start), clock(each.end), clock(each.started) or "-",
             "yes" if each.held else "no" if each.judged else "open")
            for each in reversed(promises)
        ]  # fmt: skip
        print_table(("JOB", "NAMESPACE", "FORECAST", "FROM", "TO", "STARTED", "HELD"), rows, [False] * 7)
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
    record: bool = flag("--record", help="what came of the windows that were told, instead")
    json: bool = json_flag()


COMMANDS: Commands = {
    "forecast": Command(
        forecast,
        ForecastOptions,
        description="When waiting jobs would start, by Kueue's own rules and the progress of what runs, if nobody "
        "comes meanwhile. A forecast, not a promise: GPUs and places are counted, no other resource. A window holds "
        "the start in 80% of up to 200 rollouts, in which run times differ as those of earlier runs did; each is kept "
        "on this machine and compared with the start.",
        epilog="JSON: kind, at, unread, rollouts (how many the time was enough for), items with job, namespace, queue, "
        "gpus, position (in its ClusterQueue), start (seconds since the epoch; null: it cannot be known), after (the "
        "job whose end it waits for), latest (whether it may start sooner), window (two moments; null: not known), "
        "unknown (why it cannot be known), words (all that as text). With --record: held, judged, open, "
        "median_error (seconds), items with server, uid, namespace, job, made, start, middle, end, started (0: it has "
        "not), late, held (null: open)",
    )
}
