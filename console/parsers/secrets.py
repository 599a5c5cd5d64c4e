"""Secrets in what programs print, redacted before the text is kept anywhere.

Cost: a block without any of the words below is only searched for them, less than 1 ns a byte; of others, the lines in
which one stands are looked through.
"""

from __future__ import annotations

import re

from console.models.secrecy import AFTER, PRIVATE_KEY, SHAPES
from console.models.secrecy import REDACTED as REDACTED_TEXT
from console.parsers.words import Words

REDACTED = REDACTED_TEXT.encode()
_NAMES = (b"password", b"passwd", b"passphrase", b"pgpass", b"secret", b"token", b"key", b"_id", b"-id",
          b"credential", b"credentials", b"pwd")  # fmt: skip
_WORDS = Words(
    b"hf_", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat", b"glpat-", b"akia", b"asia", b"aiza", b"xox",
    b"hooks.slack", b"ya29.", b"ms-", b"gocspx-", b"eyj", b"sk-", b"nvapi-", b"pypi-", b"npm_", b"dckr_pat_",
    b"age-secret", b",value:", b"_pass ",
    b"bearer ", b"basic ", b"authorization", b"cookie", b"wandb", b" login ", b"curl ", b"signature=", b"sig=", b"@",
    *(name + sign for name in _NAMES for sign in (b"=", b":", b" =", b" :", b"\"", b"'", b"\\", b" ")),
    *(b"pass" + sign for sign in (b"=", b":", b" =", b" :", b" .", b"\"", b"'", b"\\")),
    fold=True,
)  # fmt: skip
"""A text without any of these has no secret in it that is known here."""
_SHAPES = re.compile(SHAPES.encode(), re.ASCII)
_AFTER = re.compile(AFTER.encode(), re.IGNORECASE | re.ASCII)
_KEY = re.compile(
    PRIVATE_KEY.encode() + rb"(?:(?!-----END)[\s\S]){0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?", re.ASCII
)
_BEGIN = re.compile(PRIVATE_KEY.encode())
_END = re.compile(rb"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_LINES = 200
"""The longest key has fewer lines than this; whatever has more was no key."""
_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,4}[@-~]|[@-Z\\-_])")


class Redactor:
    """Takes secrets out of the lines of one stream, also a private key that goes over many lines."""

    def __init__(self) -> None:
        self._left = 0
        """Lines that may still belong to a key."""

    def lines(self, lines: list[bytes]) -> list[bytes]:
        """The lines with what is secret redacted; as many as were given. Their first word is kept as it is."""
        block = b"\n".join(lines)
        if self._left or b"PRIVATE KEY" in block:
            return [self._line(line) for line in lines]
        suspects, coloured = _WORDS.lines(block), b"\x1b" in block
        if not suspects and not coloured:
            return lines
        clean, at = [], 0
        for line in lines:
            clean.append(redacted(line) if at in suspects or (coloured and b"\x1b" in line) else line)
            at += len(line) + 1
        return clean

    def _line(self, line: bytes) -> bytes:
        head, space, text = line.partition(b" ")
        if self._left:
            self._left -= 1
            end = _END.search(text)
            if end is None:
                return head + space + REDACTED
            self._left = 0
            return head + space + REDACTED + redacted(text[end.end() :])
        begin = _BEGIN.search(text)
        if begin is not None and _END.search(text, begin.end()) is None:
            self._left = _KEY_LINES
        return redacted(line)


def redacted(text: bytes) -> bytes:
    """The text without any secret that can be told by its look; where colours cut one in two, without colours."""
    if b"\x1b" in text:
        plain = _ESCAPE.sub(b"", text)
        if plain != text and (clean := redacted(plain)) != plain:
            return clean
        return text
    text = _KEY.sub(REDACTED, text)
    text = _SHAPES.sub(REDACTED, text)
    return _AFTER.sub(_keep_name, text)


def _keep_name(match: re.Match[bytes]) -> bytes:
    return next(group for group in match.groups() if group is not None) + REDACTED
