"""The shared storage of the scene: an NFS server and a Managed Lustre instance, and the claims that recipes mount."""

from __future__ import annotations

from collections.abc import Iterator

from practice.objects.api_error import Object
from practice.objects.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, Resource

_NFS: Object = {"nfs": {"server": "10.128.15.200", "path": "/share"}}
_LUSTRE: Object = {
    "csi": {
        "driver": "lustre.csi.storage.gke.io",
        "volumeHandle": "practice/us-central1-a/lustre",
        "volumeAttributes": {"ip": "10.128.15.210", "filesystem": "lustre"},
    }
}
_SHARES = (
    ("default", "nfs-pvc", "2560Gi", _NFS),
    ("default", "lustre-pvc", "18000Gi", _LUSTRE),
    ("team-b", "nfs-pvc", "2560Gi", _NFS),
)


def volume_objects() -> Iterator[tuple[Resource, Object]]:
    """Yield the volumes and their claims, not yet bound."""
    for namespace, claim, size, source in _SHARES:
        name = f"{namespace}-{claim}"
        spec: Object = {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": size},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
        }
        yield (
            PERSISTENTVOLUMES,
            {
                "metadata": {"name": name},
                "spec": {**spec, **source, "claimRef": {"namespace": namespace, "name": claim}},
            },
        )
        asked: Object = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": "",
            "volumeName": name,
        }
        yield PERSISTENTVOLUMECLAIMS, {"metadata": {"name": claim, "namespace": namespace}, "spec": asked}
