"""Commands that forecast starts and the effects of changes, by Kueue's own rules.

`a4 forecast`, `a4 whatif`: when waiting jobs would start, as things are and if something were changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from console.errors import BadInput, NotFound
from console.kube.find_job import find_job
from console.kube.gpu_pods import gpu_pod_selectors
from console.kube.objects.meta import GPU
from console.kube.objects.workload import Workload
from console.kube.snapshot import Fleet
from console.scheduling.forecast_record import RecordedWindow, score
from console.scheduling.kueue_snapshot import job_name, queue_position, workload_of_job
from console.scheduling.what_if import Changes, Consequence, NextVictims, WhatIf, what_if as compare
from console.scheduling.why import JOB_KINDS
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, option, word
from screens.cli.lists import expected_starts, unread_kinds
from screens.cli.open_session import open_session
from screens.cli.output import print_json, print_line, print_table, table_lines, warn
from screens.columns.jobs import start_json, start_words
from screens.wording import clock, duration

MAX_NAMED_VICTIMS = 5  # that are named


async def run_forecast(options: ForecastOptions) -> int:
    async with open_session(options, JOB_KINDS, is_brief=True, selectors={"pods": gpu_pod_selectors}) as session:
        fleet, forecasts = session.fleet, session.forecasts
        await session.launch.recorder.update_open_runs()  # how long runs took that ended while no console was open
        starts = await expected_starts(session)
        try:
            promises = await forecasts.record_windows()
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
                raise _not_waiting_error(fleet, session.namespace, options.job)
        elif not found and namespace and not any(where == namespace for where, _ in fleet.jobsets):
            await session.watch.require_namespace(namespace)
    found.sort(key=lambda each: (not starts[each.key].at, starts[each.key].at, queue_position(each, fleet), each.key))
    missing = unread_kinds(JOB_KINDS, fleet)
    if options.json:
        items = [_workload_json(each, fleet, start_json(starts[each.key], fleet.at)) for each in found]
        fields = {"kind": "forecast", "at": fleet.at, "unread": missing, "rollouts": forecasts.windows.rollouts}
        print_json({**fields, **_rule_versions(fleet), "items": items})
        return 0
    for kind, reason in missing.items():
        warn(f"{kind}: {reason}")
    rows = [
        (
            job_name(each),
            each.namespace,
            each.queue,
            f"{queue_position(each, fleet) or ''}",
            f"{each.total(GPU)}",
            start_words(starts[each.key], fleet.at),
        )
        for each in found
    ]
    if rows:
        print_table(("JOB", "NAMESPACE", "QUEUE", ">POSITION", ">GPUS", "STARTS"), rows)
        for line in _iter_footnotes(fleet, promises):
            print_line(line)
    else:
        print_line("Nothing waits.")
    return 0


def _iter_footnotes(fleet: Fleet, windows: Sequence[RecordedWindow]) -> Iterator[str]:
    if fleet.kueue_version.unknown_note:
        yield f"{fleet.kueue_version.unknown_note}."
    if (past := score(windows)).judged:
        yield f"Of {past.judged} earlier windows {past.held} held the start (a4 forecast --record)."


def _rule_versions(fleet: Fleet) -> dict[str, str | None]:
    """JSON: `kueue`, the cluster's Kueue version (None if unknown), and `rules`, whose rules the forecast follows."""
    return {"kueue": fleet.kueue_version.number or None, "rules": f"0.{fleet.kueue_version.rules_minor}"}


def _not_waiting_error(fleet: Fleet, namespace: str, name: str) -> NotFound:
    """The error for a job that does not wait; that of `find_job` is raised if there is none of that name."""
    if workload_of_job(fleet, namespace, name) is None:
        find_job(fleet, namespace, name)
    return NotFound(f"{name} waits in no queue of namespace {namespace}.", f"a4 why {name}")


def _print_record(windows: Sequence[RecordedWindow], *, as_json: bool) -> int:
    total = score(windows)
    if as_json:
        items = [structs.asdict(each) | {"held": each.held if each.judged else None} for each in windows]
        print_json({"kind": "forecast-record", **structs.asdict(total), "items": items})
    elif not windows:
        print_line("No window has been told yet: a4 forecast -A tells and keeps them.")
    else:
        off = total.median_error
        error = "" if off is None else f"; half of the starts were within {duration(off)} of the middle"
        print_line(
            f"{total.held} of {total.judged} windows held the start{error}; {total.open} are open. A window is "
            "meant to hold 80%."
        )
        rows = [
            (
                each.job,
                each.namespace,
                clock(each.made),
                clock(each.start),
                clock(each.end),
                clock(each.started) or "-",
                "yes" if each.held else "no" if each.judged else "open",
            )
            for each in reversed(windows)
        ]
        print_table(("JOB", "NAMESPACE", "FORECAST", "FROM", "TO", "STARTED", "HELD"), rows)
    return 0


def _workload_json(workload: Workload, fleet: Fleet, start: dict[str, Any]) -> dict[str, object]:
    return {
        "job": job_name(workload),
        "namespace": workload.namespace,
        "queue": workload.queue,
        "gpus": workload.total(GPU),
        "position": queue_position(workload, fleet),
        "start": start.pop("at"),
        **start,
    }


async def run_what_if(options: WhatIfOptions) -> int:
    drain = (*options.drain, *options.lose)
    changes = Changes(
        submit=tuple(options.submit),
        stop=tuple(options.stop),
        drain=drain,
        quota=tuple(options.quota),
        priority=tuple(options.priority),
    )
    if changes == Changes():
        raise BadInput("Nothing to try.", "Name a change, as in a4 whatif --submit a4:32; a4 whatif --help has all.")
    async with open_session(options, JOB_KINDS, is_brief=True, selectors={"pods": gpu_pod_selectors}) as session:
        fleet = session.fleet
        missing = unread_kinds(JOB_KINDS, fleet)
        classes = await session.priority_classes(changes.priority_classes)
        found = await session.launch.unsaved.add_losses(compare(fleet, session.namespace, changes, classes))
    if options.json:
        print_json(
            {
                "kind": "whatif",
                "at": fleet.at,
                "unread": missing,
                "notes": found.notes,
                "items": found.consequences,
                "free": found.free,
                "next_victims": found.next_victims,
                **_rule_versions(fleet),
            }
        )
        return 0
    for kind, reason in missing.items():
        warn(f"{kind}: {reason}")
    for line in result_lines(found, fleet):
        print_line(line)
    return 0


def result_lines(outcome: WhatIf, fleet: Fleet) -> list[str]:
    rows = [
        (each.job, each.namespace, each.queue, f"{each.gpus}", _describe_consequence(each))
        for each in outcome.consequences
    ]
    quota = [(each.queue, each.flavor, f"{each.now}", f"{each.then}") for each in outcome.free]
    machines = dict.fromkeys(
        (each.flavor, _machine_words(each.machines_now), _machine_words(each.machines_then)) for each in outcome.free
    )
    return [
        "Nothing is changed on the cluster. If it were, now:",
        *(
            table_lines(("JOB", "NAMESPACE", "QUEUE", ">GPUS", "THEN"), rows)
            if rows
            else ["No job would start, stop or wait that does not already."]
        ),
        *(f"Lost of {each.job}: {each.lost}." for each in outcome.consequences if each.lost),
        "",
        *table_lines(("QUEUE", "FLAVOR", ">QUOTA FREE NOW", ">QUOTA FREE THEN"), quota),
        "",
        *table_lines(("FLAVOR", ">GPUS FREE NOW", ">GPUS FREE THEN"), list(machines)),
        *(f"{note[0].upper()}{note[1:]}." for note in (*outcome.notes, fleet.kueue_version.unknown_note) if note),
        *([_victim_words(outcome.next_victims)] if outcome.next_victims else []),
    ]


def _victim_words(victims: NextVictims) -> str:
    names = [name for _, name in victims.victims]
    more = f" and {len(names) - MAX_NAMED_VICTIMS} more" if len(names) > MAX_NAMED_VICTIMS else ""
    who = f"{', then '.join(names[:MAX_NAMED_VICTIMS])}{more}"
    where = f"in queue {victims.queue}, where {victims.job} waits"
    return f"For more jobs of priority {victims.priority} {where}, Kueue would preempt first {who}."


def _machine_words(gpus: int | None) -> str:
    return "not known" if gpus is None else f"{gpus}"


def _describe_consequence(consequence: Consequence) -> str:
    match consequence.what:
        case "preempted":
            return f"preempted for {consequence.by}, waits at position {consequence.position}"
        case "waits":
            return f"waits at position {consequence.position}" if consequence.position else "waits: its queue is closed"
        case "never starts":
            return f"never starts: queue {consequence.queue} can have {consequence.most} GPUs at most"
        case "leaves":
            return f"loses its machines, waits at position {consequence.position}"
        case "moves":
            return "starts again on other machines"
        case _:
            return consequence.what


class ForecastOptions(Options):
    job: str = word("JOB", nargs="?", help="only this one")
    all_namespaces: bool = flag("-A", "--all-namespaces", help="of all namespaces")
    record: bool = flag("--record", help="what came of the windows that were told, instead")
    json: bool = json_flag()


class WhatIfOptions(Options):
    submit: list[str] = option(
        "--submit",
        metavar="QUEUE:GPUS[:PRIORITY]",
        action="append",
        help="a new job in a LocalQueue or ClusterQueue, PRIORITY a number or a WorkloadPriorityClass; may be repeated",
    )
    stop: list[str] = option("--stop", metavar="JOB", action="append", help="a job is stopped; may be repeated")
    drain: list[str] = option(
        "--drain",
        metavar="NODE|POOL",
        action="append",
        help="a node (or the end of its name: 0013), or all of a pool, takes no pods; its jobs leave; may be repeated",
    )
    quota: list[str] = option(
        "--quota", metavar="QUEUE:FLAVOR:GPUS", action="append", help="another quota of a ClusterQueue; may be repeated"
    )
    priority: list[str] = option(
        "--priority",
        metavar="JOB:PRIORITY",
        action="append",
        help="another priority of a job, a number or a WorkloadPriorityClass; may be repeated",
    )
    lose: list[str] = option(
        "--lose", metavar="HOST", action="append", help="a host, or a node as above, is lost; may be repeated"
    )
    json: bool = json_flag()


COMMANDS: Commands = {
    "forecast": Command(
        run_forecast,
        ForecastOptions,
        description="When waiting jobs would start, by Kueue's own rules and the progress of what runs. A "
        "forecast, not a promise: GPUs and places are counted, no other resource. A window holds the start in 80% of "
        "up to 200 rollouts, in which run times differ as those of earlier runs did, and others come as often as in "
        "the last two weeks; each is kept on this machine and compared with the start, and from 20 on later windows "
        "are corrected by that.",
        epilog="JSON: kind, at, unread, rollouts (how many the time was enough for), items with job, namespace, queue, "
        "gpus, position (in its ClusterQueue), start (seconds since the epoch; null: not known), after (the "
        "job whose end it waits for), latest (whether it may start sooner), window (two moments; null: not known), "
        "the bounds not_before and not_after (seconds since the epoch; null: none), at_once_if_ends (jobs of no known "
        "end), checks (admission checks by which machines are provisioned; then no start is told) and quota_at (when "
        "it would have quota then), unknown (why it is not known), words (all that as text). With --record: "
        "held, judged, open, median_error (seconds), "
        "items with server, uid, namespace, job, made, start, middle, end, simulated (these "
        "three before the correction), started (0: it has not), late, held (null: open)",
    ),
    "whatif": Command(
        run_what_if,
        WhatIfOptions,
        description="Who would start, who would be preempted and what would be left free if something were changed, by "
        "Kueue's own rules on a copy of the cluster, against what they do without it. Nothing is changed on the "
        "cluster. GPUs and places are counted, no other resource.",
        epilog="JSON: kind, at, unread, notes (sentences: what is not counted, queues that are closed), items with "
        "job, namespace, queue, gpus, what (starts, waits, never starts, preempted, moves: starts again on other "
        "machines, leaves: loses its machines and waits, stopped), by (for which job it is preempted), position (in "
        "its ClusterQueue; 0: it does not wait), most (GPUs that its queue could have; null unless it asks for more), "
        "lost (what of its work is in no checkpoint, as words; empty: nothing of it runs, or it would go on); "
        "free with queue, flavor, now, then (GPUs of quota, its own and borrowed), machines_now, machines_then "
        "(GPUs on machines of the flavor; null: it has no topology, and Kueue counts no machines); next_victims with "
        "job, queue and priority of the waiting job of the highest priority, and victims (namespace and name of jobs "
        "that Kueue would preempt for more of that, in its order; null: none)",
    ),
}
