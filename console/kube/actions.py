"""Requests about objects that are not watched: list, show, label, cordon, delete, and checks of permissions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import yaml

from console.decoding import DECODING_ERRORS
from console.errors import BadInput, NotFound, Refused, Unreadable
from console.kube.objects.node import CORDON_REASON_ANNOTATION
from console.kube.objects.unwatched_kinds import read_object
from console.kube.watched_kinds import KINDS, Kind, KindReader, W, reader_of

if TYPE_CHECKING:
    from console.kube.client import ApiDiscovery, Client
    from console.kube.objects.jobset import JobSet

_MERGE_PATCH_TYPE = "application/merge-patch+json"
_UNWATCHED_KINDS = ("secrets", "configmaps", "services", "persistentvolumeclaims", "persistentvolumes", "namespaces")
_CLUSTER_SCOPED_KINDS = frozenset({"namespaces", "persistentvolumes"})
_HIDDEN_VALUE = "(hidden)"


def _object_path(collection: str, name: str) -> str:
    return f"{collection}/{quote(name, safe='')}"


def pod_path(namespace: str, name: str, sub: str = "") -> str:
    return _object_path(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods", name) + (f"/{sub}" if sub else "")


async def is_allowed(
    client: Client, verb: str, resource: str, group: str, namespace: str, name: str, subresource: str
) -> bool:
    """Ask the API server whether this account may use a verb. Raises Unreadable, or as `Client.request`."""
    asked = {
        "verb": verb,
        "resource": resource,
        "group": group,
        "namespace": namespace,
        "name": name,
        "subresource": subresource,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
    }
    body = await client.request(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        action="check the permissions of the account",
        body=msgspec.json.encode(review),
    )
    try:
        return msgspec.json.decode(body, type=dict[str, Any])["status"]["allowed"] is True
    except (*DECODING_ERRORS, LookupError, TypeError) as error:
        raise Unreadable(f"The API server's answer about rights cannot be read: {error}.") from error


async def whoami(client: Client) -> str:
    """The account's name as the API server knows it; empty before Kubernetes 1.28, which has no SelfSubjectReview."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    try:
        body = await client.request(
            "POST", path, action="read the name of the account", body=msgspec.json.encode(review)
        )
        return str(msgspec.json.decode(body, type=dict[str, Any])["status"]["userInfo"]["username"] or "")
    except (Refused, *DECODING_ERRORS, LookupError, TypeError):
        return ""


async def set_node_labels(client: Client, node: str, labels: Mapping[str, str | None]) -> None:
    """Set labels of a node; a value of None removes the label."""
    await _patch_node(client, node, {"metadata": {"labels": labels}}, f"label node {node}")


async def cordon(client: Client, node: str, *, is_cordoned: bool, reason: str = "") -> None:
    """Mark a node unschedulable (`is_cordoned`) or schedulable; the reason is stored as an annotation with the mark."""
    patch = {
        "metadata": {"annotations": {CORDON_REASON_ANNOTATION: reason if is_cordoned and reason else None}},
        "spec": {"unschedulable": True if is_cordoned else None},
    }
    await _patch_node(client, node, patch, f"{'cordon' if is_cordoned else 'uncordon'} node {node}")


async def _patch_node(client: Client, node: str, patch: Mapping[str, Any], action: str) -> None:
    body = msgspec.json.encode(patch)
    await client.request(
        "PATCH", _object_path("/api/v1/nodes", node), action=action, body=body, content_type=_MERGE_PATCH_TYPE
    )


async def delete_pod(client: Client, namespace: str, name: str) -> None:
    """Delete a pod with its own termination grace period."""
    await client.request("DELETE", pod_path(namespace, name), action=f"delete pod {name}")


async def _object_path_by_kind(discovery: ApiDiscovery, typed_name: str, namespace: str, name: str) -> str:
    """The URL path of an object; `typed_name`: its kind. BadInput if unknown, NotFound if the cluster has none."""
    wanted = typed_name.lower()
    names = {wanted, f"{wanted}s", f"{wanted}es", f"{wanted.removesuffix('y')}ies"}
    kind = next((each for each in KINDS if each.plural in names), None)
    if kind is None:
        plural = next((each for each in _UNWATCHED_KINDS if each in names), None)
        if plural is None:
            raise BadInput(f"{typed_name} is not a kind that can be shown.")
        kind = Kind(plural, "", ("v1",), plural not in _CLUSTER_SCOPED_KINDS)
    version = await discovery.version(kind)
    if not version:
        raise NotFound(f"This cluster does not serve {kind.plural}.", status=404)
    return _object_path(kind.path(version, quote(namespace, safe="") if kind.namespaced else ""), name)


async def read_manifest(client: Client, discovery: ApiDiscovery, kind_name: str, namespace: str, name: str) -> str:
    """The live object as YAML, without managedFields and with the data of a Secret masked."""
    path = await _object_path_by_kind(discovery, kind_name, namespace, name)
    body = await client.request("GET", path, action=f"show {kind_name} {name}")
    data = read_object(body, dict[str, Any])
    metadata = data.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    if data.get("kind") == "Secret":
        for field in ("data", "stringData"):
            if isinstance(data.get(field), Mapping):
                data[field] = dict.fromkeys(data[field], _HIDDEN_VALUE)
        if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
            metadata["annotations"].pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)


async def read_jobset(client: Client, discovery: ApiDiscovery, namespace: str, name: str) -> JobSet:
    """The present JobSet from the API server. Raises NotFound if there is none."""
    path = await _object_path_by_kind(discovery, "jobsets", namespace, name)
    body = await client.request("GET", path, action=f"read JobSet {name}")
    found: JobSet = reader_of("jobsets").read_object(body, f"The JobSet {name}")
    return found


async def delete_jobset(client: Client, discovery: ApiDiscovery, namespace: str, name: str) -> None:
    """Delete a JobSet in the foreground: it goes after its Jobs and pods."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    path = await _object_path_by_kind(discovery, "jobsets", namespace, name)
    await client.request("DELETE", path, action=f"stop JobSet {name}", body=msgspec.json.encode(options))


async def list_objects(
    client: Client,
    path: str,
    schema: type[W],
    action: str,
    *,
    params: Mapping[str, str] | None = None,
    accept: str = "application/json",
) -> AsyncIterator[W]:
    """Yield the objects of a list and fetch each page when it is needed; Unreadable if an object cannot be decoded."""
    reader: KindReader[W, W] = KindReader(schema, lambda each: each)
    token = ""
    while True:
        asked = {**(params or {}), **({"continue": token} if token else {})}
        page = reader.read_page(await client.request("GET", path, action=f"list {action}", params=asked, accept=accept))
        for item in page.items:
            try:
                decoded = reader.decode(item)
            except Unreadable as error:
                raise Unreadable(f"The list of {action} cannot be read: {error.message}.") from error
            yield decoded
        token = page.continue_token
        if not token:
            return
