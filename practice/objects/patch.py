"""The types of PATCH, by content type."""

from __future__ import annotations

from typing import Any

from practice.objects.api_error import ApiError, Object, bad_request
from practice.objects.json_patch import json_patch, merge_patch
from practice.objects.resources import Resource
from practice.objects.strategic_patch import strategic_merge

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def check_media_type(media_type: str, resource: Resource) -> None:
    """Raise ApiError 415 for a patch type that this kind does not support."""
    accepted = [JSON, MERGE, APPLY] if resource.is_custom else [JSON, MERGE, STRATEGIC, APPLY]
    if media_type not in accepted:
        text = "the body of the request was in an unknown format - accepted media types include: "
        raise ApiError(415, "UnsupportedMediaType", text + ", ".join(accepted))


def apply_patch(media_type: str, target: Object, body: Any, resource: Resource) -> Object:
    """Return a patched copy of an object; server-side apply is handled elsewhere."""
    if media_type == JSON:
        return json_patch(target, body)
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: the patch is no object")
    patched = merge_patch(target, body) if media_type == MERGE else strategic_merge(target, body)
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise bad_request(f"the patch leaves no readable {resource.kind}")
    return patched
