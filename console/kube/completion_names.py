"""Names of objects for command-line completion, by at most one request to the API server."""

from __future__ import annotations

import re
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from console.kube.kubeconfig import load
from console.kube.login import Login
from console.kube.objects.meta import ObjectSchema, labels_of
from console.kube.objects.unwatched_kinds import read_object
from console.kube.port_forward import JOBSET_API_PATH
from console.kube.raw_connection import open_connection
from console.kube.watched_kinds import ListSchema, reader_of

NODE_POOL_LABEL = "cloud.google.com/gke-nodepool"
MAX_NAMES = 500  # objects of a kind that are asked for
_LIST_PATHS = {
    "jobs": (f"{JOBSET_API_PATH}/namespaces/{{}}/jobsets",),
    "pods": ("/api/v1/namespaces/{}/pods",),
    "queues": tuple(f"/apis/kueue.x-k8s.io/{each}/namespaces/{{}}/localqueues" for each in ("v1beta2", "v1beta1")),
    "nodes": ("/api/v1/nodes",),
    "pools": ("/api/v1/nodes",),
    "namespaces": ("/api/v1/namespaces",),
}
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"  # no whole pods
_VALID_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}")  # what Kubernetes allows; the shell gets nothing else


async def object_names(kubeconfig: Path | None, context: str, namespace: str, kind: str, job: str = "") -> list[str]:
    """Names that complete a word: objects of a kind, "ranks" (pod indexes of `job`), "contexts"; empty if refused."""
    config = load(kubeconfig)
    if kind == "contexts":
        return [each.name for each in config.context_names(context) if each.name.isprintable()]
    target = config.target(context)
    login = Login(target)
    where = quote(namespace or target.namespace, safe="")
    async with open_connection(login, "complete the command") as connection:
        if kind == "ranks":
            (answer,) = await connection.get(f"{JOBSET_API_PATH}/namespaces/{where}/jobsets/{quote(job, safe='')}")
        else:
            asked = [f"{path.format(where)}?limit={MAX_NAMES}" for path in _LIST_PATHS[kind]]
            answers = await connection.get(*asked, accept=_METADATA_ONLY)
            answer = next((each for each in answers if each.status == HTTPStatus.OK), answers[0])
    if answer.status != HTTPStatus.OK:
        return []
    if kind == "ranks":
        places = reader_of("jobsets").read_object(answer.body, f"Job {job}").places
        return [str(number) for number, _ in zip(range(MAX_NAMES), places, strict=False)]
    listed = [each.metadata for each in read_object(answer.body, ListSchema[ObjectSchema]).items or ()]
    names = {labels_of(each).get(NODE_POOL_LABEL, "") if kind == "pools" else each.name or "" for each in listed}
    return sorted(filter(_VALID_NAME.fullmatch, names))
