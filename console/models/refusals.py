"""Which field of a form a refusal of the API server is about, as far as its words tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.launch import Field

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
