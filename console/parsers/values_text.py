"""YAML that people write, as nodes that know their place in the text.

Values are read from the parser's events, never built by it: references, tags and other ways to make a few lines into
gigabytes or objects are refused where they stand, and a number keeps its spelling until its field says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from console.errors import BadInput
from console.models.draft import Remark
from console.models.secrecy import is_confidential, looks_confidential

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 1 << 20
"""Characters of a text; the values of a launch are a few thousand at most."""
DEEPEST = 20
"""Levels of lists and maps within each other."""


@dataclass(frozen=True, slots=True)
class Node:
    """One value in the text; places are indexes of its characters."""

    start: int
    end: int
    line: int
    """Counted from 1."""
    column: int
    text: str = ""
    """Of a single value, as it is spelled."""
    plain: bool = False
    """A single value without quotes."""
    flow: bool = False
    """A list or map in brackets."""
    entries: tuple[Entry, ...] | None = None
    """Of a map."""
    items: tuple[Node, ...] | None = None
    """Of a list."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a map and its value."""

    name: str
    key: Node
    value: Node


class TextFault(BadInput):
    """A text that is not YAML, or not a map of values; `remark` says where."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"Line {line}: {message}" if line else message)
        self.remark = Remark("", message, line)


@dataclass(slots=True)
class _Reading:
    text: str
    events: Iterator[Any]
    repeated: list[Remark] = field(default_factory=list)


def parse_text(text: str) -> tuple[Node | None, tuple[Remark, ...]]:
    """The map that a text is (None: it is empty) and its repeated keys; TextFault if it cannot be read at all."""
    import yaml  # only forms with a text, and values files, pay for it

    if len(text) > LONGEST:
        raise TextFault(f"The text has {len(text):,} characters; values have {LONGEST:,} at most.")
    reading = _Reading(text, iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))))
    try:
        return _document(reading), tuple(reading.repeated)
    except yaml.reader.ReaderError as error:
        place = error.position if isinstance(error.position, int) else 0
        line = text.count("\n", 0, place) + 1
        raise TextFault("a character stands here that YAML does not allow.", line) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax(text, error) from error


def _syntax(text: str, error: Any) -> TextFault:
    mark = error.problem_mark or error.context_mark
    number = mark.line + 1 if mark else 0
    lines = text.splitlines()
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    for place, before in enumerate(lines[: max(number, 1)], start=1):
        if before[: len(before) - len(before.lstrip())].count("\t") and place >= number - 1:
            return TextFault("it is indented with a tab; YAML takes spaces only.", place)
    problem = str(error.problem or "it cannot be read").replace("did not find", "there is no").replace("found ", "")
    shown = f" ({line.strip()[:40]})" if line.strip() and not _may_be_secret(line) else ""
    return TextFault(f"it is not YAML: {problem}{shown}.", number)


def _may_be_secret(line: str) -> bool:
    return looks_confidential(line) or is_confidential(line.partition(":")[0].strip(" -\"'"))


def _is(event: Any, kind: str) -> bool:
    """Whether the parser's event is of that kind."""
    return type(event).__name__ == kind


def _document(reading: _Reading) -> Node | None:
    root: Node | None = None
    documents = 0
    for event in reading.events:
        if _is(event, "DocumentStartEvent"):
            documents += 1
            if documents > 1:
                raise TextFault("a second document begins; values are one document.", event.start_mark.line + 1)
            root = _node(reading, next(reading.events), 0)
    if root is None or (root.entries is None and root.items is None and root.plain and not root.text):
        return None
    if root.entries is None:
        raise TextFault("The text must be a map of names and values, such as `gpus: 16`.", root.line)
    return root


def _node(reading: _Reading, event: Any, depth: int) -> Node:
    line = event.start_mark.line + 1
    if _is(event, "AliasEvent") or getattr(event, "anchor", None):
        raise TextFault("references (&name, *name) may not be used.", line)
    if getattr(event, "tag", None):
        raise TextFault(f"tags ({event.tag.replace('tag:yaml.org,2002:', '!!')}) may not be used.", line)
    if depth > DEEPEST:
        raise TextFault(f"it is nested more than {DEEPEST} levels deep.", line)
    if _is(event, "MappingStartEvent"):
        return _map(reading, event, depth)
    if _is(event, "SequenceStartEvent"):
        return _list(reading, event, depth)
    start, end = event.start_mark.index, event.end_mark.index
    if event.style in ("|", ">"):
        end = start + len(reading.text[start:end].rstrip())
    return Node(start, end, line, event.start_mark.column, str(event.value), plain=not event.style)


def _map(reading: _Reading, opened: Any, depth: int) -> Node:
    entries: list[Entry] = []
    seen: dict[str, int] = {}
    while not _is(event := next(reading.events), "MappingEndEvent"):
        key = _node(reading, event, depth + 1)
        if key.entries is not None or key.items is not None:
            raise TextFault("a name must be a single word, no list or map.", key.line)
        value = _node(reading, next(reading.events), depth + 1)
        if key.text == "<<" and key.plain:
            raise TextFault("maps may not be merged (<<).", key.line)
        if key.text in seen:
            message = f"{key.text} stands twice, here and in line {seen[key.text]}; keep one of them."
            reading.repeated.append(Remark(key.text, message, key.line))
        seen.setdefault(key.text, key.line)
        entries.append(Entry(key.text, key, value))
    first = entries[0].key if entries else None
    block = not opened.flow_style and first is not None
    return Node(
        first.start if block and first else opened.start_mark.index,
        entries[-1].value.end if block else event.end_mark.index,
        opened.start_mark.line + 1,
        first.column if block and first else opened.start_mark.column,
        flow=bool(opened.flow_style),
        entries=tuple(entries),
    )


def _list(reading: _Reading, opened: Any, depth: int) -> Node:
    items: list[Node] = []
    while not _is(event := next(reading.events), "SequenceEndEvent"):
        items.append(_node(reading, event, depth + 1))
    block = not opened.flow_style and items
    return Node(
        opened.start_mark.index,
        items[-1].end if block else event.end_mark.index,
        opened.start_mark.line + 1,
        opened.start_mark.column,
        flow=bool(opened.flow_style),
        items=tuple(items),
    )
