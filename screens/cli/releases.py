"""`a4 releases`, `a4 upgrade`, `a4 rollback`: Helm releases and their changes."""

from __future__ import annotations

from typing import Any

from console.launch.releases import ObjectFate, ReleaseChange
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, option, positive, word
from screens.cli.connect import open_session
from screens.cli.output import print_listing, print_result
from screens.columns.runs import REVISIONS


async def releases(options: ReleasesOptions) -> int:
    async with open_session(options, ()) as session:
        if options.name:
            found = await session.launch.releases.read_history(session.namespace, options.name)
        else:
            found = await session.launch.releases.list_all("" if options.all_namespaces else session.namespace)
            if not found and not options.all_namespaces:
                await session.watch.require_namespace(session.namespace)
    told = {"kind": "revisions" if options.name else "releases", "items": found}
    return print_listing(options.json, told, REVISIONS, found, "No releases.")


async def upgrade(options: UpgradeOptions) -> int:
    async with open_session(options, ()) as session:
        where, name, releases = session.namespace, options.name, session.launch.releases
        plan = await releases.plan_of_release(where, name)
        changes = session.launch.set_values(plan.recipe, options.set)
        plan = await releases.changed_plan(where, name, changes)
        if options.dry_run:
            return print_change(await releases.dry_run_upgrade(plan), as_json=options.json, done="")
        change = await releases.upgrade(plan)
        await session.launch.runs.record_upgrade(plan)
        return print_change(change, as_json=options.json, done=f"{name} is changed.")


async def rollback(options: RollbackOptions) -> int:
    async with open_session(options, ()) as session:
        where, name, releases = session.namespace, options.name, session.launch.releases
        revision = options.revision or await releases.previous_revision(where, name)
        if options.dry_run:
            return print_change(await releases.dry_run_rollback(where, name, revision), as_json=options.json, done="")
        change = await releases.rollback(where, name, revision)
        return print_change(change, as_json=options.json, done=f"{name} is back at revision {revision}.")


def print_change(change: ReleaseChange, *, as_json: bool, done: str) -> int:
    """Print a change object by object; returns 1 if the cluster refuses a part of it."""
    lines: list[str] = []
    for each in change.objects:
        if each.fate is not ObjectFate.SAME:
            lines.append(f"{each.kind} {each.name} {each.fate}" + (f", but: {each.refused}" if each.refused else "."))
            lines += [f"  {line}" for line in each.lines]
    end = "Nothing changes." if change.is_empty else done
    print_result(as_json, change, *lines, *filter(None, [end]))
    return int(bool(change.refused))


class ReleasesOptions(Options):
    name: str = word("NAME", nargs="?", help="the revisions of this one")
    all_namespaces: bool = flag("-A", "--all-namespaces", help="of all namespaces")
    json: bool = json_flag()


def try_only() -> Any:
    return flag("--dry-run", help="show what would change, object by object; change nothing")


class UpgradeOptions(Options):
    name: str = word("NAME")
    set: tuple[str, ...] = option("--set", action="append", metavar="KEY=VALUE", required=True, help="may be repeated")
    dry_run: bool = try_only()
    json: bool = json_flag()


class RollbackOptions(Options):
    name: str = word("NAME")
    revision: int | None = word("REVISION", nargs="?", type=positive, default=None, help="default: the one before")
    dry_run: bool = try_only()
    json: bool = json_flag()


COMMANDS: Commands = {
    "releases": Command(releases, ReleasesOptions),
    "upgrade": Command(
        upgrade,
        UpgradeOptions,
        description="Change the values of a release. Most of a JobSet is fixed once it has left its queue: the API "
        "server checks every object first; if one cannot be changed, nothing is changed.",
    ),
    "rollback": Command(
        rollback,
        RollbackOptions,
        description="Roll back to an earlier revision of a release, if all its objects can be changed.",
    ),
}
