"""`a4 history`: launched runs and their outcome; `a4 ledger`: what the GPU-time of runs went into."""

from __future__ import annotations

import csv
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import yaml
from msgspec.structs import asdict, replace

from console.connection_settings import OWN_NAME, login_name
from console.errors import BadInput, BadKubeconfig, Conflict, ConsoleError, NotThere
from console.kube.objects.meta import short_name
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.run_record import (
    RunRecord,
    compare_values,
    find_run,
    is_run_of_job,
    last_success,
    require_run,
    running_runs,
)
from console.metrics.alarm import ALARM_GLYPH
from console.metrics.gpu_time_ledger import Ledger, LedgerBox, sum_ledgers
from console.metrics.time_spans import decode_recorded_spans
from console.session import Session, load_catalog
from screens import wording
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, option, word
from screens.cli.job_arguments import JOB_KINDS
from screens.cli.lists import read_diagnoses, read_progress_of_jobs
from screens.cli.logs import parse_moment
from screens.cli.open_session import open_session
from screens.cli.output import print_json, print_line, print_listing, print_result, print_table, warn
from screens.columns.jobs import JobLine
from screens.columns.live_jobs import with_diagnoses
from screens.columns.runs import RUNS, box_shares, cost_lines, hours_words
from screens.sanitize import one_line
from screens.wording import alarm_words, count, loss_words

if TYPE_CHECKING:
    from console.launch.run_database import RunHistory
    from console.metrics.health import JobHealth


async def run_history(options: HistoryOptions) -> int:
    """List runs, show one, compare two, or delete some; returns the exit code. NotThere if what is named is unknown."""
    async with open_history(options) as (kept, _, healths):
        named, lists = options.recipe, not (options.forgotten or options.diff or options.run)
        if (
            lists
            and named
            and not any(named.lower() in {each.id, each.code.lower()} for each in load_catalog().recipes())
        ):
            runs = await kept.list_runs()
            if not any(each.recipe == named for each in runs):
                if (run := find_run(runs, named)) is not None:
                    return show_run(replace(run, now=healths.get(run.number)), runs, as_json=options.json)
                what = f"no run {named} in the history" if named.isdecimal() else f"neither a recipe nor a run {named}"
                raise NotThere(f"There is {what}.", "a4 history lists the runs, a4 recipes the recipes.")
        runs = tuple(replace(run, now=healths.get(run.number)) for run in await runs_of(kept, named))
        if lists and options.namespace:
            runs = tuple(run for run in runs if run.namespace == options.namespace)
        if options.forgotten:
            code = await delete_runs(kept, runs, options)
        elif options.diff:
            code = show_difference(*(require_run(runs, word) for word in options.diff), as_json=options.json)
        elif options.run:
            code = show_run(require_run(runs, options.run), runs, as_json=options.json)
        else:
            report = {"kind": "history", "note": kept.note, "items": [as_item(run, SERVER_CLOCK.now()) for run in runs]}
            where = f" in namespace {options.namespace}" if options.namespace else ""
            code = print_listing(options.json, report, RUNS, runs, f"No runs{where} in the history.")
        if kept.note and not options.json:
            warn(kept.note)
    return code


async def runs_of(run_history: RunHistory, recipe: str) -> tuple[RunRecord, ...]:
    """Runs of a recipe, by name or code (W03); all runs if it is empty."""
    if not recipe:
        return await run_history.list_runs()
    found = await run_history.list_runs(recipe)
    return found or await run_history.list_runs(load_catalog().find_recipe(recipe).id)


@asynccontextmanager
async def open_history(
    options: Options, *, read_logs: bool = False
) -> AsyncIterator[tuple[RunHistory, Callable[[], Awaitable[str]], Mapping[int, JobHealth]]]:
    """(run history with open runs updated, function for the account's name, health of running jobs)."""
    try:
        async with open_session(options, ()) as session:
            history = session.launch.runs.history
            healths: Mapping[int, JobHealth] = {}
            if await session.launch.runs.has_open_runs():
                healths = await update_open_runs(session, read_logs=read_logs)
            yield history, session.watch.me, healths
    except BadKubeconfig:
        if options.kubeconfig or options.context:
            raise
        from console.launch.run_database import RunHistory, default_path

        async def me() -> str:
            return login_name()

        yield RunHistory(default_path()), me, {}


async def update_open_runs(session: Session, *, read_logs: bool = False) -> Mapping[int, JobHealth]:
    """Update the records of open runs; returns the health of running jobs by run number. Warns if that fails."""
    healths: dict[int, JobHealth] = {}
    try:
        watching = await Session.open(session.watch.settings, kinds=JOB_KINDS)
        try:
            await watching.watch.wait_until_listed(*JOB_KINDS, timeout=10)
            if read_logs:
                await watching.launch.recorder.read_open_logs()
            else:
                healths = await _read_healths(watching)
        finally:
            await watching.close()  # which settles what is open
    except ConsoleError as error:
        warn(f"The outcome of open runs is not known: {error.message}")
    return healths


async def _read_healths(session: Session) -> dict[int, JobHealth]:
    """The health of the open runs' jobs by run number, read from the ends of their logs as `a4 jobs` does."""
    fleet, server = session.fleet, session.watch.server
    runs = [run for run in await session.launch.runs.list_runs() if run.is_open and run.server == server]
    jobs = [(run, jobset) for run in runs if (jobset := fleet.jobsets.get(run.key)) and is_run_of_job(run, jobset)]
    progress = await read_progress_of_jobs(session, [jobset for _, jobset in jobs])
    await read_diagnoses(session)
    lines = [(run, JobLine(jobset, fleet, progress.get(jobset.uid))) for run, jobset in jobs]
    return {run.number: with_diagnoses(session, line).health for run, line in lines}


def as_item(run: RunRecord, now: float) -> dict[str, Any]:
    """A run as JSON; `state` is the outcome, or while it runs the active alarm."""
    known = {name: value for name, value in asdict(run).items() if name not in {"now", "seen", "looked"}}
    return {**known, "state": run.state, "why": run.reason, "seconds": run.seconds(now)}


def show_run(run: RunRecord, records: Sequence[RunRecord], *, as_json: bool) -> int:
    """Print one run: facts, values, and differences from the last successful one."""
    before = last_success(records, run)
    now = SERVER_CLOCK.now()
    if as_json:
        differences = compare_values(before, run) if before else ()
        print_json({**as_item(run, now), "last_success": before.number if before else None, "differences": differences})
        return 0
    who = f"you ({run.who})" if run.who == login_name() else run.who
    where = f"in {run.namespace} of {run.context}, chart {run.chart}"
    values = yaml.safe_dump(dict(run.values), sort_keys=False, allow_unicode=True).strip() if run.values else ""
    print_line(f"{run.name}: {run.recipe}, run {run.number}, {run.mode_words}")
    print_line(f"launched {wording.clock(run.launched)} by {who} {where}")
    found = []
    if run.peak_busbw is not None:
        average = f", average {run.average_busbw:.1f} GB/s" if run.average_busbw is not None else ""
        found.append(f"bus bandwidth: peak {run.peak_busbw:.1f} GB/s{average}")
    if run.loss is not None:
        found.append(f"last {'good ' if run.nan else ''}loss {loss_words(run)}")
    if run.step is not None:
        found.append(f"last step {run.step:,}")
    alarms = (f"{ALARM_GLYPH} {alarm_words(alarm, run)}" for alarm in run.alarms)
    for line in (*found, *alarms, values or "(defaults)"):
        print_line(line)
    if run.left_out:
        print_line(f"# not kept, because secret: {', '.join(run.left_out)}")
    if before:
        print_line()
        show_difference(before, run, as_json=False)
    return 0


def show_difference(old_run: RunRecord, new_run: RunRecord, *, as_json: bool) -> int:
    found = compare_values(old_run, new_run)
    if as_json:
        print_json({"before": old_run.number, "after": new_run.number, "differences": found})
        return 0
    names = f"{old_run.name} (run {old_run.number}, {old_run.outcome})", f"{new_run.name} (run {new_run.number})"
    if not found:
        print_line(f"{names[1]} has the same values as {names[0]}.")
        return 0
    print_line(f"{names[1]} against {names[0]}:")
    rows = [(each.path, value_or_default(each.before), value_or_default(each.after)) for each in found]
    print_table(("VALUE", f"RUN {old_run.number}", f"RUN {new_run.number}"), rows)
    return 0


def value_or_default(text: str | None) -> str:
    """A value on one line; None is shown as the default."""
    return "(default)" if text is None else one_line(text)


async def delete_runs(run_history: RunHistory, records: Sequence[RunRecord], options: HistoryOptions) -> int:
    wanted = [require_run(records, word) for word in options.forgotten]
    if going := await _running_runs(options, [run for run in wanted if run.is_open]):
        names = ", ".join(dict.fromkeys(run.name for run in going))
        raise Conflict(
            f"Nothing was forgotten: the job of {names} still runs, and its record is written until it ends.",
            f"a4 stop {going[0].name} ends it.",
        )
    chosen = {run.number for run in wanted}
    gone = await run_history.delete_runs(sorted(chosen))
    report = {"forgotten": sorted(chosen) if gone else []}
    print_result(options.json, report, f"Forgot {wording.count(gone, 'run')}.")
    return 0 if gone else 1


async def _running_runs(options: HistoryOptions, records: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """The runs whose job still runs in the connected cluster."""
    if not records:
        return ()
    with suppress(ConsoleError):
        async with open_session(options, JOB_KINDS) as session:
            fleet = await session.wait_until_listed(*JOB_KINDS)
            return running_runs(records, fleet.jobsets, session.watch.server)
    return ()


GROUPINGS = ("owner", "queue", "recipe", "node")
NO_OWNER = "not known"
Rows = dict[str, list[Ledger]]


async def run_ledger(options: LedgerOptions) -> int:
    """Print the ledger of one run, or of all since a moment, in groups if asked for. BadInput for groups of one run."""
    if options.job and options.by:
        raise BadInput("Either a job or --by.", "a4 ledger JOB, or a4 ledger --by owner.")
    since = parse_moment(options.since)
    now = SERVER_CLOCK.now()  # up to when their logs are read, which takes a moment: nothing of it is "not seen"
    async with open_history(options, read_logs=True) as (kept, asks, _):
        runs = await kept.list_runs()
        me = short_name(await asks()) if options.by == "owner" else ""
    if options.job:
        return _show_run(require_run(runs, options.job), now, options)
    runs = tuple(run for run in runs if (run.ended or now) >= since and options.namespace in {"", run.namespace})
    rows = _group_runs(runs, options.by, now)
    ledgers = {name: sum_ledgers(each) for name, each in rows.items()}
    title = (options.by or "run").upper()
    if options.json:
        items = [{title.lower(): name, "runs": len(rows[name]), **ledger_json(each)} for name, each in ledgers.items()]
        total = {"runs": len(runs), **ledger_json(sum_ledgers(ledgers.values()))}
        print_json({"kind": "ledger", "since": since, "items": items, "total": total})
    elif options.csv:
        _write_csv(title.lower(), [(name, len(rows[name]), cost) for name, cost in ledgers.items()])
    elif not ledgers:
        print_line("No run in the history since then.")
    else:
        _print_groups(title, rows, ledgers, len(runs), me)
    return 0


def _group_runs(records: Iterable[RunRecord], by: str, now: float) -> Rows:
    found: Rows = {}
    for run in records:
        cost = run.ledger(now)
        nodes = decode_recorded_spans(run.seen).nodes if by == "node" else ()
        if nodes and run.gpus % len(nodes) == 0:
            for node in nodes:
                found.setdefault(node, []).append(cost.scale(run.gpus // len(nodes), run.gpus))
            continue
        names = {"owner": short_name(run.who), "queue": run.queue, "recipe": run.recipe, "node": ""}
        found.setdefault(names.get(by, f"{run.number} {run.name}") or NO_OWNER, []).append(cost)
    return dict(sorted(found.items(), key=lambda each: -sum(cost.allocated for cost in each[1])))


def ledger_json(ledger: Ledger) -> dict[str, Any]:
    """A ledger as JSON, in GPU-seconds."""
    boxes = {str(box).replace(" ", "_"): ledger.boxes.get(box, 0) / 1000 for box in LedgerBox}
    return {"gpus": ledger.gpus, "allocated_gpu_seconds": ledger.allocated / 1000, "gpu_seconds": boxes}


def _print_groups(title: str, rows: Rows, ledgers: dict[str, Ledger], run_count: int, own_name: str) -> None:
    total = sum_ledgers(ledgers.values())
    used = [box for box in LedgerBox if total.boxes.get(box)]
    cells = [
        [
            OWN_NAME if own_name and name == own_name else name,
            str(len(rows[name]) if name in rows else run_count),
            hours_words(cost.allocated),
            *(hours_words(cost.boxes.get(box, 0)) if box is LedgerBox.QUEUED else shares.get(box, "─") for box in used),
        ]
        for name, cost in [*ledgers.items(), ("all", total)]
        for shares in [box_shares(cost)]
    ]
    print_table([title, ">RUNS", ">GPU-TIME", *(f">{box}".upper() for box in used)], cells)


def _show_run(run: RunRecord, now: float, options: LedgerOptions) -> int:
    cost, seen = run.ledger(now), decode_recorded_spans(run.seen)
    if options.json:
        alarms = [asdict(alarm) for alarm in run.alarms]
        report = {"name": run.name, "number": run.number, "outcome": run.outcome, "why": run.why, "alarms": alarms}
        print_json({**report, "restarts": seen.restarts, "nodes": seen.nodes, **ledger_json(cost)})
    elif options.csv:
        _write_csv("run", [(f"{run.number} {run.name}", 1, cost)])
    else:
        print_line(f"{run.name}: {run.recipe}, run {run.number}, {run.mode_words}")
        for line in cost_lines(cost):
            print_line(line)
        if seen.restarts:
            print_line(f"{count(seen.restarts, 'restart')}")
        for alarm in run.alarms:
            print_line(f"▲ {alarm_words(alarm, run)}")
    return 0


def _write_csv(title: str, rows: Iterable[tuple[str, int, Ledger]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(
        [title, "gpus", "allocated_gpu_seconds", *(str(box).replace(" ", "_") for box in LedgerBox), "runs"]
    )
    for name, runs, cost in rows:
        boxes = (cost.boxes.get(box, 0) / 1000 for box in LedgerBox)
        writer.writerow([name, cost.gpus, cost.allocated / 1000, *boxes, runs])


class HistoryOptions(Options):
    recipe: str = word("RECIPE", nargs="?", help="only runs of this one; a run's number or name: that run")
    run: str = option(
        "--show", metavar="RUN", apart="what", help="one run: its values, and what differs from the last successful one"
    )
    diff: tuple[str, ...] = option(
        "--diff", nargs=2, metavar=("RUN", "RUN"), default=(), apart="what", help="values in which two runs differ"
    )
    forgotten: tuple[str, ...] = option(
        "--forget",
        nargs="+",
        metavar="RUN",
        default=(),
        apart="what",
        help="remove runs from the history; jobs are not touched",
    )
    json: bool = json_flag()


class LedgerOptions(Options):
    job: str = word("JOB", nargs="?", help="a job's name for its latest run, or a run's number")
    by: str = option("--by", choices=GROUPINGS, help="sums of all runs since then")
    since: str = option("--since", metavar="TIME", default="30d", help="runs that ended after that or go on: 12h, 30d")
    json: bool = json_flag(apart="form")
    csv: bool = flag("--csv", apart="form", help="as CSV, in GPU-seconds")


COMMANDS: Commands = {
    "history": Command(
        run_history,
        HistoryOptions,
        epilog="""\
RUN is a run's number, or a job's name for its latest run.
JSON: kind, note, items with number, recipe, name, namespace, context, server, outcome (waiting, running,
succeeded, failed, diverged, stopped, unknown), state (the same in the words of a4 jobs: pending
for waiting; diverged or stalled while it runs), why, launched, started, ended (seconds since the epoch, 0:
not known), seconds, gpus, queue, peak_busbw, average_busbw (GB/s), loss, step, chart, who, uid,
values, left_out.""",
    ),
    "ledger": Command(
        run_ledger,
        LedgerOptions,
        description="""\
What the GPU-time of runs that were launched from this machine went into, as far as its consoles saw it; the boxes
sum to what was allocated. Time in the queue is shown beside that: it holds no GPU.""",
        epilog="""\
Exit codes: 0 ok, 1 no such run, 2 usage, 3 not allowed, 4 cannot reach the cluster.
JSON: kind, since, items (run, owner, queue, recipe or node; runs, gpus, allocated_gpu_seconds, gpu_seconds),
total (the same of all, each run counted once); of one job: name, number, outcome, why, alarms, restarts,
nodes, gpus, allocated_gpu_seconds, gpu_seconds: queued (not allocated), pull, init, compile, productive, slow,
checkpoint, evaluation, hang, lost, restart, idle, not_seen.
Slow is what steps took longer while a rank was known to be slow, or the share of each step in which the others waited
for it, whether saved or not; lost is other work since the last checkpoint, or since the first step, that was
done again or never saved; productive are the steps, and the rows of an NCCL test; hang is the time since the last
step or row once the next is late; not_seen is what no console saw and no log told.""",
    ),
}
