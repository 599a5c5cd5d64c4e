"""Loads YAML of others safely: limits on nesting, and on the number of entries with all references expanded."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 40  # levels of lists and maps within each other: far more than anything we read needs
_MAX_DEPTH_OF_LIBYAML = 400  # levels that libyaml takes on the smallest stack; it ends the process on too many
MAX_CHARACTERS, MAX_ENTRIES = 16 << 20, 200_000  # of 4,000 contexts of a kubeconfig; seconds of work at most


class NotPlainError(ValueError):
    """Raised when a YAML text cannot be loaded; the reason `why` ends a sentence, `line` is from 1, 0 if unknown."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why, self.line = why, line


def safe_loader() -> Any:
    import yaml  # 40 ms that most commands do without

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where there is one


def load_yaml(text: str, max_depth: int = _MAX_DEPTH_OF_LIBYAML, *, is_plain: bool = False) -> Any:
    """The data in a YAML text. Every failure is a YAMLError: too large or deep, invalid dates or numbers, syntax."""
    import yaml

    if len(text) > MAX_CHARACTERS:
        raise yaml.MarkedYAMLError(problem=f"it has more than {MAX_CHARACTERS >> 20} million characters")
    _check_cost(text, max_depth, is_plain)
    try:
        return yaml.load(text, Loader=safe_loader())
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(f"a value does not match its tag ({type(error).__name__})") from error


def _check_cost(text: str, max_depth: int, is_plain: bool) -> None:
    """Raise YAMLError for too many entries (references expanded), deep nesting, and if `is_plain` for references."""
    import yaml

    size, sizes = 0, dict[str | None, int]()  # entries up to here, and those of each anchor
    begun: list[tuple[str | None, int]] = []  # what is not closed yet: its anchor, and entries before it
    for event in yaml.parse(text, Loader=safe_loader()):
        problem = ""
        if isinstance(event, yaml.AliasEvent):
            size += sizes.get(event.anchor, 0)
            problem = "references (&name, *name) are not allowed" if is_plain else ""
        elif isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                begun.append((event.anchor, size))
            sizes[event.anchor], size = 1, size + 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            sizes[anchor] = size - before
        if len(begun) > max_depth:
            problem = "it is nested too deep"
        if size > MAX_ENTRIES:
            problem = f"it has more than {MAX_ENTRIES:,} entries"
        if problem:
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def load_without_references(text: str) -> Any:
    """The data in a YAML text; NotPlainError if invalid or with anchors and aliases, which can expand to gigabytes."""
    import yaml

    if found := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise NotPlainError(f"the character U+{ord(found[0]):04X} is not allowed", line)
    try:
        return load_yaml(text, MAX_DEPTH, is_plain=True)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise NotPlainError(getattr(error, "problem", None) or str(error), mark.line + 1 if mark else 0) from error
