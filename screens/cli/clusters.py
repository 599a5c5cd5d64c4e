"""`a4 clusters`, `nodepools`, `operations`, `resize`, `report`: Google's side of the cluster.

`a4 clusters enable`: Google's container service in a project that lacks it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.errors import BadInput, ConsoleError, NotFound, in_read_only_mode
from screens import wording
from screens.cli.arguments import (
    Command,
    Commands,
    JsonOptions,
    Options,
    confirmed,
    count,
    flag,
    json_flag,
    option,
    word,
)
from screens.cli.ask import confirm
from screens.cli.connect import google_of, open_session
from screens.cli.output import print_json, print_line, print_table, warn
from screens.columns.column import as_text
from screens.columns.google import CLUSTERS, NODE_POOLS, ClusterRow

if TYPE_CHECKING:
    from console.google.account import Cloud
    from console.google.clusters import GkeCluster, GkeOperation
    from console.google.node_pools import PoolsSnapshot, PoolStatus


SERVICE = "container.googleapis.com"


async def enable(options: ClustersOptions) -> int:
    """Ask, then enable it."""
    if len(options.words) != 1:
        raise BadInput("Name one project.", "a4 clusters enable PROJECT")
    project = options.words[0]
    if options.read_only:
        raise in_read_only_mode(f"enable {SERVICE}")
    question = f"Enable {SERVICE} in project {project}?"
    if not options.yes and not await confirm(["It may cost money once it is used."], question, "Add --yes."):
        return 1
    async with google_of(options) as google:
        await google.cloud.enable_service(project, SERVICE)
    if options.json:
        print_json({"kind": "enabled", "project": project, "service": SERVICE})
    else:
        print_line(f"{SERVICE} is enabled in {project}.")
    return 0


async def clusters(options: ClustersOptions) -> int:
    """List the clusters, or do one of the other actions."""
    if options.action != "list":
        return await {"token": _token, "connect": _connect, "enable": enable}[options.action](options)
    if options.words:
        raise BadInput(f"a4 clusters has no action {options.words[0]!r}.", "a4 clusters connect NAME")
    async with google_of(options) as google:
        found = await google.cloud.clusters(options.projects)
    if found.unread and not found.clusters and len(found.unread) == max(1, len(options.projects)):
        raise found.unread[0][1]
    if options.json:
        print_json({
            "kind": "clusters",
            "unread": {project: str(why) for project, why in found.unread},
            "missing_zones": found.missing_zones,
            "items": [cluster_row(each) for each in found.clusters],
        })  # fmt: skip
        return 0
    for project, why in found.unread:
        warn(f"{project}: {why}")
    if found.missing_zones:
        warn(f"{', '.join(found.missing_zones)}: did not answer; clusters there may be missing")
    if not found.clusters:
        print_line("No clusters.")
        return 0
    print_table(*as_text(CLUSTERS, [ClusterRow(each.project, each) for each in found.clusters]))
    return 0


def cluster_row(cluster: GkeCluster) -> dict[str, Any]:
    """A cluster for JSON."""
    names = ("project", "location", "name", "context", "status", "message", "version", "endpoint", "private",
             "dns_endpoint", "nodes", "autopilot", "maintenance", "created")  # fmt: skip
    row = {name: getattr(cluster, name) for name in names}
    return {**row, "addons": sorted(cluster.addons), "pools": [each.name for each in cluster.pools]}


async def _token(options: ClustersOptions) -> int:
    """An ExecCredential, as kubectl asks for it."""
    async with google_of(options) as google:
        token, ends = await (await google.cloud.reach()).token()
    status: dict[str, Any] = {"token": token}
    if ends < float("inf"):
        status["expirationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
    print_json({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
    return 0


async def _connect(options: ClustersOptions) -> int:
    if len(options.words) != 1:
        raise BadInput("Name one cluster.", "a4 clusters lists them.")
    async with google_of(options) as google:
        if options.write_kubeconfig == "" and google.cloud.practice:
            raise BadInput(
                "The practice cluster ends with this program; it is not written into your kubeconfig.",
                "Name a file: --write-kubeconfig FILE.",
            )
        cluster = await google.cloud.find(options.words[0], options.projects)
        start = time.monotonic()
        version = await google.cloud.fetch_server_version(cluster, options.via)
        took = time.monotonic() - start
        written = await _write(options, google.cloud, cluster)
    if options.json:
        print_json({"kind": "connected", "context": cluster.context, "version": version, "seconds": took,
                  "kubeconfig": written})  # fmt: skip
        return 0
    print_line(f"{cluster.path} answers: Kubernetes {version}, {took:.1f} s.")
    print_line(
        f"Written to {written}." if written else f"a4 --context {cluster.context} opens it; nothing was written."
    )
    return 0


async def _write(options: ClustersOptions, cloud: Cloud, cluster: GkeCluster) -> str:
    if options.write_kubeconfig is None:
        return ""
    file = options.write_kubeconfig or options.kubeconfig
    path, _ = await cloud.write_kubeconfig(cluster, Path(file) if file else None, options.via)
    return str(path)


async def nodepools(options: Options) -> int:
    """The pools as Google and the cluster know them."""
    picture = await _look(options)
    if options.json:
        print_json({
            "kind": "nodepools", "cluster": picture.cluster.path, "maintenance": picture.cluster.maintenance,
            "unread": dict(picture.unread), "items": [pool_row(each) for each in picture.pools],
            "requests": picture.requests,
        })  # fmt: skip
        return 0
    _warn_unread(picture)
    print_table(*as_text(NODE_POOLS, picture.pools))
    for each in picture.requests:
        print_line(f"DWS: {each.namespace}/{each.name} for {wording.count(each.pods, 'pod')}: {each.state}. {each.why}")
    if picture.cluster.maintenance:
        print_line(f"Maintenance: {picture.cluster.maintenance}.")
    return 0


def pool_row(facts: PoolStatus) -> dict[str, Any]:
    """A pool for JSON."""
    pool = facts.pool
    names = ("name", "status", "message", "version", "machine_type", "accelerator", "zones", "reservation",
             "placement", "spot", "flex_start", "queued", "auto_repair", "auto_upgrade", "surge",
             "unavailable")  # fmt: skip
    limits = {"least": pool.least, "most": pool.most} if pool.autoscaling else None
    return {
        **{name: getattr(pool, name) for name in names},
        "how": facts.how, "target": facts.target, "ready": facts.ready, "nodes": facts.nodes, "autoscaling": limits,
        "state": facts.state, "sentences": facts.sentences, "operations": [each.name for each in facts.operations],
    }  # fmt: skip


async def operations(options: Options) -> int:
    """What Google does to the cluster, and lately did."""
    picture = await _look(options)
    for name, why in picture.unread:
        if name == "operations":
            raise ConsoleError(why)
    if options.json:
        print_json({"kind": "operations", "items": picture.operations})
        return 0
    if not picture.operations:
        print_line("No operations.")
        return 0
    now = time.time()
    rows = [
        (operation.kind, operation.pool, state_of(operation), steps(operation), wording.moment(operation.started, now),
         operation.error or operation.detail) for operation in picture.operations
    ]  # fmt: skip
    print_table(("OPERATION", "POOL", "STATE", "NODES", "STARTED", "WHY"), rows, (False,) * 3 + (True, True, False))
    return 0


def state_of(operation: GkeOperation) -> str:
    """One word."""
    if not operation.over:
        return operation.status.lower()
    return "failed" if operation.error else "done"


def steps(operation: GkeOperation) -> str:
    """Nodes done, of how many."""
    return f"{operation.done or 0}/{operation.total}" if operation.total else ""


async def _look(options: Options) -> PoolsSnapshot:
    async with open_session(options, ("nodes",)) as session:
        await session.wait_until_listed("nodes")
        return await session.google.node_pools.look()


def _warn_unread(picture: PoolsSnapshot) -> None:
    for name, why in picture.unread:
        warn(f"{name}: {why}")


async def resize(options: ResizeOptions) -> int:
    """Another size of a pool, or other limits of its autoscaling."""
    limits = _limits(options.limits)
    if (options.nodes is None) == (limits is None):
        raise BadInput("Give the number of nodes, or --limits LEAST:MOST.", "a4 resize --help")
    async with open_session(options, ("nodes",)) as session:
        await session.wait_until_listed("nodes")
        look = await session.google.node_pools.look()
        facts = look.pool(options.pool)
        if facts is None:
            names = ", ".join(each.pool.name for each in look.pools)
            raise NotFound(f"There is no node pool {options.pool}.", f"There are: {names or 'none'}.")
        if not options.yes:
            lines = facts.losses(options.nodes) if options.nodes is not None else ()
            if not await confirm(list(lines), _question(options, facts, limits), "Add --yes."):
                return 1
        if limits is None:
            assert options.nodes is not None
            begun = await session.google.node_pools.resize(options.pool, options.nodes)
        else:
            begun = await session.google.node_pools.scale_between(options.pool, *limits)
        if options.wait or options.demo:
            async for latest in session.google.node_pools.until_over(begun):
                begun = latest
    if options.json:
        print_json({"kind": "operation", **_fields(begun)})
    elif begun.error:
        warn(f"{begun.pool}: {begun.error}")
    else:
        print_line(
            f"{begun.pool}: {state_of(begun)}. `a4 operations` shows it." if not begun.over else f"{begun.pool}: done."
        )
    return 1 if begun.error else 0


def _fields(operation: GkeOperation) -> dict[str, Any]:
    return {name: getattr(operation, name) for name in operation.__slots__}


def _question(options: ResizeOptions, facts: PoolStatus, limits: tuple[int, int] | None) -> str:
    if limits is None:
        now = facts.target if facts.target is not None else facts.nodes
        return f"Resize {options.pool} from {now} to {options.nodes} nodes?"
    if limits == (0, 0):
        return f"Turn autoscaling of {options.pool} off?"
    return f"Let the autoscaler keep {options.pool} between {limits[0]} and {limits[1]} nodes?"


def _limits(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    least, colon, most = text.partition(":")
    if not (colon and least.isdecimal() and most.isdecimal()):
        raise BadInput(f"{text!r} are not valid limits.", "Write two numbers: --limits 0:8.")
    return int(least), int(most)


async def report(options: ReportOptions) -> int:
    """Report the host of a node as faulty."""
    async with open_session(options, ("nodes", "pods")) as session:
        await session.wait_until_listed("nodes", "pods")
        session.google.node_pools.reportable(options.node, options.fault)
        pods = [pod for pod in session.fleet.pods_by_node.get(options.node, ()) if not pod.finished]
        if not options.yes:
            lines = [f"{pod.namespace}/{pod.name} is evicted" for pod in pods]
            lines += ["Its local disks are wiped; another machine takes its place in 10 to 12 minutes."]
            if not await confirm(
                lines, f"Report the host of {options.node} as faulty ({options.fault})?", "Add --yes."
            ):
                return 1
        await session.google.node_pools.report(options.node, options.fault)
        state = await session.google.node_pools.until_replaced(options.node) if options.wait else "reported"
    if options.json:
        print_json({"kind": "report", "node": options.node, "fault": options.fault, "state": state})
    else:
        print_line(f"{options.node}: {state}." + ("" if options.wait else " `a4 nodes` shows the progress."))
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClustersOptions(Options):
    action: str = word(choices=("list", "connect", "enable", "token"), nargs="?", default="list", help="default: list")
    words: tuple[str, ...] = word("NAME", nargs="*")
    """Names of clusters or of a project."""
    projects: tuple[str, ...] = option(
        "--project", action="append", metavar="ID",
        help="only this project (may be repeated); default: all that the login may see",
    )  # fmt: skip
    via: str = option("--via", choices=("dns", "ip"), help="this way in, instead of the first that answers")
    write_kubeconfig: str | None = option(
        "--write-kubeconfig", nargs="?", const="", metavar="FILE", default=None, help="with connect: keep the entry"
    )
    """None: no; empty: where kubectl looks; else that file."""
    yes: bool = confirmed("with enable: do not ask for confirmation")
    json: bool = json_flag()


def until_done() -> Any:
    return flag("--wait", help="until it is done; exit code 1 if it fails")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeOptions(Options):
    pool: str = word("POOL")
    nodes: int | None = word("N", type=count, nargs="?", default=None, help="machines that it is to have")
    limits: str = option("--limits", metavar="LEAST:MOST", help="between which the autoscaler keeps it")
    yes: bool = confirmed()
    wait: bool = until_done()
    json: bool = json_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions(Options):
    node: str = word("NODE")
    fault: str = option(
        "--for", metavar="FAULT", default="unspecified", help="PERFORMANCE, SDC, XID or unspecified (default)"
    )
    yes: bool = confirmed()
    wait: bool = until_done()
    json: bool = json_flag()


COMMANDS: Commands = {
    "clusters": Command(
        clusters,
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
        nodepools,
        JsonOptions,
        epilog="JSON: kind, cluster, maintenance, unread, items with name, status, sentences, machine_type, "
        "accelerator, how, target, ready, nodes, autoscaling (least, most; null: off), version, zones, placement, "
        "auto_repair, auto_upgrade, surge, unavailable, operations; requests (of DWS) with namespace, name, state, "
        "why, pods, owner.",
    ),
    "operations": Command(
        operations,
        JsonOptions,
        epilog="JSON: kind, items with name, kind, status, pool, detail, error, started, ended (seconds since the "
        "epoch), done, total (steps).",
    ),
    "resize": Command(
        resize,
        ResizeOptions,
        usage="a4 resize POOL N [--yes] [--wait] [--json] | a4 resize POOL --limits LEAST:MOST [--yes] [--wait]",
        epilog="N is for each zone of the pool. --limits 0:0 turns autoscaling off.",
    ),
    "report": Command(
        report,
        ReportOptions,
        epilog="The host is taken out of service: its pods are evicted, its local disks are wiped, and another machine "
        "of the reservation takes its place in 10 to 12 minutes; the repair takes 3 to 14 days. Only for machines of a "
        "reservation.",
    ),
}
