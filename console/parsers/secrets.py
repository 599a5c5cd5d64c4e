"""Secrets in what programs print, blotted out before the text is kept anywhere.

Cost: a block without any of the words below is only searched for them, less than 1 ns a byte.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.parsers.words import Words

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOT = "‹secret›".encode()
_WORDS = Words(
    b"hf_", b"gh", b"glpat-", b"AKIA", b"ASIA", b"AIza", b"xox", b"ya29.", b"eyJ", b"sk-", b"nvapi-", b"://",
    b"earer ", b"asic ", b"TOKEN", b"SECRET", b"PASSW", b"_KEY", b"PRIVATE KEY",
)  # fmt: skip
"""A text without any of these has no secret in it that is known here."""
_SHAPES = re.compile(
    rb"\b(?:hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{12,}"
    rb"|AIza[\w-]{30,}|xox[abprs]-[\w-]{10,}|ya29\.[\w.-]{10,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|sk-[\w-]{20,}|nvapi-[\w-]{16,})"
)
"""Hugging Face, GitHub, GitLab, AWS, Google, Slack, JSON web tokens, OpenAI, NVIDIA."""
_AFTER = re.compile(
    rb"((?:[Bb]earer|uthorization[\"']?\s*[:=]\s*[\"']?[Bb]asic)\s+)(?=\S*[\d._~+/=-])[A-Za-z0-9._~+/=-]{8,}"
    rb"|(\b[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY|PRIVATE_KEY|SECRET_KEY)(?:_ID)?[\"']?\s*[=:]\s*[\"']?)"
    rb"[^\s\"',;]{4,}"
    rb"|(://[^\s/:@]{0,100}:)[^\s/@]{1,500}(?=@)"
)
"""A header, a variable whose name says what it holds, a password in an address."""
_KEY = re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)", re.DOTALL)
_BEGIN = re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_END = re.compile(rb"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_LINES = 200
"""The longest key has fewer lines than this; whatever has more was no key."""


class Blotter:
    """Blots secrets out of the lines of one stream, also of a private key that goes over many lines."""

    def __init__(self) -> None:
        self._left = 0
        """Lines that may still belong to a key."""

    def lines(self, lines: list[bytes]) -> list[bytes]:
        """The lines with what is secret blotted out; as many as were given. Their first word is kept as it is."""
        block = b"\n".join(lines)
        if not self._left and not _WORDS.stand_in(block):
            return lines
        if not self._left and b"PRIVATE KEY" not in block:
            return blotted(block).split(b"\n")
        return [self._line(line) for line in lines]

    def _line(self, line: bytes) -> bytes:
        head, space, text = line.partition(b" ")
        if self._left:
            self._left -= 1
            end = _END.search(text)
            if end is None:
                return head + space + BLOT
            self._left = 0
            return head + space + BLOT + blotted(text[end.end() :])
        begin = _BEGIN.search(text)
        if begin is not None and _END.search(text, begin.end()) is None:
            self._left = _KEY_LINES
        return blotted(line)


def blotted(text: bytes) -> bytes:
    """The text with every secret that can be told by its look blotted out."""
    text = _KEY.sub(BLOT, text)
    text = _SHAPES.sub(BLOT, text)
    return _AFTER.sub(_keep_name, text)


def _keep_name(match: re.Match[bytes]) -> bytes:
    return next(group for group in match.groups() if group is not None) + BLOT


def known_values(text: bytes, values: Sequence[bytes]) -> bytes:
    """The text without those very values, such as the tokens of this machine's own environment."""
    for value in values:
        text = text.replace(value, BLOT)
    return text
