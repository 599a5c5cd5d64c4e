"""`a4 ls` of a rank, and `a4 rm`: folders of containers, without a shell."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from console.errors import BadInput
from console.models.copying import EntryKind, RemotePlace, remote_place
from screens import wording
from screens.cli.asking import agreed
from screens.cli.connect import connected
from screens.cli.output import say, say_json, warn
from screens.cli.ranks import KINDS, container_of, index_json, rank_named, running_pod, where

if TYPE_CHECKING:
    from console.files.copies import ContainerCopies
    from console.models.ranks import Rank
    from console.session import Session
    from screens.cli.options import Options


async def _there(session: Session, place: RemotePlace, options: Options) -> tuple[Rank, ContainerCopies]:
    if place.everywhere:
        raise BadInput("One pod at a time.", "a4 exec JOB --all -- ls PATH lists a folder of them all.")
    fleet = await session.listed(*KINDS)
    rank = rank_named(fleet, session.namespace, place.job, place.rank)
    pod = running_pod(rank, place.job, "its files are gone")
    container = container_of(pod, options.container)
    return rank, session.copies.of(pod.namespace, pod.name, container=container, where=where(rank, place.job))


async def list_folder(place: RemotePlace, options: Options) -> int:
    """What is in a folder of a rank, and how full its disk is; 1 if something of it could not be seen."""
    async with connected(options, KINDS) as session:
        rank, files = await _there(session, place, options)
        found = await files.listed(place.path)
    if options.json:
        told = asdict(found)
        say_json({"kind": "files", **index_json(rank), "place": told.pop("path"), "items": told.pop("entries"), **told})
        return int(bool(found.complaints))
    for each in found.entries:
        size = wording.size(each.size) if each.kind is EntryKind.FILE else ""
        end = {EntryKind.FOLDER: "/", EntryKind.LINK: f" → {each.target}"}.get(each.kind, "")
        say(f"{size:>10}  {wording.since(each.modified):>7}  {wording.one_line(each.path + end)}")
    if found.total is not None and found.free is not None:
        say(f"{found.path}: {wording.size(found.free)} free of {wording.size(found.total)}")
    for words in found.complaints:
        warn(wording.one_line(words))
    return int(bool(found.complaints))


async def delete(options: Options) -> int:
    """Ask, then delete a file or folder of a rank; 1 if the answer was no."""
    place = remote_place(options.place)
    if place is None:
        raise BadInput(f"{options.place} is in no pod.", "Write JOB:POD:PATH or pod/NAME:PATH.")
    async with connected(options, KINDS) as session:
        session.changing(f"delete {place.path}")
        rank, files = await _there(session, place, options)
        lines = [f"It goes from {where(rank, place.job)} with all that is in it, and cannot be brought back.",
                 "On a shared file system it goes for every pod."]  # fmt: skip
        if not (options.yes or await agreed(lines, f"Delete {place.path}?", "Add --yes.")):
            return 1
        await files.delete(place.path)
    if options.json:
        say_json({"kind": "deleted", **index_json(rank), "place": place.path})
    else:
        say(f"{place.path} is deleted.")
    return 0
