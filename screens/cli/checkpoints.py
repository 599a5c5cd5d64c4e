"""`a4 checkpoints`: which checkpoints of a run are complete, and how much work would be lost if it ended now."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from console.attach.files.entries import RemotePath, parse_remote_path
from console.checkpoints.judge import Checkpoint, CheckpointState, Survey
from console.checkpoints.sources import survey_bucket, survey_container
from console.errors import BadInput, NotFound
from console.google.storage import parse_gcs_address
from screens import wording
from screens.cli.arguments import Command, Commands, Options, container_option, json_flag, word
from screens.cli.connect import google_of, open_session
from screens.cli.files import copies_of
from screens.cli.measures import KINDS
from screens.cli.output import print_json, print_line

if TYPE_CHECKING:
    from console.session import Session


async def checkpoints(options: CheckpointsOptions) -> int:
    now = time.time()
    if options.place.strip().startswith("gs:"):
        async with google_of(options) as google:
            return _print(await survey_bucket(google.storage, parse_gcs_address(options.place), now), options, now, 0)
    async with open_session(options, KINDS) as session:
        place = parse_remote_path(options.place) or await _told_by_log(session, options.place)
        if place.path.startswith("gs:"):
            found = await survey_bucket(session.google.storage, parse_gcs_address(place.path), now)
        else:
            _, copies = await copies_of(session, place, options.container)
            try:
                found = await survey_container(copies.command_files(), place.path, now)
            except NotFound as error:
                if parse_remote_path(options.place):
                    raise
                hint = f"Name the folder: a4 checkpoints {place.job}:0:/PATH, or gs://BUCKET/FOLDER."
                told = f"The log of {place.job} says that it saves to {place.path}, and pod 0 has no such folder."
                raise NotFound(told, hint) from error
        # GPUs that the job holds now; 0 if it does not run.
        jobset = session.fleet.jobsets.get((session.namespace, place.job))
        pods = session.fleet.pods_by_jobset.get(jobset.uid, []) if jobset else []
        return _print(found, options, now, sum(pod.holds_gpus for pod in pods))


async def _told_by_log(session: Session, job: str) -> RemotePath:
    """The checkpoint folder named in the log of the job's first pod."""
    if "/" in job:
        raise BadInput(
            f"{job} is neither a job nor a folder of a pod or bucket.",
            "Write JOB, JOB:POD:PATH, pod/NAME:PATH or gs://BUCKET/FOLDER.",
        )
    await session.wait_until_listed(*KINDS)
    return RemotePath(job, "0", await session.checkpoints.find_folder(session.namespace, job))


def _print(found: Survey, options: CheckpointsOptions, now: float, gpus: int) -> int:
    last = found.last_complete
    lost = (now - last.modified) / 3600 * gpus if last and gpus else None
    if options.json:
        print_json({
            "kind": "checkpoints", "place": options.place, "last_complete": last.step if last else None,
            "age": now - last.modified if last else None, "gpu_hours_at_risk": lost, "notes": found.notes,
            "items": [asdict(each) for each in found.checkpoints],
        })  # fmt: skip
    else:
        for each in found.checkpoints:
            print_line(_format_checkpoint(each))
            for problem in each.problems[:PROBLEMS]:
                print_line(f"    {wording.one_line(problem)}")
            if len(each.problems) > PROBLEMS:
                print_line(f"    and {len(each.problems) - PROBLEMS} more; --json lists them all")
        for note in found.notes:
            print_line(wording.one_line(note))
        print_line(_summary(found, last, now, gpus))
    wrong = found.notes or any(each.state is CheckpointState.INCOMPLETE for each in found.checkpoints)
    return 1 if wrong or last is None else 0


PROBLEMS = 5  # of one checkpoint that are printed


def _format_checkpoint(each: Checkpoint) -> str:
    step = f"step {each.step:,}" if each.step is not None else "no step"
    name = wording.one_line(each.path or ".")
    return (
        f"{step:>14}  {each.state:13}  {wording.size(each.bytes):>9}  {wording.since(each.modified):>7}  "
        f"{each.format:19}  {name}"
    )


def _summary(found: Survey, last: Checkpoint | None, now: float, gpus: int) -> str:
    if not found.checkpoints:
        return "There are no checkpoints in a format that is known here."
    if last is None:
        return "None of them is known to be complete."
    step = f"step {last.step:,}" if last.step is not None else last.path or "this folder"
    words = f"The last complete one is {step}, {wording.duration(now - last.modified)} old."
    if gpus:
        hours = (now - last.modified) / 3600 * gpus
        words += f" {hours:.1f} GPU-hours ({wording.count(gpus, 'GPU')}) would be lost if the job ended now."
    return words


class CheckpointsOptions(Options):
    place: str = word(
        "JOB | JOB:POD:PATH | pod/NAME:PATH | gs://BUCKET/FOLDER", help="of JOB: where its log says that it saves"
    )
    container: str = container_option("of a pod: instead of the one that does the work")
    json: bool = json_flag()


COMMANDS: Commands = {
    "checkpoints": Command(
        checkpoints,
        CheckpointsOptions,
        epilog="Judged by names, sizes and headers of the files; nothing is loaded. JSON: kind, place, last_complete "
        "(step), age (s), gpu_hours_at_risk (since the last complete one; null where no running job is named), notes "
        "(wrong pointers to the latest), items with path, format, step, state (complete, incomplete, being written, "
        "cannot tell), bytes, files, modified, problems. Exit code 1 if one is incomplete, a pointer is wrong, or none "
        "is complete.",
    ),
}
