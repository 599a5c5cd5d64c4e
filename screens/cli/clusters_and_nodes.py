"""GKE clusters and node pools, and single nodes.

`a4 clusters`: clusters that the login may see; connect to one, or enable Google's container service in a project.
`a4 nodepools`, `operations`, `resize`: pools in Google's API. `a4 report`, `cordon`, `uncordon`: faulty nodes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.errors import BadInput, ConsoleError, NotFound, NotThere, read_only_error
from console.kube.find_job import find_node, require_listed
from screens import wording
from screens.cli.arguments import (
    EXIT_CODES,
    Command,
    Commands,
    JsonOptions,
    Options,
    count,
    flag,
    json_flag,
    option,
    word,
    yes_flag,
)
from screens.cli.open_session import google_of, open_session
from screens.cli.output import print_error, print_json, print_line, print_listing, print_result, print_table, warn
from screens.cli.prompts import confirm
from screens.columns.column import text_table
from screens.columns.google import CLUSTERS, NODE_POOLS, OPERATIONS, ClusterRow, operation_state
from screens.sanitize import one_line

if TYPE_CHECKING:
    from console.google.node_pools import PoolsSnapshot, PoolStatus
    from console.kube.objects.node import Node
    from console.session import Session


GKE_SERVICE = "container.googleapis.com"


async def enable(options: ClustersOptions) -> int:
    if len(options.words) != 1:
        raise BadInput("Name one project.", "a4 clusters enable PROJECT")
    project = options.words[0]
    if options.read_only:
        raise read_only_error(f"enable {GKE_SERVICE}")
    question = f"Enable {GKE_SERVICE} in project {project}?"
    if not options.yes and not await confirm(["It may cost money once it is used."], question, "Add --yes."):
        return 1
    async with google_of(options) as google:
        await google.account.enable_service(project, GKE_SERVICE)
    fields = {"kind": "enabled", "project": project, "service": GKE_SERVICE}
    return print_result(options.json, fields, f"{GKE_SERVICE} is enabled in {project}.")


async def run_clusters(options: ClustersOptions) -> int:
    if options.action != "list":
        return await {"token": _print_token, "connect": _connect_cluster, "enable": enable}[options.action](options)
    if options.words:
        raise BadInput(f"a4 clusters has no action {options.words[0]!r}.", "a4 clusters connect NAME")
    async with google_of(options) as google:
        found = await google.account.list_clusters(options.projects)
    if found.unread and not found.clusters and len(found.unread) == max(1, len(options.projects)):
        raise found.unread[0][1]
    unread = {project: str(why) for project, why in found.unread}
    if not options.json:
        for project, why in unread.items():
            warn(f"{project}: {why}")
        if found.missing_zones:
            warn(f"{', '.join(found.missing_zones)}: did not answer; clusters there may be missing")
    names = ("project", "location", "name", "context", "status", "message", "version", "endpoint", "private",
             "dns_endpoint", "nodes", "autopilot", "maintenance", "created")  # fmt: skip
    items = [
        _pick_fields(each, names) | {"addons": sorted(each.addons), "pools": [pool.name for pool in each.pools]}
        for each in found.clusters
    ]
    fields = {"kind": "clusters", "unread": unread, "missing_zones": found.missing_zones, "items": items}
    rows = [ClusterRow(each.project, each) for each in found.clusters]
    return print_listing(options.json, fields, CLUSTERS, rows, "No clusters.")


def _pick_fields(found: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(found, name) for name in names}


async def _print_token(options: ClustersOptions) -> int:
    async with google_of(options) as google:
        token, ends = await (await google.account.open_session()).token()
    status: dict[str, Any] = {"token": token}
    if ends < float("inf"):
        status["expirationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
    print_json({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
    return 0


async def _connect_cluster(options: ClustersOptions) -> int:
    if len(options.words) != 1:
        raise BadInput("Name one cluster.", "a4 clusters lists them.")
    async with google_of(options) as google:
        if options.write_kubeconfig == "" and google.account.practice:
            raise BadInput(
                "The practice cluster ends with this program; it is not written into your kubeconfig.",
                "Name a file: --write-kubeconfig FILE.",
            )
        cluster = await google.account.find_cluster(options.words[0], options.projects)
        start = time.monotonic()
        version = await google.account.fetch_server_version(cluster, options.via)
        took = time.monotonic() - start
        written = ""
        if options.write_kubeconfig is not None:
            file = options.write_kubeconfig or options.kubeconfig
            path, _ = await google.account.write_kubeconfig(cluster, Path(file) if file else None, options.via)
            written = str(path)
    fields = {"kind": "connected", "context": cluster.context, "version": version, "seconds": took}
    return print_result(
        options.json,
        {**fields, "kubeconfig": written},
        f"{cluster.path} answers: Kubernetes {version}, {took:.1f} s.",
        f"Written to {written}." if written else f"a4 --context {cluster.context} opens it; nothing was written.",
    )


async def run_nodepools(options: Options) -> int:
    snapshot = await _read_pools_once(options)
    cluster = snapshot.cluster
    if options.json:
        print_json(
            {
                "kind": "nodepools",
                "cluster": cluster.path,
                "maintenance": cluster.maintenance,
                "unread": dict(snapshot.unread),
                "items": [_pool_json(each) for each in snapshot.pools],
                "requests": snapshot.requests,
            }
        )
        return 0
    for name, why in snapshot.unread:
        warn(f"{name}: {why}")
    print_table(*text_table(NODE_POOLS, snapshot.pools))
    for each in snapshot.requests:
        print_line(f"DWS: {each.namespace}/{each.name} for {wording.count(each.pods, 'pod')}: {each.state}. {each.why}")
    if cluster.maintenance:
        print_line(f"Maintenance: {cluster.maintenance}.")
    return 0


def _pool_json(status: PoolStatus) -> dict[str, Any]:
    pool = status.pool
    names = ("name", "status", "message", "version", "machine_type", "accelerator", "zones", "reservation",
             "placement", "spot", "flex_start", "queued", "auto_repair", "auto_upgrade", "surge",
             "unavailable")  # fmt: skip
    limits = {"least": pool.least, "most": pool.most} if pool.autoscaling else None
    return {
        **_pick_fields(pool, names),
        "how": status.provisioning,
        "target": status.target_size,
        "ready": status.ready,
        "nodes": status.nodes,
        "autoscaling": limits,
        "state": status.state,
        "sentences": status.sentences,
        "operations": [each.name for each in status.operations],
    }


async def run_operations(options: Options) -> int:
    snapshot = await _read_pools_once(options)
    if why := dict(snapshot.unread).get("operations"):
        raise ConsoleError(why)
    fields = {"kind": "operations", "items": snapshot.operations}
    return print_listing(options.json, fields, OPERATIONS, snapshot.operations, "No operations.")


async def _read_pools_once(options: Options) -> PoolsSnapshot:
    async with open_session(options, ("nodes",)) as session:
        return await session.google.node_pools.read_snapshot()


async def run_resize(options: ResizeOptions) -> int:
    limits = _parse_limits(options.limits)
    if (options.nodes is None) == (limits is None):
        raise BadInput("Give the number of nodes, or --limits LEAST:MOST.", "a4 resize --help")
    async with open_session(options, ("nodes",)) as session:
        pools = session.google.node_pools
        snapshot = await pools.read_snapshot()
        facts = snapshot.find_pool(options.pool)
        if facts is None:
            names = ", ".join(each.pool.name for each in snapshot.pools)
            raise NotFound(f"There is no node pool {options.pool}.", f"There are: {names or 'none'}.")
        if not options.yes:
            lines = facts.resize_losses(options.nodes) if options.nodes is not None else ()
            if not await confirm(list(lines), _resize_question(options, facts, limits), "Add --yes."):
                return 1
        if limits is None:
            assert options.nodes is not None
            begun = await pools.resize(options.pool, options.nodes)
        else:
            begun = await pools.scale_between(options.pool, *limits)
        if options.wait or options.demo:
            async for latest in pools.follow_operation(begun):
                begun = latest
    if begun.error and not options.json:
        warn(f"{begun.pool}: {begun.error}")
        return 1
    fields = {"kind": "operation", **_pick_fields(begun, begun.__slots__)}
    state = "done." if begun.over else f"{operation_state(begun)}. `a4 operations` shows it."
    print_result(options.json, fields, f"{begun.pool}: {state}")
    return 1 if begun.error else 0


def _resize_question(options: ResizeOptions, status: PoolStatus, limits: tuple[int, int] | None) -> str:
    if limits is None:
        now = status.target_size if status.target_size is not None else status.nodes
        return f"Resize {options.pool} from {now} to {options.nodes} nodes?"
    if limits == (0, 0):
        return f"Turn autoscaling of {options.pool} off?"
    return f"Let the autoscaler keep {options.pool} between {limits[0]} and {limits[1]} nodes?"


def _parse_limits(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    least, colon, most = text.partition(":")
    if not (colon and least.isdecimal() and most.isdecimal()):
        raise BadInput(f"{text!r} are not valid limits.", "Write two numbers: --limits 0:8.")
    return int(least), int(most)


async def run_report(options: ReportOptions) -> int:
    async with open_session(options, ("nodes", "pods")) as session:
        found = find_node(session.fleet.nodes, options.node)
        name = found.name if found is not None else options.node
        session.google.node_pools.require_reportable(name, options.fault)
        pods = [pod for pod in session.fleet.pods_by_node.get(name, ()) if not pod.finished]
        if not options.yes:
            lines = [f"{pod.namespace}/{pod.name} is evicted" for pod in pods]
            lines += [f"Lost of {each}" for each in await session.launch.unsaved.list_unsaved(name)]
            lines += ["Its local disks are wiped; another machine takes its place in 10 to 12 minutes."]
            question = f"Report the host of {name} as faulty ({options.fault})?"
            if not await confirm(lines, question, "Add --yes."):
                return 1
        await session.google.node_pools.report_fault(name, options.fault)
        state = await session.google.node_pools.wait_until_replaced(name) if options.wait else "reported"
    fields = {"kind": "report", "node": name, "fault": options.fault, "state": state}
    more = "" if options.wait else " `a4 nodes` shows the progress."
    return print_result(options.json, fields, f"{name}: {state}.{more}")


def until_done() -> Any:
    return flag("--wait", help="until it is done; exit code 1 if it fails")


async def run_cordon(options: UncordonOptions) -> int:
    """Cordon or uncordon the named nodes; if one does not exist, nothing is changed."""
    on = options.command == "cordon"
    reason = options.reason if isinstance(options, CordonOptions) else ""
    async with open_session(options, ("nodes", "pods")) as session:
        nodes = [_find_node(session, name) for name in dict.fromkeys(options.nodes)]
        code, items = 0, []
        for node in nodes:
            changes = node.cordoned != on or bool(reason and reason != node.cordon_reason)
            try:
                if changes and not options.dry_run:
                    await session.watch.cordon(node.name, is_cordoned=on, reason=reason)
            except ConsoleError as error:
                code = code or print_error(error)
                continue
            items.append(fields := _cordon_json(session, node, is_cordoned=on, changes=changes, reason=reason))
            if not options.json:
                print_line(_cordon_line(fields, dry_run=options.dry_run))
        if options.json:
            print_json({"kind": options.command, "dry_run": options.dry_run, "items": items})
    return code


def _find_node(session: Session, name: str) -> Node:
    node = find_node(session.fleet.nodes, name)
    if node is None:
        require_listed(session.fleet, "nodes", f"Whether there is a node {name}")
        raise NotThere(f"There is no node {name}.", "`a4 nodes` lists them.")
    return node


def _cordon_json(session: Session, node: Node, *, is_cordoned: bool, changes: bool, reason: str) -> dict[str, Any]:
    pods = sorted(pod.name for pod in session.fleet.pods_by_node.get(node.name, ()) if not pod.finished and pod.gpus)
    return {
        "node": node.name,
        "cordoned": is_cordoned,
        "changed": changes,
        "reason": (reason or node.cordon_reason) if is_cordoned else "",
        "gpus": node.gpus,
        "gpus_used": session.fleet.gpus_used.get(node.name, 0),
        "pods": pods,
    }


def _cordon_line(fields: dict[str, Any], *, dry_run: bool) -> str:
    state = "cordoned" if fields["cordoned"] else "uncordoned"
    if not fields["changed"]:
        state = f"{state} already" if fields["cordoned"] else "not cordoned"
    verb = "would be " if dry_run and fields["changed"] else "is "
    why = f" ({one_line(fields['reason'])})" if fields["reason"] else ""
    number = len(fields["pods"])
    stay = f"; {wording.count(number, 'pod')} with {fields['gpus_used']} GPUs {'stays' if number == 1 else 'stay'}"
    return f"{fields['node']} {verb}{state}{why}{stay if fields['cordoned'] and number else ''}."


_CORDON_KEYS = (
    "JSON: kind, dry_run, items with node, cordoned (as it is then), changed, reason, gpus, gpus_used, pods (with "
    f"GPUs, that stay).\n{EXIT_CODES}"
)

NODE_NAME_HELP = "its name, or the short one that screens show: a4-pool/0011"


class ClustersOptions(Options):
    action: str = word(choices=("list", "connect", "enable", "token"), nargs="?", default="list", help="default: list")
    words: tuple[str, ...] = word("NAME", nargs="*")
    """Names of clusters, or for `enable` the name of a project."""
    projects: tuple[str, ...] = option(
        "--project",
        action="append",
        metavar="ID",
        help="only this project (may be repeated); default: all that the login may see",
    )
    via: str = option("--via", choices=("dns", "ip"), help="this way in, instead of the first that answers")
    write_kubeconfig: str | None = option(
        "--write-kubeconfig", nargs="?", const="", metavar="FILE", default=None, help="with connect: keep the entry"
    )
    """The kubeconfig file to write the cluster's entry to; empty: kubectl's own file; None: none is written."""
    yes: bool = yes_flag("with enable: do not ask for confirmation")
    json: bool = json_flag()


class ResizeOptions(Options):
    pool: str = word("POOL")
    nodes: int | None = word("N", type=count, nargs="?", default=None, help="machines that it is to have")
    limits: str = option("--limits", metavar="LEAST:MOST", help="between which the autoscaler keeps it")
    yes: bool = yes_flag()
    wait: bool = until_done()
    json: bool = json_flag()


class ReportOptions(Options):
    node: str = word("NODE", help=NODE_NAME_HELP)
    fault: str = option(
        "--for", metavar="FAULT", default="unspecified", help="PERFORMANCE, SDC, XID or unspecified (default)"
    )
    yes: bool = yes_flag()
    wait: bool = until_done()
    json: bool = json_flag()


class UncordonOptions(Options):
    nodes: tuple[str, ...] = word("NODE", nargs="+", help=NODE_NAME_HELP)
    dry_run: bool = flag("--dry-run", help="say what would change; change nothing")
    json: bool = json_flag()


class CordonOptions(UncordonOptions):
    nodes: tuple[str, ...] = word("NODE", nargs="+", help=NODE_NAME_HELP)
    reason: str = option(
        "--reason", metavar="TEXT", help="kept with the node (annotation a4.console/cordon-reason) and shown beside it"
    )


COMMANDS: Commands = {
    "clusters": Command(
        run_clusters,
        ClustersOptions,
        usage="a4 clusters [--project ID ...] [--json] | a4 clusters connect NAME [--via dns|ip] "
        "[--write-kubeconfig [FILE]] | a4 clusters enable PROJECT [--yes]",
        epilog="Needs Google credentials (Application Default Credentials), neither gcloud nor a kubeconfig. NAME is a "
        "cluster's name, PROJECT/LOCATION/NAME, or the context gke_PROJECT_LOCATION_NAME, which --context takes too. "
        "connect tries the way in and logs in; --write-kubeconfig puts the cluster into FILE, or where kubectl looks,"
        " beside what is there. enable switches Google's container service on in a project. token prints an "
        "ExecCredential, for kubeconfigs. JSON: kind, items with project, location, name, context, status, message, "
        "version, endpoint, private, dns_endpoint, nodes, pools, autopilot, maintenance, addons; unread (project -> "
        "why), missing_zones.",
    ),
    "nodepools": Command(
        run_nodepools,
        JsonOptions,
        epilog="JSON: kind, cluster, maintenance, unread, items with name, status, sentences, machine_type, "
        "accelerator, how, target, ready, nodes, autoscaling (least, most; null: off), version, zones, placement, "
        "auto_repair, auto_upgrade, surge, unavailable, operations; requests (of DWS) with namespace, name, state, "
        "why, pods, owner.",
    ),
    "operations": Command(
        run_operations,
        JsonOptions,
        epilog="JSON: kind, items with name, kind, status, pool, detail, error, started, ended (seconds since the "
        "epoch), done, total (steps).",
    ),
    "resize": Command(
        run_resize,
        ResizeOptions,
        usage="a4 resize POOL N [--yes] [--wait] [--json] | a4 resize POOL --limits LEAST:MOST [--yes] [--wait]",
        epilog="N is for each zone of the pool. --limits 0:0 turns autoscaling off.",
    ),
    "report": Command(
        run_report,
        ReportOptions,
        epilog="The host is taken out of service: its pods are evicted, its local disks are wiped, and another machine "
        "of the reservation takes its place in 10 to 12 minutes; the repair takes 3 to 14 days. Only for machines of a "
        "reservation.",
    ),
    "cordon": Command(
        run_cordon,
        CordonOptions,
        description="Keep new pods off nodes. Pods that run there stay; a4 report NODE has the host replaced.",
        epilog=_CORDON_KEYS,
    ),
    "uncordon": Command(run_cordon, UncordonOptions, epilog=_CORDON_KEYS),
}
