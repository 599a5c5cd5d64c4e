"""`a4 cordon` and `a4 uncordon`: keep new pods off nodes, and let them on again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from console.errors import ConsoleError, NotThere
from console.kube.find_job import require_listed
from screens import wording
from screens.cli.arguments import EXIT_CODES, Command, Commands, Options, flag, json_flag, option, word
from screens.cli.connect import open_session
from screens.cli.output import print_error, print_json, print_line

if TYPE_CHECKING:
    from console.kube.objects.node import Node
    from console.session import Session


async def set_cordon(options: UncordonOptions) -> int:
    """Cordon or uncordon each node; the first that is not there ends it before anything is changed."""
    on = options.command == "cordon"
    reason = options.reason if isinstance(options, CordonOptions) else ""
    async with open_session(options, ("nodes", "pods")) as session:
        nodes = [_find_node(session, name) for name in dict.fromkeys(options.nodes)]
        code, items = 0, []
        for node in nodes:
            changes = node.cordoned != on or bool(reason and reason != node.cordon_reason)
            try:
                if changes and not options.dry_run:
                    await session.watch.cordon(node.name, on=on, reason=reason)
            except ConsoleError as error:
                code = code or print_error(error)
                continue
            items.append(told := _facts(session, node, on=on, changes=changes, reason=reason))
            if not options.json:
                print_line(_line(told, dry_run=options.dry_run))
        if options.json:
            print_json({"kind": options.command, "dry_run": options.dry_run, "items": items})
    return code


def _find_node(session: Session, name: str) -> Node:
    node = session.fleet.nodes.get(("", name))
    if node is None:
        require_listed(session.fleet, "nodes", f"Whether there is a node {name}")
        raise NotThere(f"There is no node {name}.", "`a4 nodes` lists them.")
    return node


def _facts(session: Session, node: Node, *, on: bool, changes: bool, reason: str) -> dict[str, Any]:
    pods = sorted(pod.name for pod in session.fleet.pods_by_node.get(node.name, ()) if not pod.finished and pod.gpus)
    return {
        "node": node.name, "cordoned": on, "changed": changes, "reason": (reason or node.cordon_reason) if on else "",
        "gpus": node.gpus, "gpus_used": session.fleet.gpus_used.get(node.name, 0), "pods": pods,
    }  # fmt: skip


def _line(told: dict[str, Any], *, dry_run: bool) -> str:
    state = "cordoned" if told["cordoned"] else "uncordoned"
    if not told["changed"]:
        state = f"{state} already" if told["cordoned"] else "not cordoned"
    verb = "would be " if dry_run and told["changed"] else "is "
    why = f" ({wording.one_line(told['reason'])})" if told["reason"] else ""
    stay = f"; {wording.count(len(told['pods']), 'pod')} with {told['gpus_used']} GPUs stay" if told["pods"] else ""
    return f"{told['node']} {verb}{state}{why}{stay if told['cordoned'] else ''}."


class UncordonOptions(Options):
    nodes: tuple[str, ...] = word("NODE", nargs="+")
    dry_run: bool = flag("--dry-run", help="say what would change; change nothing")
    json: bool = json_flag()


class CordonOptions(UncordonOptions):
    nodes: tuple[str, ...] = word("NODE", nargs="+")
    reason: str = option(
        "--reason", metavar="TEXT", help="kept with the node (annotation a4.console/cordon-reason) and shown beside it"
    )


_KEYS = (
    "JSON: kind, dry_run, items with node, cordoned (as it is then), changed, reason, gpus, gpus_used, pods (with "
    f"GPUs, that stay).\n{EXIT_CODES}"
)
COMMANDS: Commands = {
    "cordon": Command(
        set_cordon,
        CordonOptions,
        description="Keep new pods off nodes. Pods that run there stay; a4 report NODE has the host replaced.",
        epilog=_KEYS,
    ),
    "uncordon": Command(set_cordon, UncordonOptions, epilog=_KEYS),
}
