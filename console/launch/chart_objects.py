"""Objects of the chart in the cluster, found by their labels, with the release that each belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.errors import Conflict, NotAllowed, NotFound
from console.kube.actions import list_objects
from console.kube.objects.meta import ObjectSchema, annotations_of, labels_of
from console.launch.helm import CHART_KINDS, HELM_POLICY, object_path

if TYPE_CHECKING:
    from console.kube.client import Client


CHART_LABEL = {"labelSelector": "app.kubernetes.io/name=a4,app.kubernetes.io/managed-by=Helm"}


@dataclass(frozen=True, slots=True)
class ChartObject:
    kind: str
    namespace: str
    name: str
    release: str
    release_namespace: str
    is_kept: bool  # it outlives its release on purpose


async def list_chart_objects(client: Client, namespace: str) -> tuple[tuple[ChartObject, ...], tuple[str, ...]]:
    """Objects with the chart's labels (an empty namespace means all), and the kinds that may not be listed."""
    found: list[ChartObject] = []
    hidden: list[str] = []
    for kind in CHART_KINDS:
        try:
            listed = list_objects(client, object_path(kind, namespace), ObjectSchema, f"{kind}s", params=CHART_LABEL)
            async for item in listed:
                meta, annotations = item.metadata, annotations_of(item.metadata)
                release = annotations.get("meta.helm.sh/release-name")
                found.append(
                    ChartObject(
                        kind,
                        meta.namespace or "",
                        meta.name or "",
                        release or labels_of(meta).get("app.kubernetes.io/instance", ""),
                        annotations.get("meta.helm.sh/release-namespace") or meta.namespace or "",
                        annotations.get(HELM_POLICY) == "keep",
                    )
                )
        except NotFound:
            continue  # the cluster has no such kind
        except NotAllowed:
            hidden.append(kind)
    if namespace:  # volumes belong to no namespace, and are listed for all
        found = [each for each in found if each.release_namespace == namespace]
    return tuple(found), tuple(hidden)


async def require_own_objects(client: Client, namespace: str, release: str, objects: Iterable[str]) -> None:
    """Raise Conflict if one of these objects ("Kind name") exists and its labels name another release."""
    found, _ = await list_chart_objects(client, namespace)
    mine = (each for each in found if (each.release_namespace, each.release) == (namespace, release))
    own = {f"{each.kind} {each.name}" for each in mine}
    for each in objects:
        kind, _, name = each.partition(" ")
        if each in own:
            continue
        try:
            await client.request("GET", object_path(kind, namespace, name), action=f"read {each}")
        except NotFound:
            continue
        raise Conflict(
            f"The release {release} in {namespace} names {each}, which is not its own. Nothing was removed.",
            f"If it is not in use, delete its Secrets (kubectl delete secret -n {namespace} -l owner=helm,"
            f"name={release}).",
        )
