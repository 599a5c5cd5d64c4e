"""`a4 images`, `build`, `builds`, `build-log`, `build-cancel`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from console.errors import BadInput
from console.google.builds import BUILD_MACHINES, Build, plan_problems
from console.kube.stream_completeness import SERVER_CLOCK
from screens import wording
from screens.cli.arguments import Command, Commands, Options, flag, json_flag, option, positive, word, yes_flag
from screens.cli.open_session import google_of
from screens.cli.output import print_json, print_line, print_listing, print_result, print_table, warn
from screens.cli.prompts import confirm
from screens.columns.column import text_table
from screens.columns.google import BUILDS, IMAGES
from screens.sanitize import one_line

if TYPE_CHECKING:
    from console.google.images import GoogleImages

_BUILD_TIME = re.compile(r"^(\d+)([smh]?)$")
_SECONDS_PER_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600}


def project_of(projects: Sequence[str]) -> str:
    if len(projects) > 1:
        raise BadInput("One project at a time.", "Name --project once.")
    return projects[0] if projects else ""


async def run_images(options: ImagesOptions) -> int:
    async with google_of(options) as google:
        if options.action == "create":
            images = google.images
            if not options.name:
                raise BadInput("Which repository?", "a4 images create NAME")
            made = await images.create_repository(
                *await images.build_location(project_of(options.projects), options.region), options.name
            )
            return print_result(options.json, {**asdict(made), "address": made.address}, f"{made.address} is there.")
        contexts = await google.images.list_contexts()
        found = await google.images.survey_registry(project_of(options.projects), options.region)
    if options.json:
        print_json(
            {
                "kind": "images",
                "unread": dict(found.unread),
                "repositories": [{**asdict(each), "address": each.address} for each in found.repositories],
                "items": [{**asdict(each), "image": each.references[0]} for each in found.images],
                "contexts": [
                    {
                        "name": each.name,
                        "title": each.title,
                        "folder": str(each.folder),
                        "wanted": each.wanted,
                        "substitutions": each.defaults,
                    }
                    for each in contexts
                ],
            }
        )
        return 0
    print_table(*text_table(IMAGES, found.images))
    for address, why in found.unread:
        warn(f"{address}: {why}")
    print_line()
    print_table(("BUILD CONTEXT", "WHAT"), [(each.name, each.title) for each in contexts])
    return 0


def parse_seconds(text: str) -> int:
    found = _BUILD_TIME.match(text.strip())
    if found is None:
        raise BadInput(f"{text} is not a valid time.", "Write 30m, 2h or seconds.")
    return int(found[1]) * _SECONDS_PER_UNIT[found[2]]


async def run_build(options: BuildOptions) -> int:
    async with google_of(options) as google:
        images = google.images
        if bool(options.name) == bool(options.file):
            raise BadInput("What is to be built?", "Name a context of a4 images, or a folder with --file.")
        context = await (images.find_context(options.name) if options.name else images.read_context(Path(options.file)))
        plan = await images.new_plan(context, project_of(options.projects), options.region)
        given = {}
        for each in options.set:
            name, cut, value = each.partition("=")
            if not cut:
                raise BadInput(f"{each} is not a substitution.", "Write --set _IMAGE_TAG=25.06-py3.")
            given[name] = value
        plan = replace(
            plan,
            substitutions={**plan.substitutions, **given},
            machine=options.machine or BUILD_MACHINES[0],
            time_out=parse_seconds(options.time_out) if options.time_out else plan.time_out,
        )
        if wrong := plan_problems(plan):
            raise BadInput(
                " ".join(words for _, words in wrong), "a4 images lists repositories; --set _NAME=VALUE sets one."
            )
        if options.dry_run:
            print_json(
                {
                    "image": plan.image,
                    "project": plan.project,
                    "location": plan.location,
                    "folder": str(plan.context.folder),
                    "build": await images.describe_build(plan),
                }
            )
            return 0
        begun = await images.start_build(plan)
        if options.wait:
            if not options.json:
                print_line(f"{begun.id} builds {plan.image}.")
            return await _follow_build(images, begun, options)
        line = f"{begun.id} builds {plan.image}; a4 build-log {begun.id} -f follows it."
        return print_result(options.json, build_json(begun), line)


async def _follow_build(images: GoogleImages, build: Build, options: BuildOptions) -> int:
    async with aclosing(images.follow_log(build.id, project=build.project, location=build.location)) as lines:
        async for line in lines:
            if not options.json:
                print_line(one_line(line.text))
    ended = await images.read_build(build.id, build.project, build.location)
    if options.json:
        print_json(build_json(ended))
    elif ended.succeeded:
        print_line(f"{', '.join(ended.images)} is there after {wording.age(ended.seconds(SERVER_CLOCK.now()))}.")
    else:
        warn(f"The build ended as {ended.status}. {ended.why}".rstrip())
    return 0 if ended.succeeded else 1


def build_json(build: Build) -> dict[str, Any]:
    return {**asdict(build), "seconds": build.seconds(SERVER_CLOCK.now())}


async def run_builds(options: BuildsOptions) -> int:
    async with google_of(options) as google:
        project = project_of(options.projects)
        if options.name:
            found: Sequence[Build] = (await google.images.read_build(options.name, project, options.region),)
        else:
            found = await google.images.list_builds(options.most, project, options.region)
    report = {"kind": "builds", "items": [build_json(each) for each in found]}
    return print_listing(options.json, report, BUILDS, found, "There are no builds.")


async def run_build_log(options: BuildLogOptions) -> int:
    async with google_of(options) as google:
        project, region = project_of(options.projects), options.region
        log = google.images.follow_log(options.name, follow=options.follow, project=project, location=region)
        async with aclosing(log) as lines:
            async for line in lines:
                text = msgspec.json.encode(line).decode() if options.json else one_line(line.text)
                print_line(text)
    return 0


async def run_build_cancel(options: BuildCancelOptions) -> int:
    async with google_of(options) as google:
        images, project = google.images, project_of(options.projects)
        found = await images.read_build(options.name, project, options.region)
        lines = [f"{found.id} builds {', '.join(found.images)}; it is {found.status}."]
        if not (options.yes or found.over or await confirm(lines, "Cancel this build?", "Add --yes.")):
            return 1
        ended = await images.cancel_build(options.name, project, options.region)
    return print_result(options.json, build_json(ended), f"{ended.id} is cancelled.")


EXIT_CODES = (
    "exit codes: 0 ok, 1 it failed or what was named is not there, 2 usage, 3 not allowed, 4 cannot reach Google or "
    "cluster"
)


def projects_option() -> Any:
    return option("--project", action="append", metavar="ID", help="instead of the cluster's")


class ProjectOptions(Options):
    projects: tuple[str, ...] = projects_option()
    region: str = option("--region", metavar="R", help="instead of the cluster's")
    json: bool = json_flag()


class ImagesOptions(ProjectOptions):
    action: str = word(choices=("list", "create"), nargs="?", default="list", help="default: list")
    name: str = word("NAME", nargs="?")


class BuildOptions(ProjectOptions):
    name: str = word("CONTEXT", nargs="?")
    file: str = option("--file", metavar="DIR", help="a folder with a Dockerfile, or a Dockerfile")
    set: tuple[str, ...] = option("--set", action="append", metavar="_NAME=VALUE", help="a substitution")
    machine: str = option("--machine", help="to build on, as Google names it (default: e2-highcpu-32)")
    time_out: str = option("--timeout", metavar="TIME", help="30m, 2h (default) or seconds")
    wait: bool = flag("--wait", help="follow its log; exit code 1 unless it succeeds")
    dry_run: bool = flag("--dry-run", help="print the request, send nothing")


class BuildsOptions(ProjectOptions):
    name: str = word("ID", nargs="?")
    most: int = option("--limit", type=positive, metavar="N", default=50, help="at most so many (default: 50)")


class BuildLogOptions(ProjectOptions):
    name: str = word("ID")
    follow: bool = flag("-f", "--follow", help="until the build is over")


class BuildCancelOptions(ProjectOptions):
    name: str = word("ID")
    yes: bool = yes_flag()


COMMANDS: Commands = {
    "images": Command(
        run_images,
        ImagesOptions,
        usage="a4 images [--json] [--project ID] [--region R] | a4 images create NAME",
        epilog="create makes a repository for images. JSON: kind, repositories with address, format, bytes; items with "
        "image, tags, digest, bytes, uploaded, built; contexts (what a4 build can build) with name, title, "
        "substitutions; unread (what could not be read, and why).",
    ),
    "build": Command(
        run_build,
        BuildOptions,
        usage="a4 build CONTEXT|--file DIR [--set _NAME=VALUE ...] [--machine M] [--timeout 2h] [--wait]",
        epilog="CONTEXT is one of those that a4 images lists; --file takes a folder of yours, with a Dockerfile or a "
        "cloudbuild.yml, or a Dockerfile. _ARTIFACT_REGISTRY is LOCATION-docker.pkg.dev/PROJECT/REPOSITORY; the first "
        "repository of the region is taken unless it is set. It returns once the build has begun, unless --wait "
        f"follows its log to the end. JSON: as of a4 builds. {EXIT_CODES}",
    ),
    "builds": Command(
        run_builds,
        BuildsOptions,
        epilog="JSON: kind, items with id, project, location, status (QUEUED, WORKING, SUCCESS, FAILURE, TIMEOUT, "
        "CANCELLED, ...), why, images, digests, substitutions, machine, time_out, created, started, ended (seconds "
        "since the epoch), seconds, log_bucket, log_entries, link, tags.",
    ),
    "build-log": Command(
        run_build_log,
        BuildLogOptions,
        epilog="JSON: one object a line, with time (seconds since the epoch; 0: not known) and text.",
    ),
    "build-cancel": Command(run_build_cancel, BuildCancelOptions),
}
