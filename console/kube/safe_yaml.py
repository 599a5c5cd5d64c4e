"""Loads YAML of others safely: limited entries, also with all references written out, and limited nesting."""

from __future__ import annotations

from copy import copy
from typing import Any

MAX_DEPTH = 40  # levels of lists and maps within each other: far more than anything we read needs
_MAX_DEPTH_OF_LIBYAML = 400  # levels that libyaml takes on the smallest stack; it ends the process on too many
MAX_CHARACTERS, MAX_ENTRIES = 16 << 20, 200_000  # of 4,000 contexts of a kubeconfig; seconds of work at most


class NotPlainError(ValueError):
    """Why a YAML text cannot be loaded, phrased to continue a sentence; `line` counts from 1, 0 if unknown."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why, self.line = why, line


def safe_loader() -> Any:
    import yaml  # 40 ms that most commands do without

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where there is one


def load_yaml(text: str, deepest: int = _MAX_DEPTH_OF_LIBYAML, *, plain: bool = False) -> Any:
    """Parse YAML; every failure is a YAMLError, also for too much or too deep, invalid dates, numbers and booleans."""
    import yaml

    if len(text) > MAX_CHARACTERS:
        raise yaml.MarkedYAMLError(problem=f"it has more than {MAX_CHARACTERS >> 20} million characters")
    _check_cost(text, deepest, plain)
    try:
        return yaml.load(text, Loader=safe_loader())
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(f"a value does not match its tag ({type(error).__name__})") from error


def _check_cost(text: str, deepest: int, plain: bool) -> None:
    """Raise YAMLError for too many entries, with all references written out, for too deep ones, and what is not plain.

    It reads parser events and does not recurse.
    """
    import yaml

    size, sizes = 0, dict[str | None, int]()  # entries up to here, and those of each anchor
    begun: list[tuple[str | None, int]] = []  # what is not closed yet: its anchor, and entries before it
    for event in yaml.parse(text, Loader=safe_loader()):
        problem = ""
        if isinstance(event, yaml.AliasEvent):
            size += sizes.get(event.anchor, 0)
            problem = "references (&name, *name) are not allowed" if plain else ""
        elif isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                begun.append((event.anchor, size))
            sizes[event.anchor], size = 1, size + 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            sizes[anchor] = size - before
        if len(begun) > deepest:
            problem = "it is nested too deep"
        if size > MAX_ENTRIES:
            problem = f"it has more than {MAX_ENTRIES:,} entries"
        if problem:
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def load_without_references(text: str) -> Any:
    """Parse YAML; NotPlainError for invalid YAML and for anchors and aliases, which can expand to gigabytes."""
    import yaml

    if found := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise NotPlainError(f"the character U+{ord(found[0]):04X} is not allowed", line)
    try:
        return load_yaml(text, MAX_DEPTH, plain=True)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise NotPlainError(getattr(error, "problem", None) or str(error), mark.line + 1 if mark else 0) from error


_NOT_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off"})  # words that YAML takes for something else
_CONSTANTS: dict[str, Any] = {"null": None, "true": True, "false": False, "{}": {}, "[]": []}
_MAX_PLAIN_LINES, _MAX_PLAIN_MARGIN = 20_000, 80

Lines = list[tuple[int, int, str]]  # of each its number, its margin, and its text


class _UnusualError(ValueError):
    """A text has more of YAML in it than `load_usual` knows."""


def load_usual(text: str) -> Any:
    """What `load_yaml` finds in a file as programs write kubeconfigs, in a tenth of the time; None for any other.

    That is one with lists and maps of lines, and text that is plain or quoted without escapes.
    """
    lines = [
        (number, len(line) - len(bare), bare.rstrip(" "))
        for number, line in enumerate(text.split("\n"))
        if (bare := line.lstrip(" ")) and not bare.startswith("#")
    ]
    usual = text.isascii() and text.replace("\n", "").isprintable() and 0 < len(lines) <= _MAX_PLAIN_LINES
    try:
        found, at = _parse_block(lines, 0, 0) if usual and lines[0][1] == 0 else (None, 0)
    except _UnusualError:
        return None
    return found if at == len(lines) else None


def _parse_block(lines: Lines, at: int, margin: int) -> tuple[Any, int]:
    """The list or map that begins there, and where it ends."""
    if margin > _MAX_PLAIN_MARGIN:
        raise _UnusualError
    if lines[at][2].startswith("- "):
        return _parse_list(lines, at, margin)
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at][1] == margin:
        number, _, line = lines[at]
        key, colon, value = line.partition(":")
        if not colon or value[:1] not in {"", " "} or not key[:1].isalpha() or not key.replace("-", "").isalnum():
            raise _UnusualError
        at, value = at + 1, value.strip(" ")
        below = lines[at][1] - margin if at < len(lines) else -1
        if not value:
            is_block = below > 0 or (below == 0 and lines[at][2].startswith("- "))
            found[key], at = _parse_block(lines, at, margin + below) if is_block else (None, at)
            continue
        while below > 0:  # text that goes on
            if lines[at][0] != number + 1 or not (value[0].isalpha() and lines[at][2][0].isalnum()):
                raise _UnusualError
            value, number, at = f"{value} {lines[at][2]}", number + 1, at + 1
            below = lines[at][1] - margin if at < len(lines) else -1
        found[key] = _parse_scalar(value)
    return found, at


def _parse_list(lines: Lines, at: int, margin: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while at < len(lines) and lines[at][1] == margin and lines[at][2].startswith("- "):
        number, _, line = lines[at]
        bare = line[2:].lstrip(" ")
        if ":" in bare and (": " in bare or bare.endswith(":")):
            lines[at] = number, margin + len(line) - len(bare), bare
            value, at = _parse_block(lines, at, lines[at][1])
        else:
            value, at = _parse_scalar(bare), at + 1
        found.append(value)
    return found, at


def _parse_scalar(text: str) -> Any:
    if text in _CONSTANTS:
        return copy(_CONSTANTS[text])
    if text[:1] in {'"', "'"} and len(text) > 1 and text[-1] == text[0] and not {text[0], "\\"} & {*text[1:-1]}:
        return text[1:-1]
    if text.isdecimal() and (text == "0" or text[0] != "0"):
        return int(text)
    is_text = text[:1].isalpha() or text.startswith(("/", "--"))
    if not is_text or text.lower() in _NOT_TEXT or ": " in text or " #" in text or text.endswith(":"):
        raise _UnusualError
    return text
