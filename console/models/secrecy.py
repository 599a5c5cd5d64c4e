"""Texts that must not be seen: told by the name of a variable, or by the look of the text itself."""

from __future__ import annotations

import re

_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY")
_TAMED = {"PUBLIC"}
"""A public key is no secret."""
_HARMLESS = re.compile(r"\d{0,6}|true|false|/.*", re.IGNORECASE)
"""A switch, a number or the path of a file, whatever its variable is called."""
_SHAPES = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bglpat-[\w-]{20,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{35}"
    r"|\bxox[abp]-[\w-]{20,}|\bya29\.[\w-]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
"""Tokens that say what they are: Hugging Face, GitHub, GitLab, AWS, Google, Slack, private keys."""


def is_confidential(name: str, value: object = None) -> bool:
    """Whether a variable of that name holds a secret, so that its value is neither shown nor kept."""
    words = name.upper().split("_")
    if _TAMED.intersection(words) or not any(word.endswith(_WORDS) for word in words):
        return False
    return not (isinstance(value, str) and _HARMLESS.fullmatch(value))


def looks_confidential(text: str) -> bool:
    """Whether a text holds a token or key by its shape."""
    return _SHAPES.search(text) is not None
