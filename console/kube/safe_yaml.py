"""Loads YAML typed by a person safely: no aliases, and limited nesting."""

from __future__ import annotations

import re
from typing import Any

DEEPEST = 40  # levels of lists and maps within each other: far more than anything we read needs
_DEEP_IN_C = 400  # levels that libyaml takes on the smallest stack; it ends the process on too many
_INDENTED = re.compile(rf"^[ \-?]{{{_DEEP_IN_C // 2}}}", re.MULTILINE)


class NotPlainError(ValueError):
    """Why a YAML text cannot be loaded, phrased to continue a sentence; `line` counts from 1, 0 if unknown."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why, self.line = why, line


def load_yaml(text: str) -> Any:
    """Parse YAML; every failure is a YAMLError, also for nesting too deep, invalid dates, numbers and booleans."""
    import yaml  # 40 ms that most commands do without

    if text.count("[") + text.count("{") > _DEEP_IN_C or _INDENTED.search(text):
        _refuse_depth(text)
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # in C where there is one
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(f"a value does not match its tag ({type(error).__name__})") from error


def _refuse_depth(text: str) -> None:
    """Raise YAMLError for nesting that is too deep; it reads parser events and does not recurse."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEP_IN_C:
            raise yaml.YAMLError("it is nested too deep")


def load_without_references(text: str) -> Any:
    """Parse YAML; NotPlainError for invalid YAML and for anchors and aliases, which can expand to gigabytes."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    if found := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise NotPlainError(f"the character U+{ord(found[0]):04X} is not allowed", line)
    try:
        for event in yaml.parse(text, Loader=loader):
            line = event.start_mark.line + 1 if event.start_mark else 0
            if isinstance(event, yaml.AliasEvent):
                raise NotPlainError("references (&name, *name) are not allowed", line)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise NotPlainError("it is nested too deep", line)
        return load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise NotPlainError(getattr(error, "problem", None) or str(error), mark.line + 1 if mark else 0) from error
