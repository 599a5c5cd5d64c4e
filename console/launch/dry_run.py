"""A server dry run of objects: the API server and every admission webhook judge each, and keep none.

Helm's own server dry run does not send a new release's objects to the server. A refusal is traced to the form's field
as far as its words tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from console.errors import Conflict, NotAllowed, NotFound, Unreadable
from console.kube.safe_yaml import load_yaml
from console.launch.choices import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.kube.client import Client
    from console.launch.recipes import Field


Object = dict[str, Any]
_QUEUE_VERSIONS = ("v1beta2", "v1beta1")
_TRIAL = {"dryRun": "All", "fieldValidation": "Strict"}


async def server_dry_run(client: Client, namespace: str, manifests: Sequence[str]) -> None:
    """Let the server judge YAML objects as new ones of a namespace; raises what it says of the first it refuses."""
    import yaml

    for manifest in manifests:
        try:
            made = load_yaml(manifest)
        except yaml.YAMLError as error:
            raise Unreadable(f"A rendered object is not YAML: {error}.") from error
        try:
            await _create(client, namespace, made)
        except Conflict:
            # A volume or claim that others use already is used, not made.
            if not _is_kept(made):
                raise
        if made["kind"] == "JobSet":
            await _try_jobs(client, namespace, made)


async def local_queues(client: Client, namespace: str) -> frozenset[str] | None:
    """Names of a namespace's LocalQueues; None where they cannot be known: no Kueue, or no right to list them."""
    for version in _QUEUE_VERSIONS:
        try:
            body = await client.request(
                "GET",
                f"/apis/kueue.x-k8s.io/{version}/namespaces/{quote(namespace, safe='')}/localqueues",
                doing="list the LocalQueues",
            )
        except NotFound:
            continue
        except NotAllowed:
            return None
        return frozenset(name for name, _ in names(body))
    return None


async def _try_jobs(client: Client, namespace: str, jobset: Object) -> None:
    """The Jobs a JobSet makes: its webhook does not look into the pods' templates, and what is wrong there would show
    as an event after the launch only. An account that may make JobSets but no Jobs is not stopped by this.
    """
    for group in jobset["spec"]["replicatedJobs"]:
        name = f"{jobset['metadata']['name']}-{group['name']}-0"
        metadata = {**group["template"].get("metadata", {}), "name": name, "namespace": namespace}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": group["template"]["spec"]}
        try:
            await _create(client, namespace, job)
        except NotAllowed:
            return


async def _create(client: Client, namespace: str, made: Object) -> None:
    kind, name, version = made["kind"], made["metadata"]["name"], made["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = "" if kind == "PersistentVolume" else f"/namespaces/{quote(namespace, safe='')}"
    await client.request(
        "POST",
        f"{root}{place}/{kind.lower()}s",
        doing=f"create {kind} {name}",
        params=_TRIAL,
        body=msgspec.json.encode(made),
    )


def _is_kept(made: Object) -> bool:
    return (made["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep"


_MEANT = (
    (r"metadata\.name\b", "name"),
    (r"\bLocalQueue\b|queue-name", "queue"),
    (r"\bimage\b.*(Invalid|Required)|\.image:", "image"),
    (r"[pP]riority ?[cC]lass|priority-class", "priorityClass"),
    (r"service ?[aA]ccount", "serviceAccount"),
    (r"podset-(preferred|required)-topology|topology", "topology.level"),
    (r"nodeSelector", "placement.nodeSelector"),
    (r"tolerations", "placement.tolerations"),
    (r"imagePullSecrets", "imagePullSecrets"),
    (r"secretKeyRef", "secrets"),
    (r"\.env\b|\benv\[", "env"),
    (r"maxRestarts", "restarts"),
    (r"ttlSecondsAfterFinished", "ttl"),
    (r"capabilities", "security.capabilities"),
    (r"rivileged", "security.privileged"),
    (r"hostNetwork|hostPort", "network.hostNetwork"),
    (r"persistentvolumeclaims?|PersistentVolumeClaim", "storage.pvc"),
    (r"\.resources\.|exceeded quota", "gpus"),
)
"""What a refusal of the server says, and the field that is behind it."""


def field_meant(message: str, fields: Sequence[Field]) -> str:
    """Path of the field, "name" for the release's name; empty if the message speaks of none."""
    known = {field.path for field in fields} | {"name"}
    named = [field.path for field in fields if _speaks_of(message, field)]
    told = [path for pattern, path in _MEANT if path in known and re.search(pattern, message)]
    return next(iter(named or told), "")


def _speaks_of(message: str, field: Field) -> bool:
    path, title = re.escape(field.path), re.escape(field.title)
    return re.search(rf"(^|[\s/]){path}\b[:.]|(^|\. ){title} (must|may|holds)", message) is not None
