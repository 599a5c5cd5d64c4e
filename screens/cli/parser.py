"""The parser of the command line: argparse with the messages and the help of this program."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from console.errors import BadInput
from screens.cli.output import print_error, write_to_terminal
from screens.sanitize import for_terminal
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_REWORDED_ERRORS = (
    (lazy_pattern(r"argument (.+): not allowed with argument (.+)"), r"\1 cannot be used with \2"),
    (lazy_pattern(r"argument (.+): expected .*"), r"\1 needs a value"),
    (lazy_pattern(r"argument (.+): invalid int value: (.+)"), r"\1 has to be a whole number, not \2"),
    (lazy_pattern(r"argument (.+): invalid \w+ value: (.+)"), r"\1 has to be a number, not \2"),
    (lazy_pattern(r"argument (.+?): ((?:a|seconds) .+)"), r"\1 has to be \2"),
    (lazy_pattern(r"argument (.+?): empty"), r"\1 is empty: is a variable of your shell not set?"),
    (lazy_pattern(r"argument (.+?): (.+)"), r"\1: \2"),
    (lazy_pattern(r"the following arguments are required: (.+)"), r"Missing: \1"),
)
"""(pattern of argparse's error message, our wording of it)."""


_HELP_COLORS = (
    (lazy_pattern(r"(?m)^usage:|^[a-zA-Z][\w ]*:$"), "\x1b[1m\\g<0>\x1b[0m"),
    (lazy_pattern(r"(?<![\w./`-])--?[a-zA-Z][\w-]*"), "\x1b[36m\\g<0>\x1b[0m"),
    (lazy_pattern(r"(?m)^( {2,4})([a-zA-Z][^\s\x1b]*)(?=  |$)"), "\\1\x1b[36m\\2\x1b[0m"),
)
"""Titles are bold; options, and words that begin an entry, are cyan."""


class CommandLineParser(argparse.ArgumentParser):
    """An argument parser with a4's error messages; options may not be abbreviated."""

    _given: Sequence[str] = ()
    _width: int | None = 80  # of what argparse lays out to check each argument; None: as wide as the terminal

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.color = False  # Python 3.14 has colours of its own

    @property
    def epilog(self) -> str | None:
        """The text below the options, made when shown, as a list's needs the module of its columns; None without."""
        return self._epilog() if callable(self._epilog) else self._epilog

    @epilog.setter
    def epilog(self, text: str | Callable[[], str] | None) -> None:
        self._epilog = text

    def _get_formatter(self) -> argparse.HelpFormatter:
        return self.formatter_class(prog=self.prog, width=self._width)  # type: ignore[call-arg]

    def format_help(self) -> str:
        self._width = None
        return super().format_help()

    def format_usage(self) -> str:
        self._width = None
        return super().format_usage()

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help, in colours if the terminal has them and NO_COLOR is not set."""
        colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        if file is not None or not colored:
            super().print_help(file)
            return
        text = for_terminal(self.format_help())
        for found, painted in _HELP_COLORS:
            text = found.sub(painted, text)
        write_to_terminal(sys.stdout, text)

    def parse_known_args(  # type: ignore[override]  # argparse itself calls it so
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As in argparse, except that an unknown argument is an error of this command."""
        self._given = sys.argv[1:] if args is None else args
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            if word.startswith("-"):
                self._raise_unknown_option(word)
            self.error(f"{self.prog.removeprefix('a4 ')} has no use for {word!r}")
        return found, unknown

    def _raise_unknown_option(self, word: str) -> NoReturn:
        where = self.prog.removeprefix("a4 ")
        words = f"There is no option {word}" if where == "a4" else f"{where} has no option {word}"
        self.error(f"{words}.{suggest_word(word, self._option_string_actions)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(each) for each in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            # The value of an option that is not known is taken for a command: the option is the mistake.
            for word in takewhile(lambda each: each != value, self._given):
                if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions:
                    self._raise_unknown_option(word.partition("=")[0])
            self.error(f"There is no command {value}.{suggest_word(str(value), choices)}")
        name = "/".join(action.option_strings) or self.prog
        allowed = f"The allowed values are {', '.join(choices)}."
        self.error(f"{value!r} is not a value of {name}. {allowed}{suggest_word(str(value), choices)}")

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help on standard error; exits with 2."""
        for found, words in _REWORDED_ERRORS:
            if found.fullmatch(message):
                message = found.sub(words, message)
                break
        end = "" if message.endswith(("?", ".")) else "."
        raise SystemExit(print_error(BadInput(f"{message}{end}", f"{self.prog} --help says more.")))


def suggest_word(word: str, names: Iterable[str]) -> str:
    """The known word that was probably meant, as a question; empty if none is similar."""
    from difflib import get_close_matches

    bare = {each.lstrip("-"): each for each in names}  # the dashes that all options have make none of them alike
    found = get_close_matches(word.lstrip("-"), bare, 1)
    return f" Did you mean {bare[found[0]]}?" if found else ""
