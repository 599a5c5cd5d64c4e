"""The buckets of the practice world as nodes see them, with their access policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from practice.node.pod_volumes import VolumeFiles
from practice.objects.api_error import Object
from practice.objects.resources import CSIDRIVERS
from practice.objects.storage import Storage

DRIVER = "gcsfuse.csi.storage.gke.io"
OWN, DATASETS, FAR, SHARED = "practice-a4-runs", "practice-datasets", "practice-archive-eu", "practice-shared-results"
"""Buckets: one in the cluster's region, two others of the project, and one of another project."""
_PODS = "principal://iam.googleapis.com/projects/1001/locations/global/workloadIdentityPools/practice.svc.id.goog"
_ALL_USERS = "allUsers"
_PUBLIC = ("cloud-samples-data",)
_LIST = "storage.objects.list"
_LISTING = ("storage.admin", "storage.objectAdmin", "storage.objectUser", "storage.objectViewer")
_INJECTED = "gke-gcsfuse/volumes"

Bindings = list[tuple[str, tuple[str, ...]]]  # role and members


class Buckets:
    """The practice buckets as nodes see them: access policies by name, and why a pod cannot mount one."""

    def __init__(self) -> None:
        self.volumes = VolumeFiles()
        mine = f"{_PODS}/subject/ns/default/sa/default"
        self.bindings: dict[str, Bindings] = {
            OWN: [("roles/storage.objectAdmin", (mine,)), ("roles/storage.legacyBucketReader", (mine,))],
            DATASETS: [],
            FAR: [],
            SHARED: [],
            **{name: [("roles/storage.objectViewer", (_ALL_USERS,))] for name in _PUBLIC},
        }

    def mount_error(self, pod: Object, storage: Storage) -> str:
        """The kubelet's error for a bucket of the pod that cannot be mounted; "" if all can."""
        meta, spec = pod["metadata"], pod["spec"]
        for volume in spec.get("volumes") or ():
            source = volume.get("csi") or {}
            if source.get("driver") != DRIVER:
                continue
            name = (source.get("volumeAttributes") or {}).get("bucketName", "")
            why = _missing_driver_error(storage) or self._bucket_error(
                name, meta["namespace"], spec.get("serviceAccountName", "")
            )
            if not why and (meta.get("annotations") or {}).get(_INJECTED) != "true":
                why = _format_rpc_error("FailedPrecondition", "failed to find the sidecar container in Pod spec")
            if why:
                return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {why}'
        return ""

    def _bucket_error(self, name: str, namespace: str, account: str) -> str:
        found = self.bindings.get(name)
        if found is None and name != "_":  # which mounts all that the account may see
            return _format_rpc_error("NotFound", f'failed to get GCS bucket "{name}": storage: bucket doesn\'t exist')
        if found is None or _can_list(found, namespace, account):
            return ""
        words = (
            f"googleapi: Error 403: Caller does not have {_LIST} access to the Google Cloud Storage bucket. "
            f"Permission '{_LIST}' denied on resource (or it may not exist)., forbidden"
        )
        return _format_rpc_error("PermissionDenied", f'failed to get GCS bucket "{name}": {words}')


def _missing_driver_error(storage: Storage) -> str:
    if storage.find(CSIDRIVERS, "", DRIVER) is not None:
        return ""
    missing = f"driver name {DRIVER} not found in the list of registered CSI drivers"
    return f"kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: {missing}"


def _format_rpc_error(code: str, message: str) -> str:
    return f"rpc error: code = {code} desc = {message}"


def _can_list(bindings: Iterable[tuple[str, Sequence[str]]], namespace: str, account: str) -> bool:
    ends = (f"/subject/ns/{namespace}/sa/{account}", f"/namespace/{namespace}")
    return any(
        member == _ALL_USERS or member.endswith(ends)
        for role, members in bindings
        if role.removeprefix("roles/") in _LISTING
        for member in members
    )
