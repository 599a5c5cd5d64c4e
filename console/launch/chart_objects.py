"""Objects of the chart, beyond those a release knows of: found by their labels, tried with a change, removed."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import yaml

from console.errors import Conflict, NotAllowed, NotFound, Refused, Unreadable
from console.kube.actions import list_objects
from console.kube.objects.meta import ObjectWire, annotations_of, labels_of
from console.kube.safe_yaml import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from console.kube.client import Client
    from console.kube.objects.meta import Meta

CHART_LABEL = {"labelSelector": "app.kubernetes.io/name=a4,app.kubernetes.io/managed-by=Helm"}
_APPLY = "application/apply-patch+yaml"
_KEEP = ("helm.sh/resource-policy", "keep")
_ROOTS = {
    "JobSet": ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets", True),
    "Service": ("/api/v1", "services", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Secret": ("/api/v1", "secrets", True),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "PersistentVolume": ("/api/v1", "persistentvolumes", False),
}
"""Kinds that the chart makes, in the order in which they can be deleted."""
_REMOVABLE = {**_ROOTS, "Pod": ("/api/v1", "pods", True)}


@dataclass(frozen=True, slots=True)
class ChartObject:
    """One object that carries the chart's labels."""

    kind: str
    namespace: str
    name: str
    release: str
    release_namespace: str
    kept: bool  # it outlives its release on purpose


def _path(kind: str, namespace: str, name: str = "") -> str:
    root, plural, namespaced = _REMOVABLE[kind]
    place = f"/namespaces/{quote(namespace, safe='')}" if namespaced and namespace else ""
    return f"{root}{place}/{plural}" + (f"/{quote(name, safe='')}" if name else "")


async def list_chart_objects(client: Client, namespace: str) -> tuple[tuple[ChartObject, ...], tuple[str, ...]]:
    """Objects with the chart's labels in a namespace (empty: in all), and the kinds that may not be listed."""
    found: list[ChartObject] = []
    hidden: list[str] = []
    for kind in _ROOTS:
        try:
            listed = list_objects(client, _path(kind, namespace), ObjectWire, f"{kind}s", params=CHART_LABEL)
            found += [_ours(kind, item.metadata) async for item in listed]
        except NotFound:
            continue  # the cluster has no such kind
        except NotAllowed:
            hidden.append(kind)
    if namespace:  # volumes belong to no namespace, and are listed for all
        found = [each for each in found if each.release_namespace == namespace]
    return tuple(found), tuple(hidden)


def _ours(kind: str, meta: Meta) -> ChartObject:
    annotations, labels = annotations_of(meta), labels_of(meta)
    namespace = meta.namespace or ""
    return ChartObject(
        kind,
        namespace,
        meta.name or "",
        annotations.get("meta.helm.sh/release-name") or labels.get("app.kubernetes.io/instance", ""),
        annotations.get("meta.helm.sh/release-namespace") or namespace,
        annotations.get(_KEEP[0]) == _KEEP[1],
    )


async def require_own(client: Client, namespace: str, release: str, objects: Iterable[str]) -> None:
    """Conflict if one of these ("Kind name") exists and is not that release's, by what is written on it there."""
    found, _ = await list_chart_objects(client, namespace)
    own = {
        f"{each.kind} {each.name}" for each in found if (each.release_namespace, each.release) == (namespace, release)
    }
    for each in objects:
        kind, _, name = each.partition(" ")
        if each in own:
            continue
        try:
            await client.request("GET", _path(kind, namespace, name), doing=f"read {each}")
        except NotFound:
            continue
        raise Conflict(
            f"The release {release} in {namespace} names {each}, which is not its own. Nothing was removed.",
            f"If it is not in use, delete its Secrets (kubectl delete secret -n {namespace} -l owner=helm,"
            f"name={release}).",
        )


async def remove(client: Client, kind: str, namespace: str, name: str) -> None:
    """Ask an object to go; one that is gone already is no failure."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    body = msgspec.json.encode(options if kind == "JobSet" else {**options, "propagationPolicy": "Background"})
    try:
        await client.request("DELETE", _path(kind, namespace, name), doing=f"remove {kind} {name}", body=body)
    except NotFound:
        return


async def dry_run_change(client: Client, namespace: str, manifest: str) -> str:
    """Let the server judge an object as Helm would apply it, keeping nothing: why not, or empty when it may be."""
    made = _loaded(manifest)
    kind, name = str(made["kind"]), str(made["metadata"]["name"])
    if kind not in _ROOTS:
        return ""
    path = _path(kind, namespace, name)
    try:
        await client.request(
            "PATCH",
            path,
            doing=f"change {kind} {name}",
            params={"dryRun": "All", "force": "true", "fieldManager": await _manager(client, path, kind, name)},
            body=msgspec.json.encode(made),
            content=_APPLY,
        )
    except Refused as error:
        return _refusal(error.message)
    return ""


def _refusal(message: str) -> str:
    """The server's words, shorter, and in a person's words where they are about what one meets most."""
    for pattern, words in _FIXED:
        if re.search(pattern, message):
            return words
    return re.sub(r"Invalid value: [\[{].*[\]}]: ", "", re.sub(r"\s+", " ", message))[:400]


PODS_FIXED = "The pods of a JobSet cannot be changed once it has left its queue."
_FIXED = (
    (r"spec\.replicatedJobs: .*immutable", PODS_FIXED),
    (r"spec\.failurePolicy: .*immutable", "How often a JobSet may restart is fixed when it is made."),
    (r"kueue\.x-k8s\.io/queue-name\]: .*immutable", "A job that has left its queue cannot go to another."),
    (r"kueue\.x-k8s\.io/priority-class\]", "The priority of a job cannot be changed once it has left its queue."),
    (r"max-exec-time-seconds\]: .*immutable", "The time a job may run cannot be changed once it has left its queue."),
)


async def _manager(client: Client, path: str, kind: str, name: str) -> str:
    """Who applied the object: only for the same name are fields that are left out taken away."""
    try:
        body = await client.request("GET", path, doing=f"read {kind} {name}")
        managed: list[dict[str, Any]] = msgspec.json.decode(body, type=dict[str, Any])["metadata"]["managedFields"]
    except (NotFound, KeyError):
        return "helm"
    return next((str(each["manager"]) for each in managed if each.get("operation") == "Apply"), "helm")


def _loaded(manifest: str) -> dict[str, Any]:
    try:
        return dict(load_yaml(manifest))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise Unreadable(f"An object of the release is not YAML: {error}.") from error


@contextmanager
def _as_made() -> Iterator[None]:
    """Whoever may write a Secret can write down a release: an object of it that this chart never makes is said so."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(
            "The release holds a JobSet that is not as this chart makes them.",
            "Look at it: helm get manifest NAME. If it is not in use, delete the Secrets of the release.",
        ) from error


@_as_made()
def pods_of(manifest: str) -> Any:
    """The part of a JobSet's YAML that its pods are made from; None for other kinds."""
    made = _loaded(manifest)
    return made["spec"]["replicatedJobs"] if made.get("kind") == "JobSet" else None


@_as_made()
def data_of(manifests: Iterable[str]) -> tuple[str, ...]:
    """Where the pods of these objects write what outlives them: buckets, shares, claims and folders of nodes."""
    found: dict[str, None] = {}
    for manifest in manifests:
        made = _loaded(manifest)
        if made.get("kind") != "JobSet":
            continue
        for group in made["spec"]["replicatedJobs"]:
            pod = group["template"]["spec"]["template"]["spec"]
            mounted = [each for container in pod["containers"] for each in container.get("volumeMounts") or ()]
            mounts = {each["name"]: each["mountPath"] for each in mounted}
            for volume in pod.get("volumes") or ():
                words = _place(volume)
                if words:
                    found[f"{words}, mounted at {mounts[volume['name']]}" if volume["name"] in mounts else words] = None
    return tuple(found)


def _place(volume: dict[str, Any]) -> str:
    if "persistentVolumeClaim" in volume:
        return f"PersistentVolumeClaim {volume['persistentVolumeClaim']['claimName']} and its data"
    if "nfs" in volume:
        return f"NFS share {volume['nfs']['server']}:{volume['nfs']['path']}"
    if "hostPath" in volume:
        return f"folder {volume['hostPath']['path']} of its nodes"
    bucket = ((volume.get("csi") or {}).get("volumeAttributes") or {}).get("bucketName")
    return f"bucket gs://{bucket}" if bucket else ""
