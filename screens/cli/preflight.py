"""`a4 preflight`: checks of what a launch needs of cluster and project; `--fix` applies fixes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from console.errors import BadInput, ConsoleError
from console.launch.recipes import LaunchPlan
from console.preflight.check import Check, Result, lacks_all_permissions, tally_results
from console.session import Session
from screens.cli.arguments import Command, Commands, flag, json_flag, option, word, yes_flag
from screens.cli.launch import PlanOptions, make_plan, with_queue
from screens.cli.open_session import open_session
from screens.cli.output import print_hint, print_json, print_line, print_result, warn
from screens.cli.prompts import confirm

CHECK_KINDS = ("nodes", "pods", "events", "clusterqueues", "localqueues", "resourceflavors", "topologies", "cohorts")
"""The kinds of Kubernetes objects that the checks need."""


async def run_preflight(options: PreflightOptions) -> int:
    async with open_session(options, CHECK_KINDS, waits=False) as session:
        plan = await make_plan(session, options) if options.recipe else None
        if plan is None and (options.set or options.values or options.name):
            raise BadInput("No recipe was named for these values.", "a4 recipes lists them.")
        if plan is not None and (problems := session.launch.catalogue.plan_problems(plan)):
            raise BadInput("; ".join(f"{each.path}: {each.message}".removeprefix(": ") for each in problems))
        if plan is not None:
            plan = await session.launch.with_flex_start(await with_queue(session, plan, is_preview=True))
        if options.fix:
            # Check one requirement, fix it after confirmation, and check again.
            check = (await _run_checks(session, plan, options, (options.fix,)))[0]
            if check.result is Result.OK:
                _print_repair(options, "", check, f"{check.title}: nothing to fix. {check.evidence}")
                return 0
            if check.repair is None:
                raise ConsoleError(f"{check.title} cannot be fixed from here. {check.reason}", check.fix)
            hint = "Add --yes to do it without confirmation."
            if not options.yes and not await confirm(check.repair.consequences, f"{check.repair.words}?", hint):
                warn("Cancelled; nothing was changed.")
                return 1
            engine = session.preflight
            done = await engine.repair(check.repair)
            again = await engine.recheck_after_repair(
                engine.launch_needs(plan, bucket=options.bucket, registry=options.registry), check.id
            )
            _print_repair(options, done, again, f"{done}\n{again.title}: {again.result}. {again.evidence}")
            return 0 if again.result is not Result.FAIL else 1
        checks = await _run_checks(session, plan, options, options.checks)
        namespace, name = (plan.namespace, plan.name) if plan else (session.namespace, "")
    found = tally_results(checks)
    if options.json:
        print_json(
            {
                "kind": "preflight",
                "namespace": namespace,
                "recipe": plan.recipe if plan else "",
                "name": name,
                "summary": found.sentence,
                "items": checks,
            }
        )
    else:
        _print_checks(checks, options)
        print_line()
        print_line(found.sentence)
    return 1 if found.failing else 3 if lacks_all_permissions(checks) else 0


async def _run_checks(
    session: Session, plan: LaunchPlan | None, options: PreflightOptions, check_ids: Sequence[str]
) -> tuple[Check, ...]:
    engine = session.preflight
    return await engine.run_all(engine.launch_needs(plan, bucket=options.bucket, registry=options.registry), check_ids)


def _same_command(options: PreflightOptions) -> str:
    """The `a4 preflight` command that repeats the checks with the same recipe and values."""
    words = ["a4", "preflight", *filter(None, [options.recipe])]
    for name, values in (
        ("-f", options.values),
        ("--set", options.set),
        ("--queue", (options.queue,)),
        ("--name", (options.name,)),
        ("--bucket", (options.bucket,)),
        ("--registry", (options.registry,)),
    ):
        words += [word for value in values if value for word in (name, value)]
    return shlex.join(words)


def _print_checks(checks: Sequence[Check], options: PreflightOptions) -> None:
    widest = max((len(each.result) for each in checks), default=0)
    for each in checks:
        print_line(f"{each.result:{widest}}  {each.title}: {each.evidence}")
        space = " " * (widest + 2)
        if each.reason:
            print_line(f"{space}{each.reason}")
        if each.result in {Result.FAIL, Result.WARN}:
            run = f" Run: {_same_command(options)} --fix {each.name}" if each.repair else ""
            print_hint(f"{space}Fix: {each.fix}{run}")
            if each.command:
                print_line(f"{space}$ {each.command}")
        for look in each.looks if options.looks else ():
            print_line(f"{space}[{look.at}, {look.seconds:.2f} s] {look.what}: {look.outcome}")


def _print_repair(options: PreflightOptions, done: str, check: Check, sentence: str) -> None:
    print_result(options.json, {"kind": "preflight", "done": done, "items": [check]}, sentence)


EXIT_CODES = "exit codes: 0 nothing fails, 1 a check fails, 2 usage, 3 may see nothing, 4 cannot reach the cluster"


class PreflightOptions(PlanOptions):
    recipe: str = word("RECIPE", nargs="?", help="what it needs, see `a4 recipes`; without one the cluster as a whole")
    checks: tuple[str, ...] = option(
        "--check", action="append", metavar="CHECK", help="only this check, such as localqueue; may be repeated"
    )
    bucket: str = option("--bucket", metavar="NAME", help="a bucket to look at, where no value names one")
    registry: str = option(
        "--registry", metavar="LOCATION-docker.pkg.dev/PROJECT/NAME", help="where images are built into"
    )
    fix: str = option(
        "--fix", metavar="CHECK", help="fix this one (add-on, services, repository, LocalQueue); asks first"
    )
    yes: bool = yes_flag("with --fix: do not ask for confirmation")
    looks: bool = flag("--log", help="show the requests of each check and their results")
    json: bool = json_flag()


COMMANDS: Commands = {
    "preflight": Command(
        run_preflight,
        PreflightOptions,
        epilog="JSON: kind, namespace, recipe, name, summary, items with id, title, area, result (ok, warn, fail, not "
        "allowed to look, could not look, not applicable), evidence, reason, fix, command, repair (null, or kind, "
        "target, words, consequences: --fix CHECK does it), looks (at, what, outcome, seconds), at, seconds; with "
        f"--fix: kind, done (what was done), items. {EXIT_CODES}",
    )
}
