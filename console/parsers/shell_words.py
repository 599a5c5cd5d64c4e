"""A pasted shell command into words as the shell makes them: quotes, continued lines, variables; nothing is run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
_HOLE = re.compile(r"<[A-Za-z][\w .-]*>")
_SETS = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENDS = {"\n", ";", "|", "&"}


@dataclass(slots=True)
class Word:
    """One word, with the variables in it that nobody has set."""

    text: str = ""
    unknown: list[str] = field(default_factory=list)


def commands(text: str, variables: Mapping[str, str]) -> list[list[Word]]:
    """Every simple command of a text; `export NAME=value` lines count for those after them."""
    known = dict(variables)
    made: list[list[Word]] = []
    splitter = _Splitter(text, known)
    while (words := splitter.command()) is not None:
        rest = list(words)
        while rest and (assigned := _SETS.fullmatch(rest[0].text)) and not rest[0].unknown:
            known[assigned[1]] = assigned[2]
            rest.pop(0)
        if rest and rest[0].text == "export":
            for word in rest[1:]:
                assigned = _SETS.fullmatch(word.text)
                if assigned and not word.unknown:
                    known[assigned[1]] = assigned[2]
        elif rest:
            made.append(rest)
    return made


class _Splitter:
    def __init__(self, text: str, variables: dict[str, str]) -> None:
        self._text = re.sub(r"\\[ \t]*\r?\n", " ", text).replace("\r\n", "\n")
        self._variables = variables
        self._at = 0

    def command(self) -> list[Word] | None:
        """The words up to the end of a command; None at the end of the text."""
        words: list[Word] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in _ENDS:
                self._at += 1
                if words:
                    return words
            elif char.isspace():
                self._at += 1
            elif (char == "#" and not words) or (char == "#" and self._text[self._at - 1].isspace()):
                self._at = self._end_of_line()
            else:
                words.append(self._word())
        return words or None

    def _end_of_line(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end

    def _word(self) -> Word:
        word = Word()
        while self._at < len(self._text):
            char = self._text[self._at]
            if char.isspace() or (char in _ENDS and not _HOLE.match(self._text, self._at)):
                break
            if char == "'":
                word.text += self._until("'")
            elif char == '"':
                self._double(word)
            elif char == "\\":
                word.text += self._text[self._at + 1 : self._at + 2]
                self._at += 2
            else:
                self._plain(word)
        return word

    def _until(self, quote: str) -> str:
        end = self._text.find(quote, self._at + 1)
        if end < 0:
            line = self._text.count("\n", 0, self._at) + 1
            raise BadInput(f"The quote {quote} in line {line} is never closed.")
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        return inner

    def _double(self, word: Word) -> None:
        opened = self._at
        self._at += 1
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                return
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in {'"', "\\", "$", "`"}:
                word.text += self._text[self._at + 1]
                self._at += 2
            else:
                self._plain(word)
        line = self._text.count("\n", 0, opened) + 1
        raise BadInput(f'The quote " in line {line} is never closed.')

    def _plain(self, word: Word) -> None:
        """One character, or a variable, or what stands for a value that the person has to put in."""
        char = self._text[self._at]
        if char == "`" or self._text.startswith("$(", self._at):
            close = "`" if char == "`" else ")"
            end = self._text.find(close, self._at + 1)
            end = len(self._text) if end < 0 else end + 1
            self._hole(word, self._text[self._at : end])
        elif found := _NAME.match(self._text, self._at):
            name = found[1] or found[2]
            self._at = found.end()
            value = self._variables.get(name, found[3])
            if value is None:
                word.unknown.append(f"${name}")
                value = f"${name}"
            word.text += value
        elif found := _HOLE.match(self._text, self._at):
            self._hole(word, found[0])
        else:
            word.text += char
            self._at += 1

    def _hole(self, word: Word, text: str) -> None:
        word.unknown.append(text)
        word.text += text
        self._at += len(text)
