"""Options of the commands about Google's clusters and node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

ACTIONS = ("list", "connect", "enable", "token")


def add_google(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """All of them."""
    add_clusters(command("clusters", "clusters of Google's that the login may see; connect to one"))
    add_nodepools(
        command("nodepools", "node pools as Google has them, beside the nodes: target sizes, limits, repairs")
    )
    add_operations(command("operations", "what Google does to the cluster, and lately did: upgrades, repairs, resizes"))
    add_resize(command("resize", "another size of a node pool, or other limits of its autoscaling"))
    add_report(command("report", "report the host of a node as faulty, so that Google replaces it"))


def add_clusters(parser: argparse.ArgumentParser) -> None:
    """a4 clusters."""
    parser.usage = (
        "a4 clusters [--project ID ...] [--json] | a4 clusters connect NAME [--via dns|ip] [--write-kubeconfig [FILE]]"
        " | a4 clusters enable PROJECT [--yes]"
    )
    parser.epilog = (
        "Needs Google credentials (Application Default Credentials), neither gcloud nor a kubeconfig. NAME is a "
        "cluster's name, PROJECT/LOCATION/NAME, or the context gke_PROJECT_LOCATION_NAME, which --context takes too. "
        "connect tries the way in and logs in; --write-kubeconfig puts the cluster into FILE, or where kubectl looks,"
        " beside what is there. enable switches Google's container service on in a project. token prints an "
        "ExecCredential, for kubeconfigs. JSON: kind, items with project, location, name, context, status, message, "
        "version, endpoint, private, dns_endpoint, nodes, pools, autopilot, maintenance, addons; unread (project -> "
        "why), missing_zones."
    )
    parser.add_argument("action", choices=ACTIONS, nargs="?", default="list", help="default: list")
    parser.add_argument("words", metavar="NAME", nargs="*", default=())
    parser.add_argument("--project", dest="projects", action="append", metavar="ID",
                        help="only this project (may be repeated); default: all that the login may see")  # fmt: skip
    parser.add_argument("--via", choices=("dns", "ip"), help="this way in, instead of the first that answers")
    parser.add_argument("--write-kubeconfig", nargs="?", const="", metavar="FILE", help="with connect: keep the entry")
    parser.add_argument("--yes", action="store_true", help="with enable: do not ask first")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_nodepools(parser: argparse.ArgumentParser) -> None:
    """a4 nodepools."""
    parser.epilog = (
        "JSON: kind, cluster, maintenance, unread, items with name, status, sentences, machine_type, accelerator, how, "
        "target, ready, nodes, autoscaling (least, most; null: off), version, zones, placement, auto_repair, "
        "auto_upgrade, surge, unavailable, operations; requests (of DWS) with namespace, name, state, why, pods, owner."
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_operations(parser: argparse.ArgumentParser) -> None:
    """a4 operations."""
    parser.epilog = (
        "JSON: kind, items with name, kind, status, pool, detail, error, started, ended (seconds since the epoch), "
        "done, total (steps)."
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_resize(parser: argparse.ArgumentParser) -> None:
    """a4 resize."""
    parser.usage = "a4 resize POOL N [--yes] [--wait] [--json] | a4 resize POOL --limits LEAST:MOST [--yes] [--wait]"
    parser.epilog = "N is for each zone of the pool. --limits 0:0 switches autoscaling off."
    parser.add_argument("pool", metavar="POOL")
    parser.add_argument("nodes", metavar="N", type=int, nargs="?", default=None, help="machines that it is to have")
    parser.add_argument("--limits", metavar="LEAST:MOST", help="between which the autoscaler keeps it")
    _add_asking(parser)


def add_report(parser: argparse.ArgumentParser) -> None:
    """a4 report."""
    parser.epilog = (
        "The host is taken out of service: its pods are evicted, its local disks are wiped, and another machine of the "
        "reservation takes its place in 10 to 12 minutes; the repair takes 3 to 14 days. Only for machines of a "
        "reservation."
    )
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("--for", dest="fault", default="unspecified", metavar="FAULT",
                        help="PERFORMANCE, SDC, XID or unspecified (default)")  # fmt: skip
    _add_asking(parser)


def _add_asking(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask first")
    parser.add_argument("--wait", action="store_true", help="until it is done; exit code 1 if it fails")
    parser.add_argument("--json", action="store_true", help="as JSON")
