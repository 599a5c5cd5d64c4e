"""Loads YAML of others safely: limits on nesting, and on the number of entries with all references expanded."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 40  # levels of lists and maps within each other: far more than anything we read needs
_MAX_DEPTH_OF_LIBYAML = 400  # levels that libyaml takes on the smallest stack; it ends the process on too many
MAX_CHARACTERS, MAX_ENTRIES = 16 << 20, 200_000  # of 4,000 contexts of a kubeconfig; seconds of work at most

_MAX_PLAIN_CHARACTERS = 1 << 18  # characters of a text beyond which the loader in C is faster
_MAX_KEY = 1000  # characters of a key: some more are an error
_PLAIN_WORDS = {"true": True, "false": False, "null": None}
_OTHER_WORDS = frozenset({*_PLAIN_WORDS, "yes", "no", "on", "off"})  # what is no string, however it is capitalized


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


def parse_plain_yaml(text: str) -> Any:
    """The data in a YAML text of block maps, lists, words and strings, the same that `load_yaml` gives.

    Raises NotPlainError for a text that has any other form, which may be valid.
    """
    if len(text) > _MAX_PLAIN_CHARACTERS or not text.isascii():
        raise NotPlainError("it is long, or not in ASCII")
    return _PlainParser(text).parse()


class _PlainParser:
    """The tokens of one text: (column, text, line from 0), where a dash is a token, and the last one has column -1."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[int, str, int]] = []
        self._at = 0
        for number, line in enumerate(text.split("\n")):
            if not line.isprintable():
                raise NotPlainError("a character that is not printed", number + 1)
            rest = line.strip(" ")
            column = line.find(rest)
            if rest.startswith("#"):
                continue
            while rest == "-" or rest.startswith("- "):
                self._tokens.append((column, "-", number))
                inside = rest[1:].lstrip(" ")
                column, rest = column + len(rest) - len(inside), inside
            if rest:
                self._tokens.append((column, rest, number))
        self._tokens.append((-1, "", -1))

    def parse(self) -> Any:
        found = self._parse_collection(0, 1)
        if self._at < len(self._tokens) - 1:
            raise self._unknown_form()
        return found

    def _unknown_form(self) -> NotPlainError:
        return NotPlainError("a form that is not known here", self._tokens[self._at][2] + 1)

    def _parse_collection(self, column: int, depth: int) -> Any:
        """The list or map whose entries begin at `column`."""
        is_list = self._tokens[self._at][1] == "-"
        items: list[Any] = []
        fields: dict[str, Any] = {}
        while self._tokens[self._at][0] == column and (self._tokens[self._at][1] == "-") is is_list:
            key, rest = ("", "") if is_list else self._split_field(self._tokens[self._at][1])
            self._at += 1
            inner, text, _ = self._tokens[self._at]
            is_nested = not rest and (inner > column or (inner == column and text == "-" and not is_list))
            found = None
            if rest:
                found = self._parse_string(rest, column)
            elif is_nested and depth < MAX_DEPTH and (not is_list or text == "-" or ": " in text or text[-1] == ":"):
                found = self._parse_collection(inner, depth + 1)
            elif is_nested and is_list:
                self._at += 1
                found = self._parse_string(text, column)
            elif is_nested or is_list:
                raise self._unknown_form()
            if is_list:
                items.append(found)
            else:
                fields[key] = found
        if self._tokens[self._at][0] > column or not (items or fields):
            raise self._unknown_form()
        return items if is_list else fields

    def _split_field(self, text: str) -> tuple[str, str]:
        """(key, text of the value, empty if that follows in the next lines) of an entry of a map."""
        key, colon, rest = text.partition(": ")
        key = key if colon else key[:-1]
        is_word = key[:1].isalpha() and key.replace("-", "").replace("_", "").replace(".", "").isalnum()
        if not (colon or text.endswith(":")) or not is_word or len(key) > _MAX_KEY or key.lower() in _OTHER_WORDS:
            raise self._unknown_form()
        return key, rest.lstrip(" ")

    def _parse_string(self, text: str, column: int) -> Any:
        """The value of an entry that begins at `column`; a text without quotes may go on in the next lines."""
        if text in {"{}", "[]"}:
            return {} if text == "{}" else []
        if text[0] in "\"'":
            if len(text) < 2 or text[-1] != text[0] or text[0] in text[1:-1] or "\\" in text:
                raise self._unknown_form()
            return text[1:-1]
        is_known = text[0].isalpha() or text[0] in "/_" or (text[:2] == "--" and text[2:3].isalpha())
        parts, line = [text], self._tokens[self._at - 1][2]
        while self._tokens[self._at][0] > column and self._tokens[self._at][2] == line + 1:
            parts.append(self._tokens[self._at][1])
            self._at, line = self._at + 1, line + 1
        if not is_known or any(": " in part or " #" in part or part[-1] == ":" for part in parts):
            raise self._unknown_form()
        if not all(part[0].isalnum() for part in parts[1:]):
            raise self._unknown_form()
        found = " ".join(parts)
        if found.lower() in _OTHER_WORDS and found not in _PLAIN_WORDS:
            raise self._unknown_form()
        return _PLAIN_WORDS.get(found, found)
