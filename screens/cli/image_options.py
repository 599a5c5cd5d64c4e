"""Options of the commands about images, builds, buckets and file systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

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
