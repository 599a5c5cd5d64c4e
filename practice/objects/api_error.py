"""API errors: exceptions with their Status object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from practice.objects.resources import Resource

Object = dict[str, Any]


@dataclass
class ApiError(Exception):
    """Raised for a refused request: HTTP code, machine-readable reason and sentence of a Status object."""

    status: int
    reason: str
    message: str
    details: Object = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def to_status(self) -> Object:
        """Return the Status object sent to the client."""
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            body["details"] = self.details
        body["code"] = self.status
        return body


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One invalid field: path, message, and reason (FieldValueInvalid ...)."""

    field: str
    message: str
    reason: str


def _status_details(resource: Resource, name: str) -> Object:
    details: Object = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _status_details(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    text = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _status_details(resource, name))


def conflict_error(resource: Resource, name: str, why: str = "") -> ApiError:
    """The error 409 for an outdated resourceVersion (the text if `why` is empty) or a failed precondition."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    text = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", text, _status_details(resource, name))


def invalid_object(resource: Resource, name: str, causes: list[FieldCause]) -> ApiError:
    """The error 422 with all causes joined in one message."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    sentences = [f"{cause.field}: {cause.message}" for cause in causes]
    joined = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    details: Object = {"name": name, "group": resource.group, "kind": resource.kind}
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    details = {key: value for key, value in details.items() if value}
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {joined}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def forbidden_request(resource: Resource, name: str, why: str) -> ApiError:
    """The error 403 for a request that is understood and refused."""
    text = f'{resource.qualified} "{name}" is forbidden: {why}' if name else f"{resource.qualified} is forbidden: {why}"
    return ApiError(403, "Forbidden", text, _status_details(resource, name))


def expired_version(version: int, oldest: int) -> ApiError:
    """The error 410 for a resourceVersion whose later events were dropped."""
    return ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")
