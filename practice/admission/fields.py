"""Field errors worded as by the API machinery."""

from __future__ import annotations

import json
import re
from typing import Any

from practice.objects.api_error import FieldCause

IMMUTABLE = "field is immutable"
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PORT = re.compile(r"[-a-z0-9]+")
_LABEL_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1123_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def invalid(path: str, value: Any, detail: str) -> FieldCause:
    """The cause that a value is wrong: ``Invalid value: "x": detail``."""
    shown = value if isinstance(value, str) else _format_go(value)
    text = json.dumps(shown, ensure_ascii=False) if isinstance(value, str) else shown
    return FieldCause(path, f"Invalid value: {text}: {detail}", "FieldValueInvalid")


def required_value(path: str, detail: str = "") -> FieldCause:
    return FieldCause(path, "Required value" + (f": {detail}" if detail else ""), "FieldValueRequired")


def forbidden_value(path: str, detail: str) -> FieldCause:
    """The cause that a value may not be set."""
    return FieldCause(path, f"Forbidden: {detail}", "FieldValueForbidden")


def unsupported_value(path: str, value: str, allowed: list[str]) -> FieldCause:
    """The cause that a value is not one of those allowed."""
    listed = ", ".join(f'"{item}"' for item in allowed)
    return FieldCause(path, f'Unsupported value: "{value}": supported values: {listed}', "FieldValueNotSupported")


def duplicate_value(path: str, value: Any) -> FieldCause:
    """The cause that a value occurs twice."""
    shown = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return FieldCause(path, f"Duplicate value: {shown}", "FieldValueDuplicate")


def not_found(path: str, value: str) -> FieldCause:
    """The cause that a value refers to an object that does not exist."""
    return FieldCause(path, f"Not found: {json.dumps(value, ensure_ascii=False)}", "FieldValueNotFound")


def internal(text: str) -> FieldCause:
    """The cause for an error without a field, as webhooks wrap plain errors."""
    return FieldCause("<nil>", f"Internal error: {text}", "InternalError")


def label_faults(value: str) -> list[str]:
    """Return the reasons why a value is no RFC 1035 label."""
    faults = []
    if len(value) > 63:
        faults.append("must be no more than 63 characters")
    if not _LABEL.fullmatch(value):
        faults.append(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
            "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )
    return faults


def rfc1123_label_faults(value: str) -> list[str]:
    """Return the reasons why a value is no RFC 1123 label."""
    if len(value) > 63:
        return ["must be no more than 63 characters"]
    return [] if _LABEL_1123.fullmatch(value) else [_LABEL_1123_WORDS]


def label_value_faults(value: str) -> list[str]:
    """Return the reasons why a value is not valid as a label's value."""
    if len(value) > 63:
        return ["must be no more than 63 bytes"]
    return [] if _VALUE.fullmatch(value) else [_VALUE_WORDS]


def port_name_faults(value: str) -> list[str]:
    """Return the reasons why a value is no port name."""
    faults = ["must be no more than 15 characters"] if len(value) > 15 else []
    if not _PORT.fullmatch(value):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    elif not re.search("[a-z]", value):
        faults.append("must contain at least one letter (a-z)")
    return faults


def subdomain_faults(value: str) -> list[str]:
    """Return the reasons why a value is no RFC 1123 subdomain."""
    faults = []
    if len(value) > 253:
        faults.append("must be no more than 253 characters")
    if not _SUBDOMAIN.fullmatch(value):
        faults.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )
    return faults


def qualified_name_faults(value: str) -> list[str]:
    """Return the reasons why a value is no qualified name (label key with optional prefix)."""
    parts = value.split("/")
    if len(parts) > 2:
        text = (
            f"a qualified name {_NAME_WORDS} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        return [text]
    faults = []
    if len(parts) == 2:
        prefix = parts[0]
        faults += ["prefix part must be non-empty"] if not prefix else []
        faults += [f"prefix part {text}" for text in subdomain_faults(prefix)] if prefix else []
    name = parts[-1]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 characters")
    if not _NAME.fullmatch(name):
        faults.append(f"name part {_NAME_WORDS}")
    return faults


def _format_go(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (dict, list)) else str(value)
