"""Parses request bodies (JSON or YAML) to objects or patches; errors are worded as the API server's."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from practice.api.paths_and_versions import ApiPath, ServedKind
from practice.api.protobuf import MEDIA, decode_protobuf
from practice.objects.api_error import ApiError, Object, bad_request

_JSON = "application/json"
_YAML = ("application/yaml", "application/apply-patch+yaml")


def media_type(content_type: str) -> str:
    """Return a Content-Type without its parameters; JSON when there is none."""
    return content_type.split(";")[0].strip().lower() or _JSON


def decode_body(body: bytes, content_type: str) -> Any:
    """Parse JSON, or YAML if the type is YAML. Raises ApiError 400 or 415."""
    media = media_type(content_type)
    if media == MEDIA:
        return decode_protobuf(body)
    if media not in _YAML and not media.endswith("json"):
        text = "the body of the request was in an unknown format - accepted media types include: "
        raise ApiError(415, "UnsupportedMediaType", f"{text}application/json, application/yaml, {MEDIA}")
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        if media not in _YAML:
            text = "the object provided is unrecognized: couldn't get version/kind; json parse error: "
            raise bad_request(f"{text}{error} ({body[:8].decode(errors='replace')})") from error
    try:
        return yaml.load(body, Loader=_PlainLoader)
    except yaml.YAMLError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error


class _PlainLoader(yaml.SafeLoader):
    """A YAML loader that keeps timestamps as text, as JSON does."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def check_object(body: Any, served: ServedKind, target: ApiPath) -> Object:
    """Check that a body is an object of this kind, version, namespace and name, and return it."""
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type Object)")
    _check_kind(body, served)
    meta = body.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise bad_request("the object provided has no readable metadata")
    if served.resource.namespaced:
        given = meta.setdefault("namespace", target.namespace)
        if given != target.namespace:
            text = f"the namespace of the provided object does not match the namespace sent on the request ({given})"
            raise bad_request(text.rsplit(" (", 1)[0])
    if target.name:
        given = meta.setdefault("name", target.name)
        if given != target.name:
            text = f"the name of the object ({given}) does not match the name on the URL ({target.name})"
            raise bad_request(text)
    return body


def _check_kind(body: Object, served: ServedKind) -> None:
    kind, version = body.setdefault("kind", served.resource.kind), body.setdefault("apiVersion", served.api_version)
    if version != served.api_version:
        text = f"the API version in the data ({version}) does not match the expected API version ({served.api_version})"
        raise bad_request(text)
    if kind != served.resource.kind:
        name = served.resource.kind
        text = f'{kind} in version "{served.version}" cannot be handled as a {name}: '
        raise bad_request(f"{text}converting ({version}.{kind}) to (core.{name}): unknown conversion")
