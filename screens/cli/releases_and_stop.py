"""`a4 releases` lists Helm releases; `a4 stop` ends jobs and removes what deleted releases left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from console.errors import BadInput, ConsoleError, NotFound
from console.kube.find_job import find_job
from screens import wording
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, word, yes_flag
from screens.cli.open_session import open_session
from screens.cli.output import print_error, print_json, print_line, print_listing, print_result, warn
from screens.cli.prompts import confirm, is_interactive
from screens.columns.runs import ORPHANED, RELEASES
from screens.columns.stop_consequences import launched_by_others, stop_consequence_lines

if TYPE_CHECKING:
    from console.launch.stop import OrphanedResource, StopPlan
    from console.session import Session


async def run_releases(options: ReleasesOptions) -> int:
    async with open_session(options, ()) as session:
        found = await session.launch.launcher().releases("" if options.all_namespaces else session.namespace)
        if not found and not options.all_namespaces:
            await session.watch.require_namespace(session.namespace)
    return print_listing(options.json, {"kind": "releases", "items": found}, RELEASES, found, "No releases.")


STOP_KINDS = ("jobsets", "pods")


async def run_stop(options: StopOptions) -> int:
    if options.orphaned:
        return await run_orphaned(options)
    if not options.jobs:
        raise BadInput("No job was named.", "a4 jobs lists them; a4 stop --orphaned shows orphaned resources.")
    async with open_session(options, STOP_KINDS) as session:
        plans = [await plan_of(session, name) for name in dict.fromkeys(options.jobs)]
        await session.watch.me()  # without it nobody is "you"
        whose = session.watch.format_owner
        lines = [line for plan in plans for line in stop_consequence_lines(plan, whose(plan.owner))]
        if options.dry_run:
            return print_result(options.json, plans[0] if len(plans) == 1 else plans, *lines)
        others = launched_by_others(plans, whose)
        asks = (len(plans) > 1 or others) and not options.yes and not options.read_only
        what = plans[0].name if len(plans) == 1 else wording.count(len(plans), "job")
        if asks and not await confirm(lines, f"Stop {what}{others}?"):
            return 1
        return await stop_each(session, plans, as_json=options.json)


async def plan_of(session: Session, name: str) -> StopPlan:
    """The StopPlan of a job; NotFound says where it was searched."""
    try:
        return await session.launch.job_stopper.plan_stop(session.namespace, name)
    except NotFound:
        find_job(session.fleet, session.namespace, name)
        raise


async def stop_each(session: Session, plans: Sequence[StopPlan], *, as_json: bool) -> int:
    """Stop each job; a failure does not keep the others from being stopped."""
    code = 0
    reports = []
    for plan in plans:
        try:
            report = await session.launch.stop(plan.namespace, plan.name, plan.goes)
            await session.attach.remove_job(plan.namespace, plan.name)
        except ConsoleError as error:
            code = code or print_error(error)
            continue
        reports.append({**asdict(report), "stays": plan.stays})
        if not as_json:
            print_line(f"Stopped {report.name}: " + (", ".join(report.deleted) or "nothing was left to delete") + ".")
            if plan.stays:
                print_line(f"Stays: {', '.join(plan.stays)}.")
            if report.note:
                warn(report.note)
    if as_json:
        print_json(reports[0] if len(plans) == 1 and reports else reports)
    return code


async def run_orphaned(options: StopOptions) -> int:
    """List orphaned resources; with --yes or confirmation remove them, running ones only if named."""
    async with open_session(options, ()) as session:
        found, hidden = await session.launch.job_stopper.list_orphaned(
            "" if options.all_namespaces else session.namespace
        )
        if options.jobs:
            found = tuple(each for each in found if (each.release or each.name) in options.jobs)
        for kind in hidden:
            warn(f"No permission to list {kind}s: ask for `list {kind.lower()}s`.")
        going = [each for each in found if (options.data or not each.holds_data) and (options.jobs or not each.runs)]
        removed: list[OrphanedResource] = []
        code = 0
        if not options.json:  # that comes when it is known what was removed
            print_listing(False, None, ORPHANED, found, "No orphaned resources.")
        if going and not options.dry_run and (options.yes or is_interactive()):
            question = f"Remove {wording.count(len(going), 'object')}?"
            if options.yes or await confirm((), question):
                for each in going:
                    try:
                        await session.launch.job_stopper.remove_orphaned(each)
                        removed.append(each)
                    except ConsoleError as error:
                        code = code or print_error(error)
    if options.json:
        print_json({"kind": "orphaned", "unread": hidden, "items": found, "removed": removed})
    elif removed:
        print_line("Removed " + ", ".join(f"{each.kind} {each.name}" for each in removed) + ".")
    return code


class ReleasesOptions(Options):
    all_namespaces: bool = flag("-A", "--all-namespaces", help="of all namespaces")
    json: bool = json_flag()


class StopOptions(Options):
    jobs: tuple[str, ...] = word("NAME", nargs="*")
    orphaned: bool = flag("--orphaned", help="orphaned resources: what deleted releases left behind (of NAMEs, or all)")
    data: bool = flag("--data", help="with --orphaned: volumes and claims too")
    all_namespaces: bool = flag("-A", "--all-namespaces", help="with --orphaned: of all namespaces")
    yes: bool = yes_flag()
    dry_run: bool = flag("--dry-run", help="show what would be deleted and what would stay; delete nothing")
    json: bool = json_flag()


COMMANDS: Commands = {
    "releases": Command(run_releases, ReleasesOptions),
    "stop": Command(
        run_stop,
        StopOptions,
        description="Stop jobs: uninstall their releases, or delete their JobSets, and report what was deleted and "
        "what stays. One job of your own, or of an unknown owner, is stopped at once; a job that somebody else "
        "launched, several jobs, and orphaned resources are confirmed first, or need --yes.",
    ),
}
