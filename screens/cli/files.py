"""Copies between this machine and ranks, used like `cp` and `scp`.

`a4 ls` of a rank, and `a4 rm`: folders of containers, without a shell.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from console.attach.files.copy_progress import (
    CopyMethod,
    CopyProgress,
    CopyReport,
    EntryKind,
    RemotePath,
    parse_remote_path,
)
from console.errors import BadInput, ConsoleError
from console.kube.snapshot import Fleet
from console.scheduling.pod_slots import PodSlot, find_pod_slot
from screens import wording
from screens.cli.arguments import Command, Commands, Options, container_option, flag, json_flag, option, word, yes_flag
from screens.cli.job_arguments import JOB_KINDS, chosen_ranks, container_of, pod_index_json, pod_words, running_pod
from screens.cli.open_session import open_session
from screens.cli.output import print_entries, print_json, print_line, print_result, raw_stream, warn
from screens.cli.prompts import confirm
from screens.sanitize import one_line
from screens.wording import size

if TYPE_CHECKING:
    from console.attach.files.container_copies import ContainerCopies
    from console.session import Session

    Listener = Callable[[CopyProgress], None]

MAX_CONCURRENT_COPIES = 4
"""Ranks that are copied from or to at the same time."""
_USAGE = "Write a4 cp JOB:POD:PATH HERE, or a4 cp HERE JOB:POD:PATH; a path with colons of this machine begins with ./"


@dataclass(frozen=True, slots=True)
class PlannedCopy:
    rank: PodSlot
    source: str
    target: str
    fetch: bool


async def run_cp(options: CpOptions) -> int:
    """Copy everything named; returns 1 if anything was left out. Raises BadInput unless exactly one side is in pods."""
    sources = [parse_remote_path(each) for each in options.sources]
    target = parse_remote_path(options.target)
    if target is not None and any(sources):
        raise BadInput("Both sides are in pods.", "Copy to this machine first, and from here to the other pod.")
    if target is None and not all(sources):
        here = "Not all sources are in pods." if any(sources) else "Both sides are on this machine."
        raise BadInput(here, _USAGE)
    async with open_session(options, JOB_KINDS) as session:
        copies = [
            each
            for source, place in zip(options.sources, sources, strict=True)
            for each in plan_copies(session.fleet, session.namespace, source, place, target, options)
        ]
        job = (target or next(place for place in sources if place)).job
        return await run_copies(session, copies, job, options)


def plan_copies(
    fleet: Fleet, namespace: str, source: str, place: RemotePath | None, target: RemotePath | None, options: CpOptions
) -> list[PlannedCopy]:
    """The copies for one source (local if `place` is None): one, or one per rank, fetched into a folder for each."""
    remote = place or target
    assert remote is not None
    if remote.is_all_ranks or options.ranks:
        ranks = chosen_ranks(fleet, namespace, remote.job, options.ranks)
    else:
        ranks = (find_pod_slot(fleet, namespace, remote.job, remote.rank),)
    if target is not None:
        return [PlannedCopy(rank, source, target.path, False) for rank in ranks]
    if not (remote.is_all_ranks or options.ranks):
        return [PlannedCopy(ranks[0], remote.path, options.target, True)]
    folder = options.target.rstrip("/") or "/"
    return [PlannedCopy(rank, remote.path, f"{folder}/pod-{rank.number}/", True) for rank in ranks]


async def run_copies(session: Session, copies: list[PlannedCopy], job: str, options: CpOptions) -> int:
    """Copy, a few at a time; a failure in one rank is reported and the others continue."""
    room = asyncio.Semaphore(MAX_CONCURRENT_COPIES)
    ended: dict[int, CopyReport | ConsoleError] = {}
    with progress_bars(len(copies), is_shown=sys.stderr.isatty() and not options.json) as bar:

        async def run_one(number: int, copy: PlannedCopy) -> None:
            async with room:
                try:
                    ended[number] = await run_copy(session, copy, job, options, bar(pod_words(copy.rank, job)))
                except ConsoleError as error:
                    if len(copies) == 1:
                        raise
                    ended[number] = error

        await asyncio.gather(*(run_one(number, each) for number, each in enumerate(copies)))
    if options.json:
        outcomes = [_outcome_json(each.rank, ended[number]) for number, each in enumerate(copies)]
        print_json(outcomes if len(copies) > 1 else outcomes[0])
    else:
        for number, each in enumerate(copies):
            print_outcome(ended[number], f"{pod_words(each.rank, job)}: " if len(copies) > 1 else "")
    codes = (end.exit_code if isinstance(end, ConsoleError) else int(bool(end.problems)) for end in ended.values())
    return max(codes)


def _outcome_json(slot: PodSlot, outcome: CopyReport | ConsoleError) -> dict[str, Any]:
    """The copy's report as JSON, or `error` and `hint`."""
    if isinstance(outcome, ConsoleError):
        return {**pod_index_json(slot), "error": outcome.message, "hint": outcome.hint}
    return {**pod_index_json(slot), **asdict(outcome)}


async def run_copy(session: Session, each: PlannedCopy, job: str, options: CpOptions, progress: Listener) -> CopyReport:
    pod = running_pod(each.rank, job, "nothing can be copied")
    copies = session.copies.for_container(
        pod.namespace,
        pod.name,
        container=container_of(pod, options.container),
        label=pod_words(each.rank, job),
        method=CopyMethod(options.by) if options.by else None,
    )
    copy = copies.fetch if each.fetch else copies.send
    return await copy(each.source, each.target, progress=progress)


def print_outcome(outcome: CopyReport | ConsoleError, prefix: str) -> None:
    if isinstance(outcome, ConsoleError):
        warn(str(outcome))
        return
    print_line(prefix + report_summary(outcome))
    for problem in outcome.problems:
        warn(f"{prefix}{problem.path}: {problem.why}" if problem.path else f"{prefix}{problem.why}")
    if outcome.note:
        warn(prefix + outcome.note)


def report_summary(report: CopyReport) -> str:
    files = wording.count(report.files, "file")
    sent = report.bytes - report.resumed
    rate = f", {size(int(sent / report.seconds))}/s" if report.seconds > 0 and sent > 0 else ""
    before = f", {size(report.resumed)} of it resumed" if report.resumed else ""
    return (
        f"{report.target}: {files}, {size(report.bytes)}{before} in {report.seconds:.1f} s{rate} by {report.way}; "
        f"{report.proof} equal"
    )


@contextmanager
def progress_bars(bar_count: int, *, is_shown: bool) -> Iterator[Callable[[str], Listener]]:
    """Progress bars of copies on a terminal; the yielded function returns a listener for a name."""
    if not is_shown:
        yield lambda _: lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[now]}", markup=False),
    )
    with Progress(*columns, console=Console(file=raw_stream(sys.stderr)), transient=True) as progress:

        def begin(name: str) -> Listener:
            task = progress.add_task(one_line(name) if bar_count > 1 else "", total=None, now="")

            def listen(far: CopyProgress) -> None:
                files = f"{far.done_files}/{far.all_files} " if far.all_files > 1 else ""
                progress.update(task, total=far.total, completed=far.done, now=f"{files}{one_line(far.now[-40:])}")

            return listen

        yield begin


async def copies_of(session: Session, remote: RemotePath, container: str) -> tuple[PodSlot, ContainerCopies]:
    if remote.is_all_ranks:
        raise BadInput("One pod at a time.", "a4 exec JOB --all -- ls PATH lists a folder of them all.")
    rank = find_pod_slot(session.fleet, session.namespace, remote.job, remote.rank)
    pod = running_pod(rank, remote.job, "its files are gone")
    container = container_of(pod, container)
    return rank, session.copies.for_container(
        pod.namespace, pod.name, container=container, label=pod_words(rank, remote.job)
    )


async def list_folder(remote: RemotePath, options: Options, container: str) -> int:
    """Print a folder of a rank and its disk usage; returns 1 if something could not be read."""
    async with open_session(options, JOB_KINDS) as session:
        rank, files = await copies_of(session, remote, container)
        found = await files.list_folder(remote.path)
    if options.json:
        fields = asdict(found)
        place_and_items = {"place": fields.pop("path"), "items": fields.pop("entries")}
        print_json({"kind": "files", **pod_index_json(rank), **place_and_items, **fields})
        return int(bool(found.complaints))
    rows = []
    for each in found.entries:
        size = wording.size(each.size) if each.kind is EntryKind.FILE else ""
        end = {EntryKind.FOLDER: "/", EntryKind.LINK: f" → {each.target}"}.get(each.kind, "")
        rows.append((size, wording.since(each.modified), one_line(each.path + end)))
    print_entries(rows)
    if found.total is not None and found.free is not None:
        print_line(f"{found.path}: {wording.size(found.free)} free of {wording.size(found.total)}")
    for words in found.complaints:
        warn(one_line(words))
    return int(bool(found.complaints))


async def run_rm(options: RmOptions) -> int:
    """Delete a file or folder in a rank after confirmation; returns 1 if declined. BadInput for a path in no pod."""
    place = parse_remote_path(options.place)
    if place is None:
        raise BadInput(f"{options.place} is in no pod.", "Write JOB:POD:PATH or pod/NAME:PATH.")
    async with open_session(options, JOB_KINDS) as session:
        session.watch.connection_for_change(f"delete {place.path}")
        rank, files = await copies_of(session, place, options.container)
        lines = [
            f"It goes from {pod_words(rank, place.job)} with everything in it. This cannot be undone.",
            "On a shared file system it is deleted for every pod.",
        ]
        if not (options.yes or await confirm(lines, f"Delete {place.path}?", "Add --yes.")):
            return 1
        await files.delete(place.path)
    fields = {"kind": "deleted", **pod_index_json(rank), "place": place.path}
    return print_result(options.json, fields, f"{place.path} is deleted.")


class CpOptions(Options):
    sources: tuple[str, ...] = word("SOURCE", nargs="+")
    target: str = word("TARGET")
    container: str = container_option()
    recursive: bool = flag("-r", "--recursive", help="as of cp: folders are copied without it, too")
    ranks: str = option("--pods", "--ranks", metavar="LIST", help="instead of the POD that was written, such as 0-3,7")
    by: str = option("--by", choices=("sftp", "exec"), help="one way only (default: SFTP where sshd answers)")
    json: bool = json_flag()


class RmOptions(Options):
    place: str = word("JOB:POD:PATH | pod/NAME:PATH")
    container: str = container_option()
    yes: bool = yes_flag()
    json: bool = json_flag()


COMMANDS: Commands = {
    "cp": Command(
        run_cp,
        CpOptions,
        usage="a4 cp [-c C] JOB:POD:PATH ... HERE | a4 cp [-c C] HERE ... JOB:POD:PATH",
        description="Copy files and folders from or to pods: modes, times and links too. POD is the index of the pod "
        "in the job, REPLICATED/INDEX, or all (from each pod into a folder of its own); pod/NAME:PATH is a pod. What "
        "broke off is gone on with by the same command; a copy gets its name only once its checksum is that of the "
        "original.",
    ),
    "rm": Command(
        run_rm,
        RmOptions,
        description="Delete a file of a pod, or a folder with all that is in it. Not deleted: folders of the root, and "
        "mounts.",
        epilog="JSON: kind, pod_index (and rank, its older name), pod, place. Exit code 1 if the answer was no.",
    ),
}
