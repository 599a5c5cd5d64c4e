"""Lines of text without terminal codes, and without the labels that launchers and log readers put in front."""

from __future__ import annotations

from collections.abc import Iterator

from trainlog.regex import lazy_pattern
from trainlog.word_search import ANSI_CODE, LineBlocks

MAX_LINE_BYTES = 1 << 14  # bytes of a line that are kept


class TextLineSplitter:
    """Splits bytes into text lines; an unterminated last line counts too."""

    def __init__(self, max_length: int = MAX_LINE_BYTES) -> None:
        self._max_length = max_length
        self._line_blocks = LineBlocks(max_length, returns=True)

    def feed(self, data: bytes) -> Iterator[str]:
        for raw in self._line_blocks.feed(data).split(b"\n")[:-1]:
            yield strip_terminal_codes(raw[: self._max_length])

    def flush(self) -> Iterator[str]:
        """Yield the last line if it has no line end."""
        rest = self._line_blocks.flush()
        if rest:
            yield strip_terminal_codes(rest)


def strip_terminal_codes(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return ANSI_CODE.sub("", text) if "\x1b" in text else text


_LABEL_PATTERNS = (  # what launchers and log readers put in front of a line, and whether it tells processes apart
    (r"\s*\[(\d+,\d+)\]<std(?:out|err)>: ?", True),
    (r"\s*\[(pod/[^\]\s]+)\] ?", True),
    (r"()\s*\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ", False),
    (r"()\s*\[\+ *[\d.]+\] ", False),
    (r"()\s*> ?", False),
    (r"\s*(\d+): ", True),
    (r"([\w.-]{1,253}(?: \d+)?): (?=[#\s\d])", True),
)
_LABELS = tuple((lazy_pattern(pattern), tells) for pattern, tells in _LABEL_PATTERNS)
_ANY_LABEL = lazy_pattern("|".join(pattern for pattern, _ in _LABEL_PATTERNS))
_LABEL_CHARACTERS = ":[>\x1b"  # one of these stands in every label, and in no row


def split_label(line: str) -> tuple[str, str]:
    """The process label in front of a line, such as "[rank3]:", and the line without it."""
    if line[:1] == "#" and "\x1b" not in line:
        return "", line
    if not any(map(line.__contains__, _LABEL_CHARACTERS)):
        return "", line
    text, stream = ANSI_CODE.sub("", line) if "\x1b" in line else line, ""
    for _ in range(6 if _ANY_LABEL.match(text) else 0):
        for pattern, tells in _LABELS:
            found = pattern.match(text)
            if found:
                stream = f"{stream}{found.group(1)}|" if tells else stream
                text = text[found.end() :]
                break
        else:
            break
    return stream, text
