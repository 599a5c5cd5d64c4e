"""Makes text from outside harmless for the terminal: no escape codes, controls, reordering or piled accents are left.

Text from the cluster, logs, files and servers passes through these functions before it is drawn or printed.
"""

from __future__ import annotations

from trainlog import lazy_pattern


def one_line(text: str) -> str:
    """Sanitize a text for one line of the terminal: control characters become visible marks."""
    if not text.isprintable():
        text = "".join([letter if letter.isprintable() else _visible_form(letter) for letter in text])
    return text if text.isascii() else _PILED_ACCENTS.sub(r"\1", text.replace("\ufe0f", ""))


_PILED_ACCENTS = lazy_pattern(
    r"([\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
    r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
"""More than four combining accents on one letter, which no language has and which would cover the lines above."""


def _visible_form(letter: str) -> str:
    if letter in "\n\r":
        return "⏎"
    if letter == "\t" or letter.isspace():
        return " "
    return "" if letter == "\u200d" else "·"


def for_terminal(text: str) -> str:
    """Sanitize lines for a terminal: colours are removed, other control characters made visible."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    plain = _COLOUR_CODES.sub("", text)
    return "\n".join(one_line(line.expandtabs(8)) for line in plain.split("\n"))


_COLOUR_CODES = lazy_pattern(r"\x1b\[[0-9;:]{0,100}m")
