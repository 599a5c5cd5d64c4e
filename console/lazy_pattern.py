"""Regular expressions that are compiled when they are first used.

A log holds the lines of one training program, and most commands print no error: few of the patterns of a module are
used, and compiling those that read logs took a twentieth of the time of `a4 jobs`.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Generic, cast


class _LazyPattern(Generic[AnyStr]):
    def __init__(self, text: AnyStr, flags: int) -> None:
        self._text: AnyStr = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)  # the next use finds it without coming here
        return value


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As re.compile, but a mistake in the pattern raises on first use.

    The functions of `re` do not take the result, and it is not the `re` of its matches.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(text, flags))
