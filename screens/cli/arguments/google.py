"""Options of the commands about Google's clusters and node pools.

Options of the commands about images, builds, buckets and file systems.
"""

from __future__ import annotations

from pathlib import Path
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


EXIT_CODES = "exit codes: 0 ok, 1 it failed or is not there, 2 usage, 3 not allowed, 4 cannot reach Google or cluster"


def add_images(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """All of them."""
    add_list(command("images", "images in the registries of the project, and what can be built"))
    add_build(command("build", "build an image with Cloud Build"))
    add_builds(command("builds", "builds of the project, or one of them"))
    add_log(command("build-log", "what a build has printed"))
    add_cancel(command("build-cancel", "end a build that is under way"))
    buckets = command("buckets", "buckets of the project, those that lie by the cluster first")
    buckets.epilog = (
        "JSON: kind, region (the cluster's), items with name, location, location_type, match (same region, ...), "
        "storage_class, uniform, hierarchical, created."
    )
    _add_where(buckets, region=False)
    add_ls(command("ls", "what is in a folder of a bucket or of a pod; of a bucket: the last whole checkpoint marked"))
    add_get(command("get", "bring an object or a folder out of a bucket, checked by crc32c"))
    add_store(command("store-logs", "put what all pods of a job have printed into a bucket"))
    for name, what, own in (
        ("lustre", "Lustre instances", "filesystem, mount_point, throughput, legacy_port"),
        ("filestore", "Filestore shares", "tier, share, address"),
    ):
        mounted = command(name, f"{what} of the project; with a name, the values that mount it")
        mounted.epilog = (
            f"JSON: kind, items with project, location, name, state, gib, network, {own}, why, values (those that "
            "mount it); with NAME the values alone."
        )
        mounted.add_argument("name", metavar="NAME", nargs="?", default="", help="print its values for a4 launch -f")
        _add_where(mounted, region=False)


def add_list(parser: argparse.ArgumentParser) -> None:
    """a4 images."""
    parser.usage = "a4 images [--json] [--project ID] [--region R] | a4 images create NAME"
    parser.epilog = (
        "create makes a repository for images. JSON: kind, repositories with address, format, bytes; items with image, "
        "tags, digest, bytes, uploaded, built; contexts (what a4 build can build) with name, title, substitutions; "
        "unread (what could not be read, and why)."
    )
    parser.add_argument("action", choices=("list", "create"), nargs="?", default="list", help="default: list")
    parser.add_argument("name", metavar="NAME", nargs="?", default="")
    _add_where(parser)


def add_build(parser: argparse.ArgumentParser) -> None:
    """a4 build."""
    parser.usage = "a4 build CONTEXT|--file DIR [--set _NAME=VALUE ...] [--machine M] [--timeout 2h] [--wait]"
    parser.epilog = (
        "CONTEXT is one of those that a4 images lists; --file takes a folder of yours, with a Dockerfile or a "
        "cloudbuild.yml, or a Dockerfile. _ARTIFACT_REGISTRY is LOCATION-docker.pkg.dev/PROJECT/REPOSITORY; the first "
        "repository of the region is taken unless it is set. It returns once the build has begun, unless --wait "
        f"follows its log to the end. JSON: as of a4 builds. {EXIT_CODES}"
    )
    parser.add_argument("name", metavar="CONTEXT", nargs="?", default="")
    parser.add_argument("--file", metavar="DIR", help="a folder with a Dockerfile, or a Dockerfile")
    parser.add_argument("--set", action="append", metavar="_NAME=VALUE", help="a substitution")
    parser.add_argument("--machine", help="to build on, as Google names it (default: e2-highcpu-32)")
    parser.add_argument("--timeout", dest="time_out", metavar="TIME", help="30m, 2h (default) or seconds")
    parser.add_argument("--wait", action="store_true", help="follow its log; exit code 1 unless it succeeds")
    parser.add_argument("--dry-run", action="store_true", help="print the request, send nothing")
    _add_where(parser)


def add_builds(parser: argparse.ArgumentParser) -> None:
    """a4 builds."""
    parser.epilog = (
        "JSON: kind, items with id, project, location, status (QUEUED, WORKING, SUCCESS, FAILURE, TIMEOUT, CANCELLED, "
        "...), why, images, digests, substitutions, machine, time_out, created, started, ended (seconds since the "
        "epoch), seconds, log_bucket, log_entries, link, tags."
    )
    parser.add_argument("name", metavar="ID", nargs="?", default="")
    parser.add_argument("--limit", dest="most", type=int, metavar="N", help="at most so many (default: 50)")
    _add_where(parser)


def add_log(parser: argparse.ArgumentParser) -> None:
    """a4 build-log."""
    parser.epilog = "JSON: one object a line, with time (seconds since the epoch; 0: not known) and text."
    parser.add_argument("name", metavar="ID")
    parser.add_argument("-f", "--follow", action="store_true", help="until the build is over")
    _add_where(parser)


def add_cancel(parser: argparse.ArgumentParser) -> None:
    """a4 build-cancel."""
    parser.add_argument("name", metavar="ID")
    parser.add_argument("--yes", action="store_true", help="do not ask first")
    _add_where(parser)


def add_ls(parser: argparse.ArgumentParser) -> None:
    """a4 ls."""
    parser.epilog = (
        "JSON: kind, place, note, more, items with name, bytes, updated, generation, crc32c, folder, iteration (of a "
        "checkpoint), latest (whether it is the checkpoint to go on from). Of a pod: kind, pod_index (and rank, its "
        "older name), pod, place, total, "
        "used, free (bytes of the disk), complaints, items with path, kind, size, mode, modified, target (of a link)."
    )
    parser.add_argument("place", metavar="gs://BUCKET/FOLDER | JOB:POD:PATH | pod/NAME:PATH")
    parser.add_argument("-c", "--container", metavar="C", help="of a pod: instead of the one that does the work")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_get(parser: argparse.ArgumentParser) -> None:
    """a4 get."""
    parser.epilog = (
        "What is there already, whole and the same, is kept; what broke off is gone on with. JSON: source, target, "
        "files, bytes, kept, seconds, problems (object, why). Exit code 1 if anything was left out."
    )
    parser.add_argument("place", metavar="gs://BUCKET/PATH")
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_store(parser: argparse.ArgumentParser) -> None:
    """a4 store-logs."""
    parser.epilog = (
        "Under the folder: pod-logs/coordinator.log (pod 0), pod-logs/worker-N.log, and where pod 0 printed them "
        "nccl-test-results.txt and connectivity-test.log. JSON: place, objects (name, lines)."
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("place", metavar="gs://BUCKET/FOLDER", help="such as gs://my-bucket/testbed-logs")
    parser.add_argument("--replace", action="store_true", help="also where something is already")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _add_where(parser: argparse.ArgumentParser, *, region: bool = True) -> None:
    parser.add_argument("--project", dest="projects", action="append", metavar="ID", help="instead of the cluster's")
    if region:
        parser.add_argument("--region", metavar="R", help="instead of the cluster's")
    parser.add_argument("--json", action="store_true", help="as JSON")
