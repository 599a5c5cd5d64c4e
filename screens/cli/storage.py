"""`a4 buckets`, `ls`, `get`, `store-logs`, `lustre`, `filestore`; `checkpoints`: which of a run are complete."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from console.attach.files.copy_progress import RemotePath, parse_remote_path
from console.checkpoints.completeness import Checkpoint, CheckpointState, Survey
from console.checkpoints.reader import find_saved_folder, survey_bucket, survey_container
from console.checkpoints.saved_state import SavedState
from console.errors import BadInput, NotFound, NotThere
from console.google.bucket_paths import parse_gcs_address
from console.google.storage import FilestoreInstance, LustreInstance
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.lost_work import LostWork
from screens import wording
from screens.cli.arguments import Command, Commands, Options, container_option, flag, json_flag, word
from screens.cli.files import copies_of, list_folder, progress_bars
from screens.cli.images import project_of, projects_option
from screens.cli.job_arguments import JOB_KINDS
from screens.cli.open_session import google_of, open_session
from screens.cli.output import print_entries, print_json, print_line, print_listing, print_result, warn
from screens.columns.google import FILESTORE, LUSTRE, STORAGE, of_bucket, of_file_system
from screens.sanitize import one_line

if TYPE_CHECKING:
    from console.session import Session


async def run_buckets(options: BucketsOptions) -> int:
    async with google_of(options) as google:
        region = await google.storage.cluster_region()
        found = await google.storage.list_buckets(project_of(options.projects))
    items = [{**asdict(each), "match": each.describe_distance(region)} for each in found]
    report = {"kind": "buckets", "region": region, "items": items}
    places = [of_bucket(each, region) for each in found]
    return print_listing(options.json, report, STORAGE, places, "The project has no buckets.")


async def run_ls(options: LsOptions) -> int:
    if (remote := parse_remote_path(options.place)) is not None:
        return await list_folder(remote, options, options.container)
    if not options.place.strip().startswith("gs:"):
        raise BadInput(
            f"{options.place} is neither a folder of a pod nor of a bucket.",
            "Write JOB:POD:PATH, pod/NAME:PATH, gs://BUCKET or gs://BUCKET/FOLDER.",
        )
    place = parse_gcs_address(options.place)
    async with google_of(options) as google:
        found = await google.storage.list_folder(place)
    if options.json:
        items = [{**asdict(each), "folder": each.is_folder, "iteration": each.iteration} for each in found.objects]
        report = {"kind": "objects", "place": str(found.place), "note": found.note, "more": found.has_more}
        print_json({**report, "items": items})
        return 0
    rows = []
    for each in found.objects:
        size = "" if each.is_folder else wording.size(each.bytes)
        mark = "  ← the last complete checkpoint" if each.latest else ""
        rows.append((size, wording.since(each.updated), one_line(each.title) + mark))
    print_entries(rows)
    if found.has_more:
        warn("There is more than this: name a folder in it.")
    if found.note:
        print_line(found.note)
    if not found.objects:
        warn(f"There is nothing at {found.place}.")
    return 0


async def run_get(options: GetOptions) -> int:
    place = parse_gcs_address(options.place)
    async with google_of(options) as google:
        with progress_bars(1, is_shown=sys.stderr.isatty() and not options.json) as bar:
            report = await google.storage.fetch_folder(place, options.folder, bar(str(place)))
    kept = f", {report.kept} of them were there" if report.kept else ""
    got = f"{wording.count(report.files, 'file')}, {wording.size(report.bytes)}{kept}"
    print_result(options.json, asdict(report), f"{report.target}: {got}, in {report.seconds:.1f} s; crc32c equal")
    for name, why in () if options.json else report.problems:
        warn(f"{one_line(name)}: {why}")
    return int(bool(report.problems))


async def run_store_logs(options: StoreLogsOptions) -> int:
    place = parse_gcs_address(options.place)
    if not place.folder:
        raise BadInput(f"{place} is a whole bucket.", f"Name a folder, such as {place}testbed-logs.")
    async with open_session(options, JOB_KINDS) as session:
        report = await session.google.storage.store_logs(session.namespace, options.job, place, replace=options.replace)
    folder = report.place.rstrip("/")
    objects = (f"{folder}/{name}: {wording.count(lines, 'line')}" for name, lines in report.objects)
    return print_result(options.json, report, *objects)


async def run_instances(options: InstanceOptions) -> int:
    """Print Lustre or Filestore instances, or the values that mount one."""
    async with google_of(options) as google:
        project, region = project_of(options.projects), await google.storage.cluster_region()
        found: Sequence[LustreInstance] | Sequence[FilestoreInstance]
        if options.command == "lustre":
            kind, found = LUSTRE, await google.storage.list_lustre(project)
        else:
            kind, found = FILESTORE, await google.storage.list_filestore(project)
        places = [of_file_system(kind, each, region) for each in found]
    if options.name:
        return _print_values(found, options)
    report = {"kind": options.command, "items": [{**asdict(each), "values": each.launch_values()} for each in found]}
    return print_listing(options.json, report, STORAGE, places, "There are none.")


def _print_values(instances: Sequence[LustreInstance] | Sequence[FilestoreInstance], options: InstanceOptions) -> int:
    chosen = [each for each in instances if each.name == options.name]
    if len(chosen) != 1:
        names = ", ".join(sorted({each.name for each in instances})) or "none"
        error = BadInput if chosen else NotThere
        raise error(f"There are {len(chosen)} instances named {options.name}.", f"There are: {names}.")
    if chosen[0].state not in {"ACTIVE", "READY"}:
        why = f": {chosen[0].why}" if chosen[0].why else "."
        raise BadInput(f"{options.name} cannot be mounted, it is {chosen[0].state}{why}", "Choose one that is ready.")
    values = chosen[0].launch_values()
    return print_result(options.json, values, yaml.safe_dump(values, sort_keys=False).rstrip())


def _keys(own_keys: str) -> str:
    """Help on the JSON of `a4 lustre` and `a4 filestore`; `own_keys`: keys that only the command has."""
    return (
        f"JSON: kind, items with project, location, name, state, gib, network, {own_keys}, why, values (those that "
        "mount it); with NAME the values alone."
    )


async def run_checkpoints(options: CheckpointsOptions) -> int:
    now = SERVER_CLOCK.now()
    if options.place.strip().startswith("gs:"):
        async with google_of(options) as google:
            return _print_survey(
                await survey_bucket(google.storage, parse_gcs_address(options.place), now), options, now
            )
    async with open_session(options, (*JOB_KINDS, "nodes")) as session:
        place = parse_remote_path(options.place) or await _checkpoint_folder_by_log(session, options.place)
        folder = place.path
        if place.path.startswith("gs:"):
            found = await survey_bucket(session.google.storage, parse_gcs_address(place.path), now)
        else:
            _, copies = await copies_of(session, place, options.container)
            files, by_log = copies.command_files(), parse_remote_path(options.place) is None
            try:
                folder = await find_saved_folder(files, place.path) if by_log else place.path
                found = await survey_container(files, folder, now)
            except NotFound as error:
                if not by_log:
                    raise
                hint = f"Name the folder: a4 checkpoints {place.job}:0:/PATH, or gs://BUCKET/FOLDER."
                message = f"The log of {place.job} says that it saves to {place.path}, and pod 0 has no such folder."
                raise NotFound(message, hint) from error
        key = session.namespace, place.job
        session.checkpoints.saved_states[key] = SavedState(now, folder, found)
        return _print_survey(found, options, now, await session.launch.unsaved.find_lost_work(*key))


async def _checkpoint_folder_by_log(session: Session, job: str) -> RemotePath:
    """The checkpoint folder named in the log of the job's first pod. BadInput for a path, NotFound if it names none."""
    if "/" in job:
        raise BadInput(
            f"{job} is neither a job nor a folder of a pod or bucket.",
            "Write JOB, JOB:POD:PATH, pod/NAME:PATH or gs://BUCKET/FOLDER.",
        )
    await session.wait_until_listed(*JOB_KINDS, "nodes")
    return RemotePath(job, "0", await session.checkpoints.find_folder(session.namespace, job))


MAX_PRINTED_PROBLEMS = 5  # of one checkpoint that are printed


def _print_survey(survey: Survey, options: CheckpointsOptions, now: float, loss: LostWork | None = None) -> int:
    last = survey.last_complete
    lost = loss.gpu_hours(now) if loss is not None else None
    if options.json:
        print_json(
            {
                "kind": "checkpoints",
                "place": options.place,
                "last_complete": last.step if last else None,
                "age": now - last.modified if last else None,
                "gpu_hours_at_risk": lost,
                "lost": loss.sentence(now) if loss is not None else "",
                "notes": survey.notes,
                "items": [asdict(each) for each in survey.checkpoints],
            }
        )
    else:
        for each in survey.checkpoints:
            print_line(_format_checkpoint(each))
            for problem in each.problems[:MAX_PRINTED_PROBLEMS]:
                print_line(f"    {one_line(problem)}")
            if len(each.problems) > MAX_PRINTED_PROBLEMS:
                print_line(f"    and {len(each.problems) - MAX_PRINTED_PROBLEMS} more; --json lists them all")
        for note in survey.notes:
            print_line(one_line(note))
        print_line(_summary_words(survey, last, now))
        if loss is not None:
            print_line(f"Lost if the job ended now: {loss.sentence(now)}.")
    wrong = survey.notes or any(each.state is CheckpointState.INCOMPLETE for each in survey.checkpoints)
    return 1 if wrong or last is None else 0


def _format_checkpoint(checkpoint: Checkpoint) -> str:
    step = f"step {checkpoint.step:,}" if checkpoint.step is not None else "no step"
    name = one_line(checkpoint.path or ".")
    return (
        f"{step:>14}  {checkpoint.state:13}  {wording.size(checkpoint.bytes):>9}  "
        f"{wording.since(checkpoint.modified):>7}  {checkpoint.format:19}  {name}"
    )


def _summary_words(survey: Survey, last: Checkpoint | None, now: float) -> str:
    if not survey.checkpoints:
        return "There are no checkpoints in a format that is known here."
    if last is None:
        return "None of them is known to be complete."
    step = f"step {last.step:,}" if last.step is not None else last.path or "this folder"
    return f"The last complete one is {step}, {wording.duration(now - last.modified)} old."


class BucketsOptions(Options):
    projects: tuple[str, ...] = projects_option()
    json: bool = json_flag()


class InstanceOptions(BucketsOptions):
    name: str = word("NAME", nargs="?", help="print its values for a4 launch -f")


class LsOptions(Options):
    place: str = word("gs://BUCKET/FOLDER | JOB:POD:PATH | pod/NAME:PATH")
    container: str = container_option("of a pod: instead of the one that does the work")
    json: bool = json_flag()


class GetOptions(Options):
    place: str = word("gs://BUCKET/PATH")
    folder: Path = word("DIR", type=Path)
    json: bool = json_flag()


class StoreLogsOptions(Options):
    job: str = word("JOB")
    place: str = word("gs://BUCKET/FOLDER", help="such as gs://my-bucket/testbed-logs")
    replace: bool = flag("--replace", help="also where something is already")
    json: bool = json_flag()


class CheckpointsOptions(Options):
    place: str = word(
        "JOB | JOB:POD:PATH | pod/NAME:PATH | gs://BUCKET/FOLDER", help="of JOB: where its log says that it saves"
    )
    container: str = container_option("of a pod: instead of the one that does the work")
    json: bool = json_flag()


COMMANDS: Commands = {
    "buckets": Command(
        run_buckets,
        BucketsOptions,
        epilog="JSON: kind, region (the cluster's), items with name, location, location_type, match (same region, "
        "...), storage_class, uniform, hierarchical, created.",
    ),
    "ls": Command(
        run_ls,
        LsOptions,
        epilog="JSON: kind, place, note, more, items with name, bytes, updated, generation, crc32c, folder, iteration "
        "(of a checkpoint), latest (whether it is the checkpoint to go on from). Of a pod: kind, pod_index (and rank, "
        "its older name), pod, place, total, used, free (bytes of the disk), complaints, items with path, kind, size, "
        "mode, modified, target (of a link).",
    ),
    "get": Command(
        run_get,
        GetOptions,
        epilog="What is there already, whole and the same, is kept; what broke off is gone on with. JSON: source, "
        "target, files, bytes, kept, seconds, problems (object, why). Exit code 1 if anything was left out.",
    ),
    "store-logs": Command(
        run_store_logs,
        StoreLogsOptions,
        epilog="Under the folder: pod-logs/coordinator.log (pod 0), pod-logs/worker-N.log, and where pod 0 printed "
        "them nccl-test-results.txt and connectivity-test.log. JSON: place, objects (name, lines).",
    ),
    "lustre": Command(run_instances, InstanceOptions, epilog=_keys("filesystem, mount_point, throughput, legacy_port")),
    "filestore": Command(run_instances, InstanceOptions, epilog=_keys("tier, share, address")),
    "checkpoints": Command(
        run_checkpoints,
        CheckpointsOptions,
        epilog="Judged by names, sizes and headers of the files; nothing is loaded. JSON: kind, place, last_complete "
        "(step), age (s), gpu_hours_at_risk (the most that would be lost; null where no running job is named), lost "
        "(that as a sentence), notes "
        "(wrong pointers to the latest), items with path, format, step, state (complete, incomplete, being written, "
        "cannot tell), bytes, files, modified, problems. Exit code 1 if one is incomplete, a pointer is wrong, or none "
        "is complete.",
    ),
}
