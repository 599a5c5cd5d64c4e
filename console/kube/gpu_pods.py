"""Selects the pods that may hold GPUs: nine of ten pods of a large cluster belong to DaemonSets, which request none."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from console.decoding import DECODING_ERRORS
from console.errors import ConsoleError
from console.kube.objects.meta import ApiSchema, ObjectSchema, controller_of, labels_of
from console.kube.objects.pod import PodTemplateSchema, gpus_of
from console.kube.watched_kinds import ListSchema

if TYPE_CHECKING:
    from console.kube.client import Client

S = TypeVar("S")
HOLDS_ITS_NODE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_REVISION_LABEL = "controller-revision-hash"
_MAX_NAMED_REVISIONS = 200  # that are named to the API server: pods of others are listed too


class _SpecSchema(ApiSchema):
    template: PodTemplateSchema | None = None


class _DataSchema(ApiSchema):
    spec: _SpecSchema | None = None


class _RevisionSchema(ObjectSchema):
    data: _DataSchema | None = None

    @property
    def requests_no_gpu(self) -> bool:
        """Whether the DaemonSet's pod template of this revision requests no GPU."""
        template = self.data.spec.template if self.data and self.data.spec else None
        spec = template.spec if template else None
        return controller_of(self.metadata).kind == "DaemonSet" and spec is not None and not gpus_of(spec)


async def gpu_pod_selectors(client: Client, fields: str = "") -> Mapping[str, str]:
    """Field and label selectors for a list of the pods that may hold GPUs; no label selector if labels are unsure.

    The revision label is trusted only in the DaemonSets' namespaces, since anybody may set it elsewhere.
    """
    query = {"fieldSelector": fields} if fields else {}
    with suppress(ConsoleError, *DECODING_ERRORS):
        revisions = await _list_items(client, "/apis/apps/v1/controllerrevisions", _RevisionSchema, {"limit": "500"})
        idle = {labels_of(each.metadata).get(_REVISION_LABEL): each for each in revisions if each.requests_no_gpu}
        for each in revisions:
            if not each.requests_no_gpu:
                idle.pop(labels_of(each.metadata).get(_REVISION_LABEL), None)
        names = ",".join(sorted(filter(None, idle))[:_MAX_NAMED_REVISIONS])
        theirs = {each.metadata.namespace for each in revisions if each.requests_no_gpu}
        elsewhere = ",".join(f"metadata.namespace!={each}" for each in sorted(filter(None, theirs)))
        claims = {"labelSelector": f"{_REVISION_LABEL} in ({names})", "fieldSelector": elsewhere, "limit": "1"}
        if names and not await _list_items(client, "/api/v1/pods", ObjectSchema, claims):
            query["labelSelector"] = f"{_REVISION_LABEL} notin ({names})"
    return query


async def _list_items(client: Client, path: str, schema: type[S], params: Mapping[str, str]) -> list[S]:
    body = await client.request("GET", path, action="list pods", params=params)
    found: ListSchema[S] = msgspec.json.decode(body, type=ListSchema[schema])  # type: ignore[valid-type]
    return found.items or []
