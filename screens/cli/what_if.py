"""`a4 whatif`: which jobs would start or be preempted after a change, without making it."""

from __future__ import annotations

from console.errors import BadInput
from console.scheduling.what_if import Changes, Consequence
from console.scheduling.what_if import what_if as compare
from screens.cli.arguments import Command, Commands, Options, json_flag, option
from screens.cli.connect import open_session
from screens.cli.forecast import KINDS
from screens.cli.lists import unread
from screens.cli.output import print_json, print_line, print_table, warn


async def what_if(options: WhatIfOptions) -> int:
    drain = (*options.drain, *options.lose)
    changes = Changes(
        submit=tuple(options.submit), stop=tuple(options.stop), drain=drain, quota=tuple(options.quota),
        priority=tuple(options.priority),
    )  # fmt: skip
    if changes == Changes():
        raise BadInput("Nothing to try.", "Name a change, as in a4 whatif --submit a4:32; a4 whatif --help has all.")
    async with open_session(options, KINDS, brief=True) as session:
        fleet = session.fleet
        missing = unread(KINDS, fleet)
        found = compare(fleet, session.namespace, changes)
    if options.json:
        print_json({"kind": "whatif", "at": fleet.at, "unread": missing, "notes": found.notes,
                    "items": found.consequences, "free": found.free})  # fmt: skip
        return 0
    for kind, reason in missing.items():
        warn(f"{kind}: {reason}")
    print_line("Nothing is changed on the cluster. If it were, now:")
    titles = ("JOB", "NAMESPACE", "QUEUE", "GPUS", "THEN")
    rows = [(each.job, each.namespace, each.queue, f"{each.gpus}", _words(each)) for each in found.consequences]
    if rows:
        print_table(titles, rows, [title == "GPUS" for title in titles])
    else:
        print_line("No job would start, stop or wait that does not already.")
    print_line()
    free = ("QUEUE", "FLAVOR", "QUOTA FREE NOW", "QUOTA FREE THEN")
    print_table(
        free, [(each.queue, each.flavor, f"{each.now}", f"{each.then}") for each in found.free],
        [False, False, True, True],
    )  # fmt: skip
    print_line()
    machines = {each.flavor: (_machines(each.machines_now), _machines(each.machines_then)) for each in found.free}
    print_table(
        ("FLAVOR", "GPUS FREE NOW", "GPUS FREE THEN"), [(name, *gpus) for name, gpus in machines.items()],
        [False, True, True],
    )  # fmt: skip
    for note in found.notes:
        print_line(f"{note[0].upper()}{note[1:]}.")
    return 0


def _machines(gpus: int | None) -> str:
    return "not known" if gpus is None else f"{gpus}"


def _words(each: Consequence) -> str:
    match each.what:
        case "preempted":
            return f"preempted for {each.by}, waits at position {each.position}"
        case "waits":
            return f"waits at position {each.position}" if each.position else "waits: its queue is closed"
        case "never starts":
            return f"never starts: queue {each.queue} can have {each.most} GPUs at most"
        case "leaves":
            return f"loses its machines, waits at position {each.position}"
        case "moves":
            return "starts again on other machines"
        case _:
            return each.what


class WhatIfOptions(Options):
    submit: list[str] = option(
        "--submit",
        metavar="QUEUE:GPUS[:PRIORITY]",
        action="append",
        help="a new job in a LocalQueue or ClusterQueue; may be repeated",
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
        "--priority", metavar="JOB:N", action="append", help="another priority of a job; may be repeated"
    )
    lose: list[str] = option(
        "--lose", metavar="HOST", action="append", help="a host, or a node as above, is lost; may be repeated"
    )
    json: bool = json_flag()


COMMANDS: Commands = {
    "whatif": Command(
        what_if,
        WhatIfOptions,
        description="Who would start, who would be preempted and what would be left free if something were changed, by "
        "Kueue's own rules on a copy of the cluster, against what they do without it. Nothing is changed on the "
        "cluster. GPUs and places are counted, no other resource.",
        epilog="JSON: kind, at, unread, notes (sentences: what is not counted, queues that are closed), items with "
        "job, namespace, queue, gpus, what (starts, waits, never starts, preempted, moves: starts again on other "
        "machines, leaves: loses its machines and waits, stopped), by (for which job it is preempted), position (in "
        "its ClusterQueue; 0: it does not wait), most (GPUs that its queue could have; null unless it asks for more); "
        "free with queue, flavor, now, then (GPUs of quota, its own and borrowed), machines_now, machines_then "
        "(GPUs on machines of the flavor; null: it has no topology, and Kueue counts no machines)",
    )
}
