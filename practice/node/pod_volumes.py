"""Files of pods, kept in memory: in buckets and claims, which outlive the pods, and in the pods themselves.

They are written below `.root` in the pod's folder before each command, where shells find them.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from practice.node.disks import list_disks

if TYPE_CHECKING:
    from practice.programs.steps import ProgramContext

_SHARED = {"fuse.gcsfuse": "bucket", "nfs4": "claim", "lustre": "claim"}
_OF_THIS_MACHINE = frozenset({"dev", "etc", "proc", "sys", "usr"})  # where a pod's shell sees this machine's files


@dataclass(slots=True)
class StoredFile:
    """The content of a file in a volume, or of an object in a bucket."""

    content: bytes
    kind: str
    generation: int
    updated: float


class VolumeFiles:
    """The files of each bucket, claim and pod, by their path in it."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, ...], dict[str, StoredFile]] = {}
        self._generations = itertools.count(1_700_000_000_000_001)

    def files(self, *volume: str) -> dict[str, StoredFile]:
        return self._files.setdefault(volume, {})

    def put(self, volume: tuple[str, ...], path: str, content: bytes, moment: float, kind: str = "") -> StoredFile:
        made = StoredFile(content, kind or "application/octet-stream", next(self._generations), moment)
        self.files(*volume)[path] = made
        return made


def write_file(context: ProgramContext, path: str, content: bytes) -> None:
    """Write a file as the pod's program would: into the volume that is mounted at its path."""
    mounts = _mount_points(context)
    where = max((each for each in mounts if path.startswith(f"{each.rstrip('/')}/")), key=len)
    context.volumes.put(mounts[where], path[len(where) :].lstrip("/"), content, context.now())


def _mount_points(context: ProgramContext) -> dict[str, tuple[str, ...]]:
    """Return the volume at each mount point; all but buckets and claims end with the pod."""
    meta = context.pod.get("metadata") or {}
    found = {}
    for name, kind, _, _, where in list_disks(context):
        of = () if kind == "fuse.gcsfuse" else (meta.get("namespace", ""),)
        found[where] = (_SHARED[kind], *of, name) if kind in _SHARED else ("pod", meta.get("uid", ""), where)
    return found


def write_files(folder: Path, context: ProgramContext, known: dict[str, int]) -> None:
    """Write the pod's files below ``folder/.root``; `known`: generations of the files already there."""
    for where, volume in _mount_points(context).items():
        if volume[0] != "pod":
            (folder / f".root{where}").mkdir(parents=True, exist_ok=True)
        for name, file in context.volumes.files(*volume).items():
            path = f"{where.rstrip('/')}/{name}"
            if known.get(path) == file.generation or os.path.normpath(path) != path or "\0" in path:
                continue
            known[path], target = file.generation, folder / f".root{path}"
            with suppress(OSError):  # names of objects can be longer, or below another object
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.content)
                os.utime(target, (file.updated, file.updated))


def find_on_machine(folder: Path, path: str) -> str:
    """Return where a path of the pod lies on this machine: below ``folder/.root`` if it exists there."""
    whole = os.path.normpath(path)
    top = whole.split("/")[1] if path.startswith("/") else ""
    there = folder / f".root{whole}"
    return str(there) if top and top not in _OF_THIS_MACHINE and "\0" not in path and there.exists() else path
