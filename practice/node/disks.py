"""The file systems of a practice pod, from its volumes; usage figures are invented."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.controllers.quantity import parse_milli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from practice.programs.steps import ProgramContext

_KIB, _GIB = 1024, 1024 * 1024


def list_disks(context: ProgramContext) -> Iterator[tuple[str, str, int, int, str]]:
    """Yield each file system: (name, type, KiB, KiB used, mount point)."""
    yield "overlay", "overlay", 11_000 * _GIB, 38 * _GIB, "/"
    spec = context.pod.get("spec") or {}
    volumes = {each["name"]: each for each in spec.get("volumes") or ()}
    for mount in (spec.get("containers") or [{}])[0].get("volumeMounts") or ():
        volume, where = volumes.get(mount["name"], {}), mount["mountPath"]
        if "emptyDir" in volume:
            limit = (volume["emptyDir"] or {}).get("sizeLimit")
            memory = (volume["emptyDir"] or {}).get("medium") == "Memory"
            kib = parse_milli(str(limit)) // 1000 // _KIB if limit else 11_000 * _GIB
            yield "tmpfs" if memory else "/dev/md0", "tmpfs" if memory else "ext4", kib, 0, where
        elif "csi" in volume:
            bucket = (volume["csi"].get("volumeAttributes") or {}).get("bucketName", "bucket")
            yield bucket, "fuse.gcsfuse", 2**50 // _KIB, 0, where
        elif "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            yield claim, "lustre" if "lustre" in claim else "nfs4", 2_560 * _GIB, 310 * _GIB, where
        elif "hostPath" in volume:
            yield "/dev/md0", "ext4", 12_000 * _GIB, 21 * _GIB, where


def format_mounts(context: ProgramContext) -> str:
    return "".join(f"{name} {where} {kind} rw,relatime 0 0\n" for name, kind, _, _, where in list_disks(context))
