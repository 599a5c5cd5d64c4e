"""The listing commands: pools, nodes, queues, workloads, jobs, pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import ConsoleError, NotAllowed, NotFound
from console.models.link import LinkState
from screens.cli.columns import LAYOUTS
from screens.cli.connect import connected
from screens.cli.output import say, say_json, say_table, warn
from screens.cli.rows import ROWS

if TYPE_CHECKING:
    from console.models.fleet import Fleet
    from screens.cli.columns import Layout, Row
    from screens.cli.options import Options


async def show_list(options: Options) -> int:
    """List once, as a table or as JSON."""
    layout = LAYOUTS[options.command]
    kinds = (layout.kind, *layout.uses)
    async with connected(options, kinds) as session:
        fleet = await session.listed(*kinds)
        refuse(layout, fleet)
        rows = ROWS[options.command](fleet, None if options.all_namespaces else session.namespace)
    missing = unread(kinds, fleet)
    if options.json:
        say_json({"kind": options.command, "at": fleet.at, "unread": missing, "items": rows})
        return 0
    for kind, reason in missing.items():
        warn(f"{kind}: {reason}")
    print_rows(layout, rows, options.command)
    return 0


def refuse(layout: Layout, fleet: Fleet) -> None:
    """Fail where the list itself could not be read: that is no empty list."""
    link = fleet.links.get(layout.kind)
    if link is None or link.state in {LinkState.LIVE, LinkState.LISTING}:
        return
    kind: type[ConsoleError] = {LinkState.FORBIDDEN: NotAllowed, LinkState.ABSENT: NotFound}.get(
        link.state, ConsoleError
    )
    raise kind(f"{layout.kind}: {link.why}", link.hint)


def unread(kinds: tuple[str, ...], fleet: Fleet) -> dict[str, str]:
    """Kinds that could not be read, so that what they would have told is missing from the rows."""
    return {
        kind: fleet.links[kind].why
        for kind in kinds
        if kind in fleet.links and fleet.links[kind].state in {LinkState.FORBIDDEN, LinkState.ABSENT, LinkState.STALE}
    }


def print_rows(layout: Layout, rows: list[Row], what: str) -> None:
    """The rows as a table, or one line where there are none."""
    if not rows:
        say(f"No {what}.")
        return
    shown = [column for column in layout.columns if column.title]
    say_table(
        [column.title for column in shown],
        [[column.say(row[column.key]) for column in shown] for row in rows],
        [column.right for column in shown],
    )
