"""`a4 recipes`, `a4 values`, `a4 profiles`: what can be launched, with which values; `a4 launch` does it."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from console.errors import BadInput, ConsoleError, NotFound, Unreachable
from console.kube.find_job import find_node, require_listed
from console.kube.nested_values import Value, get_path, overlay_values
from console.kube.objects.jobset import JobSet, JobState
from console.launch.recipes import Draft, LaunchPlan
from console.launch.releases import DiffKind, format_unified
from console.metrics.alarm import AlarmKind
from console.metrics.health import is_kept, job_health
from console.preflight.all_checks import LAUNCH_CHECKS_TIMEOUT
from console.preflight.check import summarize_unanswered, tally_results
from console.scheduling.launch_alternatives import launch_alternatives
from console.scheduling.launch_forecast import FORECAST_NOTE, NO_QUEUE, QUEUE_KINDS, choose_queue, forecast
from console.scheduling.why import WAIT_KINDS, Category
from console.scheduling.why_job import why_job
from console.session import Session, load_catalog, read_priorities
from practice.programs.fault_settings import FAULT_VARIABLE, KINDS, PACE_VARIABLE
from screens.cli.arguments import (
    EXIT_ALARM,
    EXIT_CODES,
    Command,
    Commands,
    JsonOptions,
    Options,
    flag,
    json_flag,
    option,
    option_of_flags,
    word,
)
from screens.cli.job_arguments import ALARM_POLL_SECONDS, alarm_json, print_alarms
from screens.cli.open_session import open_session
from screens.cli.output import print_hint, print_json, print_line, print_result, print_table, warn
from screens.cli.prompts import confirm, is_interactive

if TYPE_CHECKING:
    from console.metrics.job_monitor import JobMonitor

DRY_RUN_KINDS = (
    "localqueues",
    "clusterqueues",
    "workloads",
    "resourceflavors",
    "topologies",
    "cohorts",
    "nodes",
    "pods",
    "jobsets",
)
"""The kinds of Kubernetes objects that a forecast needs."""
LAUNCH_KINDS = ("nodes", "events", "clusterqueues", "localqueues", "resourceflavors", "topologies", "cohorts")
"""The kinds that are watched for the checks before a launch, without pods, of which there may be thousands."""
LOG_TIMEOUT = 10.0
"""Seconds for which the log of a job that has ended may still be read for alarms."""
SPOILING_ALARMS = (AlarmKind.NAN, AlarmKind.BUSBW)
"""Alarms that make the result of a job useless even if it succeeds, unlike a restart or a loss spike."""
NODE_FIELDS = ("placement.avoidNodes", "placement.targetNodes")
_WITHOUT_KUEUE = "Kueue is bypassed: the pods start without its quota and topology"
_MAX_FILE_CHARACTERS = 1 << 20
"""Maximum size of a values file in bytes."""


async def run_recipes(options: Options) -> int:
    found = load_catalog().recipes()
    if options.json:
        print_json(found)
        return 0
    print_table(("RECIPE", "WHAT IT DOES"), [(each.id, each.summary) for each in found])
    return 0


async def run_values(options: ValuesOptions) -> int:
    """Print a commented values file with a recipe's defaults."""
    if options.json:
        print_json(load_catalog().fields(options.recipe))
    else:
        sys.stdout.write(load_catalog().values_file(options.recipe))
    return 0


async def run_launch(options: LaunchOptions) -> int:
    """Launch a recipe or preview it, or follow it to its end (`--wait`): the exit code. BadInput for a wrong plan."""
    kinds = DRY_RUN_KINDS if options.dry_run else (*LAUNCH_KINDS, *WAIT_KINDS) if options.wait else LAUNCH_KINDS
    async with open_session(options, kinds, waits=False) as session:
        looks = options.show_helm or options.against is not None or options.dry_run
        if not looks:
            session.watch.connection_for_change(f"launch {options.name or options.recipe or options.like or 'a job'}")
        profile = options.profile or ("" if options.no_profile else None)
        plan = await make_plan(session, options, like_run=options.like, profile=profile)
        plan = await with_full_node_names(session, plan)
        if problems := session.launch.catalogue.plan_problems(plan):
            raise BadInput(" ".join(f"{each.path}: {each.message}".removeprefix(": ") for each in problems))
        plan = await session.launch.with_flex_start(await with_queue(session, plan, is_preview=looks))
        await session.launch.read_saves(plan.recipe)
        for note in session.launch.notes(plan):
            warn(note)
        if options.show_helm:
            return print_command(session, plan, as_json=options.json)
        if options.against is not None:
            return await print_difference(session, plan, options)
        if options.dry_run:
            await session.launch.launcher().dry_run(plan)
            return await print_dry_run(session, plan, as_json=options.json)
        if options.preflight:
            await check_before_launch(session, plan)
        name = await _launch_and_warn(session, plan)
        if not options.wait:
            return await _print_result(session, plan, name, as_json=options.json)
        return await wait_for_end(session, plan.namespace, name, as_json=options.json)


async def _launch_and_warn(session: Session, plan: LaunchPlan) -> str:
    """Launch a plan; returns the job's name. Warns, if possible beforehand, that the history cannot keep its run."""
    unkept = await session.launch.runs.history.check_writes()
    if unkept:
        warn(f"{unkept} The run of {plan.name} will not be in it.")
    name = await session.launch.install(plan)
    if session.launch.runs.note != unkept:
        warn(session.launch.runs.note)
    return name


async def _print_result(session: Session, plan: LaunchPlan, name: str, *, as_json: bool) -> int:
    """Print the result of a launch; pods that are refused at first are not yet reported as a failure."""
    refused = await session.launch.wait_for_refusal(plan.namespace, name)
    queue = session.launch.demand(plan).queue
    if as_json:
        fields = {"why": refused.sentence, "next": refused.next, "said": refused.api_text} if refused else None
        print_json({"namespace": plan.namespace, "name": name, "queue": queue, "refused": fields})
    else:
        through = f", through queue {queue}" if queue else ""
        print_hint(
            f"Launched {name} in namespace {plan.namespace}{through}. Watch it: a4 jobs, a4 logs {name} --follow"
        )
        if refused is not None:
            step = f"{refused.next}, if that lasts" if refused.next else "That may pass"
            warn(f"{name}: {refused.sentence}. {step}: a4 why {name} tells.")
    return 0


async def check_before_launch(session: Session, plan: LaunchPlan) -> None:
    """Run the checks that could stop this launch, and ask about failed or unanswered ones; ConsoleError if declined."""
    shown = False

    def show_waiting(waiting_names: tuple[str, ...]) -> None:
        nonlocal shown
        if not shown:
            warn(f"The checks before the launch wait up to {LAUNCH_CHECKS_TIMEOUT:g} s for {', '.join(waiting_names)}.")
        shown = True

    checks = await session.preflight.before_launch(plan, show_waiting)
    for line in summarize_unanswered(checks):
        warn(line)
    found = tally_results(checks)
    if not (doubt := found.objections()):
        return
    for line in (line for check in found.failing for line in check.lines):
        warn(line)
    if not (is_interactive() and await confirm((), f"{doubt}. Launch {plan.name} all the same?")):
        hint = "Fix what failed, look again (a4 preflight), or skip the checks: --no-preflight."
        raise ConsoleError(f"{plan.name} was not launched: {doubt}.", hint)


async def make_plan(
    session: Session, options: PlanOptions, *, like_run: str = "", profile: str | None = None
) -> LaunchPlan:
    """The launch plan for the command-line options, over the values of a profile, an earlier run and files.

    `profile`: None for the default one, empty for none. Raises BadInput, or NotThere for an unknown recipe.
    """
    run = await session.launch.runs.find_run(like_run) if like_run else None
    texts = [(path, await read_text(path)) for path in options.values]
    variables, word = await session.launch.profiles.place_variables(), options.recipe
    for _, text in texts:
        word = word or await session.launch.plan_texts.detect_recipe(text, variables=variables)
    if run is None and not word:
        raise BadInput("No recipe was named.", "a4 recipes lists them; or launch an earlier run again: --like RUN.")
    recipe = load_catalog().find_recipe(word or (run.recipe if run else ""))
    if run is not None and run.recipe != recipe.id:
        raise BadInput(f"Run {run.number} ({run.name}) is of {run.recipe}, not of {recipe.id}.")
    if run is not None and run.left_out:
        warn(f"Not kept from {run.name}, because secret: {', '.join(run.left_out)}.")
    if profile is None:
        profile = "" if run else await session.launch.profiles.default_name()
    laid = await session.launch.profiles.values(profile, recipe.id) if profile else {}
    drafts = [
        (path, await session.launch.plan_texts.read_file(recipe.id, text, variables=variables)) for path, text in texts
    ]
    laid = merge_drafts(session, overlay_values(laid, run.values if run else {}), drafts)
    values = session.launch.set_values(recipe.id, options.set, laid)
    if options.queue is not None:
        values["queue"] = "" if options.queue == NO_QUEUE else options.queue
    name = options.name or next((draft.name for _, draft in drafts if draft.name), "")
    name = name or session.launch.suggest_name(recipe.id)
    return LaunchPlan(recipe=recipe.id, name=name, namespace=session.namespace, values=values)


async def with_full_node_names(session: Session, plan: LaunchPlan) -> LaunchPlan:
    """The plan with the full names of nodes that were given by the short names on screens."""
    given = {path: get_path(plan.values, path) for path in NODE_FIELDS}
    named = {path: found for path, found in given.items() if isinstance(found, list) and found}
    if not named:
        return plan
    try:
        nodes = (await session.wait_until_listed("nodes")).nodes
    except ConsoleError:  # a preview needs no cluster
        return plan
    values = plan.values
    for path, words in named.items():
        group, field = path.split(".")
        found = [(word, find_node(nodes, word)) for word in map(str, words)]
        values = overlay_values(
            values, {group: {field: [node.name if node is not None else word for word, node in found]}}
        )
    return replace(plan, values=values)


async def with_queue(session: Session, plan: LaunchPlan, *, is_preview: bool = False) -> LaunchPlan:
    """The plan with the named LocalQueue, else a recommended one, which is printed. Raises ConsoleError if unknown."""
    await read_priorities(session)
    ask = session.launch.demand(plan)
    if "queue" in plan.values:
        if ask.gpus and not ask.queue:
            warn(f"No queue, as requested: {_WITHOUT_KUEUE}.")
        return plan
    fleet = await session.wait_until_listed(*QUEUE_KINDS)
    choice = choose_queue(fleet, ask)
    if choice.queue:
        others = f" --queue NAME chooses another ({', '.join(choice.other_queues)})," if choice.other_queues else ""
        warn(f"Queue {choice.queue}: {choice.why}.{others} --queue {NO_QUEUE} bypasses Kueue.")
        return replace(plan, values={**plan.values, "queue": choice.queue})
    if choice.why_unknown:
        named = f"No queue was named (--queue NAME, or {NO_QUEUE} to bypass Kueue)"
        if not is_preview:
            require_listed(fleet, "localqueues", f"{named}, and which ones {plan.namespace} has")
            raise Unreachable(f"{named}: {choice.why_unknown}.")
        warn(f"{named}: {choice.why_unknown}.")
    elif ask.gpus:
        warn(f"No queue: {_WITHOUT_KUEUE}. {choice.why}")
    return plan


async def read_text(path: str) -> str:
    """The text of a values file or standard input. Raises BadInput if it cannot be read."""

    def read() -> bytes:
        if path == "-":
            return sys.stdin.buffer.read(_MAX_FILE_CHARACTERS + 1)
        with Path(path).expanduser().open("rb") as file:
            return file.read(_MAX_FILE_CHARACTERS + 1)

    try:
        raw = await asyncio.to_thread(read)
        if len(raw) > _MAX_FILE_CHARACTERS:
            raise BadInput(f"{path} is larger than 1 MB; values are a few lines.")
        return raw.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not a text file.") from error
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadInput(f"{path} cannot be read: {why}.", "a4 values RECIPE writes one.") from error


def merge_drafts(session: Session, values: dict[str, Value], drafts: Sequence[tuple[str, Draft]]) -> dict[str, Value]:
    """Merge values files in their order. Raises BadInput, which names file, line and problem."""
    for path, draft in drafts:
        file = "standard input" if path == "-" else path
        if draft.problems:
            problems = (f"{file}{',' if remark.line else ':'} {remark}" for remark in draft.problems)
            raise BadInput(" ".join(problems))
        for note in (*draft.left_out, *draft.notes):
            warn(f"{file}: {note.message}")
        if draft.namespace and draft.namespace != session.namespace:
            warn(f"{file}: its namespace {draft.namespace} was not taken; -n {draft.namespace} chooses it.")
        values = session.launch.plan_texts.overlay_draft(values, draft)
    return values


async def print_dry_run(session: Session, plan: LaunchPlan, *, as_json: bool) -> int:
    manifests = await session.launch.launcher().render(plan)
    await read_priorities(session)
    fleet, ask = await session.wait_until_listed(*DRY_RUN_KINDS), session.launch.demand(plan)
    fits, others = forecast(fleet, ask), launch_alternatives(fleet, ask)
    if as_json:
        fields = {"namespace": plan.namespace, "name": plan.name, "recipe": plan.recipe}
        found = {
            "notes": session.launch.notes(plan),
            "forecast": fits,
            "forecast_is": FORECAST_NOTE,
            "would_fit_now": others,
            "manifests": manifests,
        }
        print_json({**fields, **found})
    else:
        verdict = "" if fits.sentence.startswith(str(fits.verdict)) else f"{fits.verdict}: "
        warn(f"{verdict}{fits.sentence} ({FORECAST_NOTE}).")
        for each in others:
            warn(f"It would fit now {each.words}: --set {each.path}={each.value}.")
        print_line("\n---\n".join(each.text.strip() for each in manifests))
    return 0


def print_command(session: Session, plan: LaunchPlan, *, as_json: bool) -> int:
    command = session.launch.plan_texts.helm_command(plan)
    for name in () if as_json else command.needs:
        warn(f"Set the variable {name} first: it holds a secret.")
    return print_result(as_json, command, command.inline)


async def print_difference(session: Session, plan: LaunchPlan, options: LaunchOptions) -> int:
    """Print how the plan's objects differ from the defaults' or an earlier run's; BadInput if of another recipe."""
    run = await session.launch.runs.find_run(options.against) if options.against else None
    if run is not None and run.recipe != plan.recipe:
        raise BadInput(f"Run {run.number} ({run.name}) is of {run.recipe}, not of {plan.recipe}.")
    found = await session.launch.plan_texts.diff_with(plan, run.values if run else None)
    if options.json:
        print_json({"namespace": plan.namespace, "name": plan.name, "objects": found})
    elif all(each.change is DiffKind.SAME for each in found):
        print_line("The objects are the same.")
    else:
        sys.stdout.write(format_unified(found))
    return 0


async def wait_for_end(session: Session, namespace: str, name: str, *, as_json: bool) -> int:
    """Print each state and alarm of a job until it ends: 0 succeeded, 1 failed or deleted, 5 useless result."""
    await session.wait_until_listed(*WAIT_KINDS)
    async with session.alarms.open_monitor(namespace, name) as watched:
        telling = asyncio.create_task(print_alarms(session, name, watched))
        ends = [
            asyncio.create_task(_wait_until_ended(session, namespace, name)),
            asyncio.create_task(_wait_until_kept(session, watched)),
        ]
        try:
            first, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            job = first.pop().result()
            try:  # its last lines may tell of what its state does not
                async with asyncio.timeout(LOG_TIMEOUT):
                    await (telling if job.finished else asyncio.sleep(0))
            except TimeoutError:
                warn(f"The log of {name} was not read to its end in {LOG_TIMEOUT:g} s; a4 wait {name} reads it all.")
        finally:
            for task in (telling, *ends):
                task.cancel()
            await asyncio.gather(telling, *ends, return_exceptions=True)
        health = job_health(job, session.fleet, job_progress=watched.progress)
        alarms = [alarm_json(session, each) for each in watched.watch.alarms]
        spoilt = any(each.kind in SPOILING_ALARMS for each in watched.watch.active)
    state, failure = job.state, job.failure
    if health.kept:
        state, failure = JobState.FAILED if health.code else JobState.SUCCEEDED, health.words
    if as_json:
        print_json({"namespace": namespace, "name": name, "state": state, "failure": failure, "alarms": alarms})
    elif failure:
        warn(failure)
    return 1 if state is not JobState.SUCCEEDED else EXIT_ALARM if spoilt else 0


async def _wait_until_kept(session: Session, monitor: JobMonitor) -> JobSet:
    """Wait until the log shows that the program of a job with kept pods has ended; returns the JobSet."""
    while True:
        job = session.fleet.jobsets.get(monitor.key)
        if job is not None and is_kept(job, monitor.progress):
            return job
        await asyncio.sleep(ALARM_POLL_SECONDS)


async def _wait_until_ended(session: Session, namespace: str, name: str) -> JobSet:
    """Wait for the job's end, printing each state. NotFound if it is deleted, Unreachable if the session closes."""
    last: JobState | None = None
    waits = ""
    async for fleet in session.watch.snapshots():
        job = fleet.jobsets.get((namespace, name))
        if job is None:
            if last is None:
                continue
            raise NotFound(f"{name} was deleted before it ended.")
        if job.state is not last:
            last = job.state
            warn(f"{name}: {last}")
        found = why_job(job, fleet)
        explains = last is JobState.PENDING or found.category is Category.REFUSED
        reason = f"{found.sentence}{f'. {found.next}' if found.next else ''}" if explains else ""
        if reason and reason != waits:
            waits = reason
            warn(f"{name}: {reason}")
        if job.finished:
            return job
    raise Unreachable("The session was closed before the job ended.")


_FAULTS_HELP = "".join(f"\n  {kind:9}{what}" for kind, (_, what) in KINDS.items())


async def run_profiles(options: ProfilesOptions) -> int:
    from console.launch.profiles import Profiles

    kept = Profiles(load_catalog)
    if not options.name:
        if options.by_default is False:
            await kept.make_default("")
            return 0
        default, names = await kept.default_name(), await kept.names()
        if names and not options.json:
            rows = [(name, "yes" if name == default else "") for name in names]
            print_table(("PROFILE", "DEFAULT"), rows)
            return 0
        fields = {"kind": "profiles", "folder": str(kept.folder), "default": default, "items": names}
        none = f"No profiles in {kept.folder}. Make one: a4 profiles NAME --set queue=a4"
        return print_result(options.json, fields, none)
    if options.delete:
        await kept.delete_profile(options.name)
        print_line(f"Removed profile {options.name}.")
        return 0
    if options.set or options.unset:
        await kept.change_profile(options.name, options.set, options.unset)
    if options.by_default is not None:
        await kept.make_default(options.name if options.by_default else "")
    name, profile = options.name, await kept.read(options.name)
    if options.json:
        by_default = await kept.default_name() == name
        more = {"values": profile.values, "places": profile.place_values, "problems": profile.problems}
        print_json({"name": name, "default": by_default, **more})
    else:
        for each in profile.problems:
            warn(f"{name}: {each.message}")
        values = {**profile.place_values, **profile.values}
        print_line(yaml.safe_dump(values, sort_keys=False, allow_unicode=True).strip() if values else "# empty")
    return BadInput.exit_code if profile.problems else 0


class PlanOptions(Options):
    """The options that describe a launch, also for commands that only check it."""

    recipe: str = word("RECIPE", nargs="?", help="see `a4 recipes`; not with --like")
    values: tuple[str, ...] = option(
        "-f",
        "--values",
        action="append",
        metavar="FILE",
        help="a YAML file of values (see `a4 values`), also of Google's gpu-recipes charts, or a text with a helm"
        " install line; - for standard input; may be repeated, the last one wins",
    )
    set: tuple[str, ...] = option(
        "--set", action="append", metavar="KEY=VALUE", help="a value of the recipe; may be repeated"
    )
    queue: str | None = option(
        "--queue",
        metavar="NAME|none",
        default=None,
        help="the LocalQueue; none bypasses Kueue (default: the namespace's only one, else one that has room for it)",
    )
    name: str = option("--name", help="of the release and its JobSet (default: made from your user name)")


class LaunchOptions(PlanOptions):
    preflight: bool = flag(
        "--no-preflight",
        default=True,
        help="skip the preflight checks: image, buckets, claims, Secrets, queue, quota, networks",
    )
    dry_run: bool = flag(
        "--dry-run",
        apart="what",
        help="validate with the API server, say whether it fits now, print the manifests; change nothing",
    )
    against: str | None = option(
        "--diff",
        metavar="RUN",
        nargs="?",
        const="",
        default=None,
        apart="what",
        help="print what differs from the recipe's defaults, or from an earlier run; launch nothing",
    )
    """The run to print the difference from; empty: from the recipe's defaults; None: no difference is printed."""
    show_helm: bool = flag("--helm", apart="what", help="print the helm command; launch nothing")
    wait: bool = flag(
        "--wait",
        apart="what",
        help="until the job has ended; exit 1 if it failed, 5 if it diverged or its NCCL test failed",
    )
    json: bool = json_flag()
    like: str = option(
        "--like", metavar="RUN", help="with the values of an earlier run: its number or name, see `a4 history`"
    )
    profile: str = option(
        "--profile", metavar="NAME", apart="profile", help="with this profile as defaults, see `a4 profiles`"
    )
    no_profile: bool = flag("--no-profile", apart="profile", help="without a profile, not even the default one")


class ValuesOptions(Options):
    recipe: str = word("RECIPE", help="see `a4 recipes`")
    json: bool = json_flag("the fields of the form, with limits and choices")


class ProfilesOptions(Options):
    name: str = word("NAME", nargs="?")
    set: tuple[str, ...] = option("--set", action="append", metavar="KEY=VALUE", help="set a value; may be repeated")
    unset: tuple[str, ...] = option("--unset", action="append", metavar="KEY", help="drop a value; may be repeated")
    by_default: bool | None = option_of_flags(
        flag("--default", help="use it when none is named"),
        flag("--no-default", default=True, help="use none unless one is named"),
    )
    delete: bool = flag("--delete", help="remove it")
    json: bool = json_flag()


COMMANDS: Commands = {
    "recipes": Command(run_recipes, JsonOptions),
    "values": Command(
        run_values, ValuesOptions, epilog="Change what differs, drop the rest, and launch it: a4 launch RECIPE -f FILE"
    ),
    "launch": Command(
        run_launch,
        LaunchOptions,
        epilog=f"To make a job fail on the practice cluster: --set env.{FAULT_VARIABLE}=nan:20, which is "
        f"KIND:STEP\nor KIND:STEP:POD, several with \\, between. --set env.{PACE_VARIABLE}=0.2 makes its steps "
        f"shorter, in seconds.{_FAULTS_HELP}\n\n{textwrap.fill(EXIT_CODES, 118)}",
    ),
    "profiles": Command(
        run_profiles,
        ProfilesOptions,
        description="Profiles are named sets of default values for every form: queue, buckets, image, project. Each is "
        "a YAML file. Without options, list them, or show one.",
    ),
}
