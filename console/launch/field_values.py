"""Values of form fields as text and as JSON data: `parse_value` parses typed text, `format_value` writes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from console.errors import BadInput
from console.kube.nested_values import Value, set_path
from console.kube.safe_yaml import NotPlainError, load_without_references
from console.launch.recipes import Field, FieldKind, FieldProblem
from trainlog import looks_confidential

_TRUE_WORDS = {"true", "yes", "on", "1"}


_FALSE_WORDS = {"false", "no", "off", "0"}


def parse_value(field: Field, text: str) -> Value:
    """Parse typed text to the field's value; BadInput with a sentence if it has the wrong type."""
    match field.kind:
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return _parse_number(field, text)
        case FieldKind.BOOLEAN:
            return _parse_boolean(field, text)
        case FieldKind.CHOICE:
            return _parse_choice(field, text)
        case FieldKind.LIST:
            return [word.strip() for line in text.splitlines() for word in line.split(",") if word.strip()]
        case FieldKind.MAP:
            return _parse_pairs(field, text)
        case FieldKind.ROWS:
            return _parse_rows(field, text)
        case FieldKind.TEXT:
            return text.strip()
        case FieldKind.BLOCK:
            return text


def format_value(field: Field, value: Value) -> str:
    """A value as text that `parse_value` reads back; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if field.kind is FieldKind.ROWS:
        import yaml  # only forms with such a field pay for it

        return "" if value == [] else str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).strip()
    if isinstance(value, Mapping):
        return "\n".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(str(item) for item in value)
    return str(value)


def parse_changes(
    fields: Sequence[Field], texts: Mapping[str, str]
) -> tuple[dict[str, Value], tuple[FieldProblem, ...]]:
    """Parse a form's texts to nested changes of the defaults (None removes a map's name), and problems."""
    values: dict[str, Value] = {}
    problems: list[FieldProblem] = []
    for field in fields:
        if field.path not in texts:
            continue
        try:
            value = parse_value(field, texts[field.path])
        except BadInput as error:
            problems.append(FieldProblem(field.path, error.message))
            continue
        if value != field.default:
            set_path(values, field.path, changed_part(field.default, value))
    return values, tuple(problems)


def changed_part(default: Value, value: Value) -> Value:
    """The difference of a value from its default, as Helm merges it: of a map only the changed names."""
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    different: dict[str, Value] = {name: item for name, item in value.items() if default.get(name) != item}
    return different | dict.fromkeys(name for name in default if name not in value)


def _parse_number(field: Field, text: str) -> int | float:
    plain = text.strip().replace("_", "").replace(",", "")
    try:
        return int(plain) if field.kind is FieldKind.INTEGER else float(plain)
    except ValueError:
        what = "a whole number" if field.kind is FieldKind.INTEGER else "a number"
        raise BadInput(f"{field.title} must be {what}{_quote_given(field, text)}.") from None


def _parse_boolean(field: Field, text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE_WORDS | _FALSE_WORDS:
        raise BadInput(f"{field.title} must be true or false{_quote_given(field, text)}.")
    return word in _TRUE_WORDS


def _parse_choice(field: Field, text: str) -> str:
    word = text.strip()
    if word not in field.choices:
        raise BadInput(f"{field.title} must be one of {', '.join(field.choices)}{_quote_given(field, text)}.")
    return word


def _parse_pairs(field: Field, text: str) -> dict[str, Value]:
    pairs: dict[str, Value] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise BadInput(f"{field.title} takes NAME=text, one a line{_quote_given(field, line)}.")
        pairs[name.strip()] = value.strip()
    return pairs


def _parse_rows(field: Field, text: str) -> list[Value]:
    try:
        rows = load_without_references(text)
    except NotPlainError as error:
        raise BadInput(f"{field.title} cannot be read as YAML: {error.why}.") from error
    if rows is None:
        return []
    if not isinstance(rows, list):
        raise BadInput(f"{field.title} must be a list: one entry a line, each beginning with '- '.")
    return rows


def _quote_given(field: Field, text: str) -> str:
    return "" if field.secret or field.choices_from == "secrets" else quote_value(text)


def quote_value(value: object) -> str:
    """The end of a sentence, such as "; 8x was given"; empty for a value that looks like a secret."""
    text = re.sub(r"\s+", " ", value if isinstance(value, str) else repr(value)).strip()
    if looks_confidential(text):
        return ""
    if not text:
        return "; it is empty"
    return f"; {text if len(text) <= 60 else text[:57] + '...'} was given"
