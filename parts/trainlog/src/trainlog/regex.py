"""Regular expressions: own ones compiled on first use, and those of a person's settings, matched by RE2.

A log holds the lines of one training program, and most commands print no error: few patterns of a module are used, and
compiling those for logs took a twentieth of the time of `a4 jobs`. RE2's time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, AnyStr, Generic, cast

MAX_PATTERN_CHARACTERS = 2000
"""Maximum length of a pattern in characters."""
RE2_MEMORY_BYTES = 4 << 20


class Re2Pattern:
    """A regular expression in RE2's syntax, which never matches beyond the end of a line."""

    def __init__(self, text: str) -> None:
        """Compile a regular expression. Raises ValueError, which says why it is invalid."""
        import re2  # 20 ms, which only those wait for who have written a pattern

        options = re2.Options()
        options.log_errors, options.never_nl, options.max_mem = False, True, RE2_MEMORY_BYTES
        try:
            self._pattern: Any = re2.compile(f"(?m){text}", options)
        except re2.error as error:
            why = error.args[0] if error.args else error
            message = why.decode() if isinstance(why, bytes) else str(why)
            raise ValueError(message.replace("(?m)", "", 1)) from None
        self.groups: tuple[str, ...] = tuple(self._pattern.groupindex)

    def search(self, text: str) -> tuple[int, dict[str, str]] | None:
        """(offset of the first match, texts of its matched named groups); None without a match."""
        found = self._pattern.search(text)
        if found is None:
            return None
        return found.start(), {name: each for name, each in found.groupdict().items() if each is not None}

    def places(self, block: bytes) -> Iterator[int]:
        """The offsets of the matches in many lines."""
        return (found.start() for found in self._pattern.finditer(block))


@lru_cache(maxsize=64)
def compile_pattern(text: str) -> Re2Pattern:
    """The compiled pattern, cached. Raises ValueError if it is invalid."""
    return Re2Pattern(text)


class _LazyPattern(Generic[AnyStr]):
    def __init__(self, text: AnyStr, flags: int) -> None:
        self._text: AnyStr = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)  # the next use finds it without coming here
        return value


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A regular expression that is compiled when it is first used."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(text, flags))
