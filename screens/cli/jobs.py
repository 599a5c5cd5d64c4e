"""Commands on one job: launch, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import BadInput, NotFound
from console.models.job import JobState
from console.models.launch import LaunchPlan
from console.models.ranks import ranks
from console.models.values import overlay
from console.models.why_job import why_jobset
from console.session import launchable
from screens.cli.columns import JOBS
from screens.cli.connect import connected
from screens.cli.output import say, say_json, say_table, warn

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from console.models.job import JobSet
    from console.models.launch import Recipe
    from console.models.pod import Pod
    from console.session import Session
    from screens.cli.options import Options

JOB_KINDS = ("jobsets", "jobs", "pods")
WAIT_KINDS = (JOBS.kind, *JOBS.uses)
"""What the reason for a wait is made of."""


async def recipes(options: Options) -> int:
    """Print what can be launched; needs no cluster."""
    found = launchable()
    if options.json:
        say_json(found)
        return 0
    say_table(
        ("RECIPE", "DOCUMENT", "WHAT IT DOES"), [(each.id, each.code, each.summary) for each in found], (False,) * 3
    )
    return 0


async def launch(options: Options) -> int:
    """Launch a recipe, or only ask the API server whether it would take it; `--wait` follows it to its end."""
    async with connected(options, WAIT_KINDS if options.wait else ()) as session:
        plan = await make_plan(session, options)
        problems = session.problems(plan)
        if problems:
            raise BadInput(
                "; ".join(f"{each.path}: {each.message}" if each.path else each.message for each in problems)
            )
        for note in session.notes(plan):
            warn(note)
        if options.dry_run:
            await session.check(plan)
            return await print_manifests(session, plan, as_json=options.json)
        name = await session.launch(plan)
        if not options.wait:
            if options.json:
                say_json({"namespace": plan.namespace, "name": name})
            else:
                say(f"Launched {name} in namespace {plan.namespace}. Watch it: a4 jobs, a4 logs {name} --follow")
            return 0
        return await wait_for_end(session, plan.namespace, name, as_json=options.json)


async def make_plan(session: Session, options: Options) -> LaunchPlan:
    """The launch that the options describe: the profile's values, then those of an earlier run, then what was typed."""
    run = await session.runs.find(options.like) if options.like else None
    if run is None and not options.recipe:
        raise BadInput("No recipe was named.", "a4 recipes lists them; or launch an earlier run again: --like RUN.")
    recipe = find_recipe(session.recipes(), options.recipe or (run.recipe if run else ""))
    if run is not None and run.recipe != recipe.id:
        raise BadInput(f"Run {run.number} ({run.name}) is of {run.recipe}, not of {recipe.id}.")
    if run is not None and run.left_out:
        warn(f"Not remembered of {run.name}, because secret: {', '.join(run.left_out)}.")
    profile = options.profile or ("" if run or options.no_profile else await session.profiles.default())
    values = await session.profiles.values(profile, recipe.id) if profile else {}
    values = overlay(overlay(values, run.values if run else {}), session.set_values(recipe.id, options.set))
    return LaunchPlan(
        recipe=recipe.id,
        name=options.name or session.suggest_name(recipe.id),
        namespace=session.namespace,
        values=values,
    )


def find_recipe(known: tuple[Recipe, ...], word: str) -> Recipe:
    """The recipe of that name or of that number in the documents (W03); BadInput names those there are."""
    for each in known:
        if word.lower() in {each.id, each.code.lower()}:
            return each
    raise BadInput(f"There is no recipe {word}.", f"There are: {', '.join(each.id for each in known)}.")


async def print_manifests(session: Session, plan: LaunchPlan, *, as_json: bool) -> int:
    """What would be created."""
    manifests = await session.render(plan)
    if as_json:
        say_json({"namespace": plan.namespace, "name": plan.name, "manifests": manifests})
    else:
        say("\n---\n".join(each.text.strip() for each in manifests))
    return 0


async def wait_for_end(session: Session, namespace: str, name: str, *, as_json: bool) -> int:
    """Say each state the job passes through on standard error; 0 when it succeeds, 1 when it fails or goes away."""
    last: JobState | None = None
    waits = ""
    await session.listed(*WAIT_KINDS)
    async for fleet in session.snapshots():
        job = fleet.jobsets.get((namespace, name))
        if job is None:
            if last is None:
                continue
            raise NotFound(f"{name} was deleted before it ended.")
        if job.state is not last:
            last = job.state
            warn(f"{name}: {last}")
        reason = why_jobset(job, fleet).sentence if last is JobState.PENDING else ""
        if reason and reason != waits:
            waits = reason
            warn(f"{name}: {reason}")
        if job.finished:
            if as_json:
                say_json({"namespace": namespace, "name": name, "state": job.state, "failure": job.failure})
            elif job.failure:
                warn(job.failure)
            return 0 if job.state is JobState.SUCCEEDED else 1
    return 1


def find_job(fleet: Fleet, namespace: str, name: str) -> JobSet:
    """The JobSet of that name; NotFound names those there are."""
    job = fleet.jobsets.get((namespace, name))
    if job is None:
        known = sorted(other for where, other in fleet.jobsets if where == namespace)
        hint = f"There are: {', '.join(known)}." if known else "There are none; other namespaces: --namespace."
        raise NotFound(f"There is no job {name} in namespace {namespace}.", hint)
    return job


def pod_of_rank(fleet: Fleet, namespace: str, name: str, rank: int) -> Pod:
    """The live pod of a job's rank."""
    job = find_job(fleet, namespace, name)
    every = ranks(job, fleet)
    if not 0 <= rank < len(every):
        raise BadInput(f"{name} has no rank {rank}.", f"Its ranks are 0 to {len(every) - 1}." if every else "")
    pod = every[rank].pod
    if pod is None:
        raise NotFound(f"Rank {rank} of {name} has no pod: the job is {job.state}.", "Why: a4 jobs --json")
    return pod
