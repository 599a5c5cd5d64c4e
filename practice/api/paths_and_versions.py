"""The URL paths of all kinds and versions, and parsing of paths and queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from practice.objects.api_error import ApiError, Object, bad_request
from practice.objects.conversion import from_events_api, from_v1beta1, to_events_api, to_v1beta1
from practice.objects.resources import EVENTS, RESOURCES, Resource

ObjectConverter = Callable[[Object], Object]


def _same_object(obj: Object) -> Object:
    return obj


@dataclass(frozen=True, slots=True, eq=False)
class ServedKind:
    """One kind in one served version, with the conversion of its objects from and to storage."""

    resource: Resource
    group: str
    version: str
    from_storage: ObjectConverter = _same_object
    to_storage: ObjectConverter = _same_object

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def _index_served_kinds() -> dict[tuple[str, str, str], ServedKind]:
    served = {}
    for resource in RESOURCES:
        for version in resource.versions:
            one = ServedKind(resource, resource.group, version)
            if version == "v1beta1":
                one = ServedKind(resource, resource.group, version, to_v1beta1, from_v1beta1)
            served[resource.group, version, resource.plural] = one
    group = "events.k8s.io"
    served[group, "v1", "events"] = ServedKind(EVENTS, group, "v1", to_events_api, from_events_api)
    return served


SERVED = _index_served_kinds()  # (group, version, plural) -> how it is served


@dataclass(frozen=True, slots=True)
class ApiPath:
    """The parts of a path ``/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE``."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def served(self) -> ServedKind:
        """The served kind and version of the path. Raises ApiError 404 for an unknown path."""
        found = SERVED.get((self.group, self.version, self.plural))
        if found is None or (self.namespace and not found.resource.namespaced):
            raise no_such_path(self.group)
        return found


class NoSuchPathError(ApiError):
    """Raised as 404 for an unknown path; its body is plain text in groups that are not built in."""

    def __init__(self, group: str = "", *, is_known_group: bool = False) -> None:
        super().__init__(404, "NotFound", "the server could not find the requested resource")
        self.plain = not is_known_group
        self.group = group


def no_such_path(group: str | None = None) -> NoSuchPathError:
    """Return the 404 for a path in a group, or outside of all."""
    built_in = group is not None and any(not one.is_custom for one in RESOURCES if one.group == group)
    return NoSuchPathError(group or "", is_known_group=built_in)


def parse_path(path: str) -> ApiPath | None:
    """Parse a path below ``/api/v1`` or ``/apis/GROUP/VERSION``; None for others."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if not rest or not rest[0]:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        rest = [*rest[:2], "/".join(rest[2:])]
    name, subresource = ([*rest[1:], "", ""])[:2]
    return ApiPath(group, version, rest[0], namespace, name, subresource)


def parse_flag(query: Mapping[str, str], name: str) -> bool:
    """Read a boolean parameter of a query. Raises ApiError 400 for anything but true and false."""
    text = query.get(name, "")
    if text in ("", "0", "false", "False", "f"):
        return False
    if text in ("1", "true", "True", "t"):
        return True
    raise bad_request(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def parse_number(query: Mapping[str, str], name: str) -> int | None:
    """Read a number of a query, None when it is not given. Raises ApiError 400 for other texts."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def parse_resource_version(query: Mapping[str, str]) -> int:
    """Read the resourceVersion of a query, 0 for none. Raises ApiError 400 when it is no number."""
    text = query.get("resourceVersion", "")
    if text and not text.isdecimal():
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        if query.get("watch"):
            raise ApiError(500, "", why)
        raise bad_request(f"invalid resource version: {why}")
    return int(text or 0)


def parse_dry_run(query: Mapping[str, str]) -> bool:
    """Whether dryRun is All, so that nothing is stored; it may be absent. Raises ApiError 422 for another value."""
    text = query.get("dryRun", "")
    if text not in ("", "All"):
        message = (
            f'PatchOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: "{text}": supported values: "All"'
        )
        raise ApiError(422, "Invalid", message)
    return bool(text)
