"""Parses label selectors: ``a=b, c in (d, e), !f``; errors are worded as the API's."""

from __future__ import annotations

import re
from collections.abc import Callable

from practice.objects.api_error import bad_request

Term = Callable[[dict[str, str]], bool]

_TOKEN = re.compile(r"\s*([=!<>]+|[(),]|[^\s=!<>(),]+)")
_OPERATORS = ("=", "==", "!=", "in", "notin", ">", "<")
_SYMBOLS = frozenset("(),!") | {"=", "==", "!=", ">", "<"}
_EXPECTED = "in, notin, =, ==, !=, gt, lt"


def label_terms(text: str) -> list[Term]:
    """Return the terms of a selector, all of which must hold. Raises ApiError 400 when it cannot be read."""
    return _SelectorParser(text).parse_terms()


class _SelectorParser:
    """Parses the text of one label selector."""

    def __init__(self, text: str) -> None:
        self._tokens = [token for found in _TOKEN.findall(text) for token in _split_operators(found)]
        self._index = 0

    def parse_terms(self) -> list[Term]:
        terms = []
        while self._peek_token():
            if not _is_word(self._peek_token()) and self._peek_token() != "!":
                raise bad_request(f"found '{self._peek_token()}', expected: !, identifier, or 'end of string'")
            terms.append(self._parse_term())
            separator = self._next_token()
            if separator not in ("", ","):
                raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
            if separator and not _is_word(self._peek_token()) and self._peek_token() != "!":
                raise bad_request(f"found '{self._peek_token()}', expected: identifier after ','")
        return terms

    def _parse_term(self) -> Term:
        absent = self._peek_token() == "!"
        if absent:
            self._next_token()
        key = self._next_token()
        if not _is_word(key):
            raise _parse_error(key, "identifier")
        if absent:
            return lambda labels: key not in labels
        if self._peek_token() in ("", ","):
            return lambda labels: key in labels
        operator = self._next_token()
        if operator not in _OPERATORS:
            raise _parse_error(operator, _EXPECTED)
        if operator in ("in", "notin"):
            values = self._parse_values()
            if operator == "in":
                return lambda labels: key in labels and labels[key] in values
            return lambda labels: labels.get(key) not in values
        return _numeric_term(key, operator, self._parse_value())

    def _parse_value(self) -> str:
        if self._peek_token() in ("", ","):
            return ""
        value = self._next_token()
        if not _is_word(value):
            raise _parse_error(value, "identifier")
        return value

    def _parse_values(self) -> set[str]:
        opening = self._next_token()
        if opening != "(":
            raise bad_request(f"unable to parse requirement: found '{opening}' expected: '('")
        values, value = set(), ""
        while (token := self._next_token()) != ")":
            if token == ",":
                values.add(value)
                value = ""
            elif _is_word(token) and not value:
                value = token
            else:
                raise _parse_error(token, "',' or ')'")
        return values | {value}

    def _peek_token(self) -> str:
        return self._tokens[self._index] if self._index < len(self._tokens) else ""

    def _next_token(self) -> str:
        token = self._peek_token()
        self._index += 1
        return token


def _split_operators(token: str) -> list[str]:
    """Split a run of operators such as ``=!`` into the longest known ones."""
    if token in _SYMBOLS or not set(token) & set("=!<>"):
        return [token]
    head = token[:2] if token[:2] in _SYMBOLS else token[:1]
    return [head, *_split_operators(token[len(head) :])]


def _is_word(token: str) -> bool:
    return bool(token) and token not in _SYMBOLS


def _parse_error(problem: str, expected: str) -> Exception:
    return bad_request(f"unable to parse requirement: found '{problem}', expected: {expected}")


def _numeric_term(key: str, operator: str, value: str) -> Term:
    if operator in ("=", "=="):
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    sign = 1 if operator == ">" else -1
    return lambda labels: labels.get(key, "").isdigit() and (int(labels[key]) - int(value)) * sign > 0
